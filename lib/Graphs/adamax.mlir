#id = affine_map<(i) -> (i)>

// Adamax (Kingma and Ba 2015, section 7.1) with weight decay added to the gradient, as
// torch.optim.Adamax. The maximum of beta2 * u and |g| + eps is written as what it adds to beta2 *
// u, so that storages of several components follow it.
func.func @adamax(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_inf: tensor<?xf32> {tandem.role = #tandem.role<state "exp_inf", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 2.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %rate = arith.divf %lr, %d1 : f64
  %nrate = arith.negf %rate : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nrate : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %zero = arith.constant 0.0 : f32
  %new_param, %new_exp_avg, %new_exp_inf = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_inf : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32, %u: f32):
    %decay = arith.mulf %wd, %th : f32
    %gd = arith.addf %g, %decay : f32
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %gd : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %below = arith.cmpf olt, %gd, %zero : f32
    %minus = arith.negf %gd : f32
    %size = arith.select %below, %minus, %gd : f32
    %least = arith.addf %size, %e : f32
    %u_old = arith.mulf %b2, %u : f32
    %over = arith.subf %least, %u_old : f32
    %grows = arith.cmpf ogt, %over, %zero : f32
    %u_add = arith.select %grows, %over, %zero : f32
    %u_new = arith.addf %u_old, %u_add : f32
    %ratio = arith.divf %m_new, %u_new : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %u_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_inf : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
