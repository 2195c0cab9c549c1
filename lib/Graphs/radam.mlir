#id = affine_map<(i) -> (i)>

// RAdam (Liu et al. 2020) with weight decay added to the gradient, as torch.optim.RAdam. The host
// gives adaptive, which is 0 in the first steps, whose second moment is of too few gradients and
// which divide by 1 in its place, and scale, which is the rectification, with the second moment's
// bias correction, or 1.
func.func @radam(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %adaptive: f64 {tandem.role = #tandem.role<hyper "adaptive", domain = nonneg, default = 1.0>},
    %scale: f64 {tandem.role = #tandem.role<hyper "scale", domain = nonneg, default = 1.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %i1 = arith.divf %one, %d1 : f64
  %nlr = arith.negf %lr : f64
  %fixed = arith.subf %one, %adaptive : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %has = arith.truncf %adaptive : f64 to f32
  %plain = arith.truncf %fixed : f64 to f32
  %rect = arith.truncf %scale : f64 to f32
  %new_param, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32, %v: f32):
    %decay = arith.mulf %wd, %th : f32
    %gd = arith.addf %g, %decay : f32
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %gd : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %gd, %gd : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %root = math.sqrt %v_new : f32
    %divisor = arith.addf %root, %e : f32
    %own = arith.mulf %has, %divisor : f32
    %denom = arith.addf %own, %plain : f32
    %numer = arith.mulf %rect, %m_hat : f32
    %ratio = arith.divf %numer, %denom : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
