#id = affine_map<(i) -> (i)>

// Prodigy (Mishchenko and Defazio 2024, Algorithm 4) with decoupled decay, as in the authors'
// code: AdamW whose rate is lr * d, where d is a lower bound of the distance from the initial
// weights p0 to a solution, estimated from sums over the model. The host gives d, the largest
// estimate d_max and the numerator d_numerator of the step before, and computes the new ones from
// the two sums in the same way as this graph does for epsilon; fresh is 1 while d is d0, then 0.
func.func @prodigy(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %s: tensor<?xf32> {tandem.role = #tandem.role<state "s", moment = slow>},
    %p0: tensor<?xf32> {tandem.role = #tandem.role<state "p0", moment = average>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %s_beta: f64 {tandem.role = #tandem.role<hyper "s_beta", domain = unit, default = 0.99949987493746096>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %d: f64 {tandem.role = #tandem.role<hyper "d", domain = epsilon, default = 1.0e-6>},
    %d_max: f64 {tandem.role = #tandem.role<hyper "d_max", domain = nonneg, default = 1.0e-6>},
    %d_numerator: f64 {tandem.role = #tandem.role<hyper "d_numerator", default = 0.0>},
    %d0: f64 {tandem.role = #tandem.role<hyper "d0", domain = epsilon, default = 1.0e-6>},
    %fresh: f64 {tandem.role = #tandem.role<hyper "fresh", domain = nonneg, default = 1.0>},
    %d_coef: f64 {tandem.role = #tandem.role<hyper "d_coef", domain = nonneg, default = 1.0>},
    %growth_rate: f64 {tandem.role = #tandem.role<hyper "growth_rate", domain = nonneg, default = 1.0e38>},
    %bias_correction: f64 {tandem.role = #tandem.role<hyper "bias_correction", domain = nonneg, default = 0.0>},
    %safeguard: f64 {tandem.role = #tandem.role<hyper "safeguard", domain = nonneg, default = 0.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %no = arith.constant 0.0 : f64
  %i1 = arith.constant 1 : i64
  %before = arith.subi %step, %i1 : i64
  %is_first = math.fpowi %no, %before : f64, i64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %d2 = arith.subf %one, %p2 : f64
  %root2 = math.sqrt %d2 : f64
  %corrected = arith.divf %root2, %d1 : f64
  %excess = arith.subf %corrected, %one : f64
  %added = arith.mulf %bias_correction, %excess : f64
  %correction = arith.addf %one, %added : f64
  %given = arith.mulf %lr, %correction : f64
  %dlr = arith.mulf %d, %given : f64
  %ndlr = arith.negf %dlr : f64
  %relative = arith.divf %d, %d0 : f64
  %part = arith.mulf %relative, %dlr : f64
  %unsafe = arith.subf %one, %safeguard : f64
  %by_rate = arith.mulf %unsafe, %dlr : f64
  %by_d = arith.mulf %safeguard, %d : f64
  %rate_of_s = arith.addf %by_d, %by_rate : f64
  %part_of_s = arith.mulf %relative, %rate_of_s : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %cd1 = arith.mulf %d, %omb1 : f64
  %dd = arith.mulf %d, %d : f64
  %cd2 = arith.mulf %dd, %omb2 : f64
  %kept = arith.mulf %s_beta, %d_numerator : f64

  %first = arith.truncf %is_first : f64 to f32
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %cd1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %cd2 : f64 to f32
  %b3 = arith.truncf %s_beta : f64 to f32
  %c3 = arith.truncf %part_of_s : f64 to f32
  %share = arith.truncf %part : f64 to f32
  %old_numerator = arith.truncf %kept : f64 to f32
  %coef = arith.truncf %d_coef : f64 to f32
  %d_old = arith.truncf %d : f64 to f32
  %is_fresh = arith.truncf %fresh : f64 to f32
  %d_most = arith.truncf %d_max : f64 to f32
  %growth = arith.truncf %growth_rate : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_dlr = arith.truncf %ndlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %empty = tensor.empty(%size) : tensor<?xf32>

  // Estimate d from how far the weights have gone along the gradients.
  %gains, %sizes, %new_s, %new_p0 = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad, %param : tensor<?xf32>, tensor<?xf32>)
      outs(%empty, %empty, %s, %p0 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %out0: f32, %out1: f32, %sum: f32, %start: f32):
    %apart = arith.subf %th, %start : f32
    %start_add = arith.mulf %first, %apart : f32
    %start_new = arith.addf %start, %start_add : f32
    %moved = arith.subf %start_new, %th : f32
    %along = arith.mulf %g, %moved : f32
    %gain = arith.mulf %share, %along : f32
    %sum_old = arith.mulf %b3, %sum : f32
    %sum_add = arith.mulf %c3, %g : f32
    %sum_new = arith.addf %sum_old, %sum_add : f32
    %abs = math.absf %sum_new : f32
    linalg.yield %gain, %abs, %sum_new, %start_new : f32, f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  %gain_sum = linalg.reduce { arith.addf } ins(%gains : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0] {tandem.scope = "model"}
  %size_sum = linalg.reduce { arith.addf } ins(%sizes : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0] {tandem.scope = "model"}
  %gained = tensor.extract %gain_sum[] : tensor<f32>
  %denominator = tensor.extract %size_sum[] : tensor<f32>
  %numerator = arith.addf %old_numerator, %gained : f32
  %scaled = arith.mulf %coef, %numerator : f32
  %d_hat = arith.divf %scaled, %denominator : f32
  %raised = arith.mulf %is_fresh, %d_hat : f32
  %is_new = arith.cmpf ogt, %raised, %d_old : f32
  %d_from = arith.select %is_new, %d_hat, %d_old : f32
  %is_more = arith.cmpf ogt, %d_hat, %d_most : f32
  %most = arith.select %is_more, %d_hat, %d_most : f32
  %most_grown = arith.mulf %d_from, %growth : f32
  %is_less = arith.cmpf olt, %most_grown, %most : f32
  %d_new = arith.select %is_less, %most_grown, %most : f32
  %eps_new = arith.mulf %d_new, %e : f32
  %epsilons = tensor.splat %eps_new[%size] : tensor<?xf32>

  %new_param, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad, %epsilons : tensor<?xf32>, tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %de: f32, %th: f32, %m: f32, %v: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %root = math.sqrt %v_new : f32
    %denom = arith.addf %root, %de : f32
    %ratio = arith.divf %m_new, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %ratio, %decay : f32
    %delta = arith.mulf %neg_dlr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq, %new_s, %new_p0 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
