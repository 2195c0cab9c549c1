#id = affine_map<(i) -> (i)>

// NAdam (Dozat 2016) with weight decay added to the gradient, as torch.optim.NAdam. The direction
// has the shares ahead of the gradient and back of the first moment, which the host computes from
// the momentum's schedule.
func.func @nadam(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 2.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %ahead: f64 {tandem.role = #tandem.role<hyper "ahead", domain = nonneg, default = 1.0>},
    %back: f64 {tandem.role = #tandem.role<hyper "back", domain = nonneg, default = 0.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %d2 = arith.subf %one, %p2 : f64
  %i2 = arith.divf %one, %d2 : f64
  %nlr = arith.negf %lr : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %a = arith.truncf %ahead : f64 to f32
  %c = arith.truncf %back : f64 to f32
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
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %g_part = arith.mulf %a, %gd : f32
    %m_part = arith.mulf %c, %m_new : f32
    %mix = arith.addf %g_part, %m_part : f32
    %ratio = arith.divf %mix, %denom : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
