#id = affine_map<(i) -> (i)>

// MARS with AdamW's update (Yuan et al. 2024). Moments are averages of a corrected gradient: the
// gradient plus a share of its difference from the previous step's, scaled down to a norm of at most
// `limit` in each tensor. The paper calls the form with the previous step's gradient "approximate";
// its exact form needs the current batch's gradient at the previous weights. The previous gradient is
// zero before the first step, as in the authors' code.
func.func @mars(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %last_grad: tensor<?xf32> {tandem.role = #tandem.role<state "last_grad", moment = first>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 3.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.95>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.99>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %gamma: f64 {tandem.role = #tandem.role<hyper "gamma", domain = nonneg, default = 0.025>},
    %limit: f64 {tandem.role = #tandem.role<hyper "limit", domain = nonneg, default = 1.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %d2 = arith.subf %one, %p2 : f64
  %i1 = arith.divf %one, %d1 : f64
  %i2 = arith.divf %one, %d2 : f64
  %nlr = arith.negf %lr : f64
  %odds = arith.divf %beta1, %omb1 : f64
  %share = arith.mulf %gamma, %odds : f64
  %more = arith.addf %one, %share : f64
  %less = arith.negf %share : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %now = arith.truncf %more : f64 to f32
  %then = arith.truncf %less : f64 to f32
  %most = arith.truncf %limit : f64 to f32
  %zero = arith.constant dense<0.0> : tensor<f32>
  %unit = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %empty = tensor.empty(%size) : tensor<?xf32>
  %corrected = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad, %last_grad : tensor<?xf32>, tensor<?xf32>)
      outs(%empty : tensor<?xf32>) {
  ^bb0(%g: f32, %before: f32, %out: f32):
    %g_part = arith.mulf %now, %g : f32
    %before_part = arith.mulf %then, %before : f32
    %c = arith.addf %g_part, %before_part : f32
    linalg.yield %c : f32
  } -> tensor<?xf32>
  %square = arith.mulf %corrected, %corrected : tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%square : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %norm_sq = tensor.extract %sum[] : tensor<f32>
  %norm = math.sqrt %norm_sq : f32
  %is_large = arith.cmpf ogt, %norm, %most : f32
  %quotient = arith.divf %most, %norm : f32
  %factor = arith.select %is_large, %quotient, %unit : f32
  %new_param, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%corrected : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%long: f32, %th: f32, %m: f32, %v: f32):
    %c = arith.mulf %long, %factor : f32
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %c : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %cc = arith.mulf %c, %c : f32
    %v_add = arith.mulf %c2, %cc : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %m_hat, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %u = arith.addf %ratio, %decay : f32
    %delta = arith.mulf %neg_lr, %u : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq, %grad : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
