#line = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (i)>
#matrix = affine_map<(i, j) -> (i, j)>

// Adam-mini (Zhang et al. 2024) for matrices, as in the authors' code: the second moment
// is kept as the mean over each row, and the weight shrinks before the update. The host says what
// a row is: an output neuron, a token, or all weights of an attention head.
func.func @adam_mini(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq_row: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq_row", moment = second, domain = nonneg, per = row>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>) {
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
  %lr_wd = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %lr_wd : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1_index = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1_index : tensor<?x?xf32>
  %num_columns_int = arith.index_cast %columns : index to i64
  %num_columns = arith.sitofp %num_columns_int : i64 to f32
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>

  // One factor for each row takes the place of a root and a quotient for each element.
  %grad_sq = arith.mulf %grad, %grad : tensor<?x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%grad_sq : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %new_exp_avg_sq_row = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%sum : tensor<?xf32>) outs(%exp_avg_sq_row : tensor<?xf32>) {
  ^bb0(%s: f32, %v: f32):
    %mean = arith.divf %s, %num_columns : f32
    %old = arith.mulf %b2, %v : f32
    %add = arith.mulf %c2, %mean : f32
    %new = arith.addf %old, %add : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %factor = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%new_exp_avg_sq_row : tensor<?xf32>) outs(%by_row : tensor<?xf32>) {
  ^bb0(%v: f32, %out: f32):
    %v_hat = arith.mulf %v, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %f = arith.divf %r1, %denom : f32
    linalg.yield %f : f32
  } -> tensor<?xf32>
  %new_param, %new_exp_avg = linalg.generic {
      indexing_maps = [#matrix, #row, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad, %factor : tensor<?x?xf32>, tensor<?xf32>)
      outs(%param, %exp_avg : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%g: f32, %f: f32, %th: f32, %m: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %u = arith.mulf %m_new, %f : f32
    %shrunk = arith.mulf %keep, %th : f32
    %delta = arith.mulf %neg_lr, %u : f32
    %th_new = arith.addf %shrunk, %delta : f32
    linalg.yield %th_new, %m_new : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq_row : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>
}
