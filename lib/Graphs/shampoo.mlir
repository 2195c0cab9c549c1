#id = affine_map<(i, j) -> (i, j)>

// Shampoo (Gupta et al. 2018) for matrices, with Adam's step sizes, as Shi et al. 2023 have it: the
// host multiplies the first moment by the inverse roots of the statistics, which it keeps, and gives
// the product the norm of Adam's update ("grafting").
func.func @shampoo(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
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
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %i0 = arith.constant 0 : index
  %i1x = arith.constant 1 : index
  %rows = tensor.dim %param, %i0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %i1x : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>

  %gradient, %momentum, %grafted, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad : tensor<?x?xf32>)
      outs(%empty, %empty, %empty, %exp_avg, %exp_avg_sq
           : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%g: f32, %out1: f32, %out2: f32, %out3: f32, %m: f32, %v: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %update = arith.divf %m_hat, %denom : f32
    linalg.yield %g, %m_hat, %update, %m_new, %v_new : f32, f32, f32, f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)

  %direction = tandem.external "precondition"(%gradient, %momentum, %grafted)
      sends ["gradient", "momentum", "grafted"] receives ["direction"] format(f32)
      : (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>

  %new_param = linalg.generic {
      indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%direction : tensor<?x?xf32>)
      outs(%param : tensor<?x?xf32>) {
  ^bb0(%u: f32, %th: f32):
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %u, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new : f32
  } -> tensor<?x?xf32>
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}
