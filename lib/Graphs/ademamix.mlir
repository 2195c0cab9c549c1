#id = affine_map<(i) -> (i)>

// AdEMAMix (Pagliardini et al. 2024, Algorithm 1), with decoupled decay inside the update: AdamW whose
// direction is the sum of a fast average of gradients and of alpha times a slow one. The slow one
// has no bias correction. alpha and beta3 usually grow over the first steps; the host gives their
// values.
func.func @ademamix(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_slow: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_slow", moment = slow>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %beta3: f64 {tandem.role = #tandem.role<hyper "beta3", domain = unit, default = 0.9999>},
    %alpha: f64 {tandem.role = #tandem.role<hyper "alpha", domain = nonneg, default = 5.0>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %omb3 = arith.subf %one, %beta3 : f64
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
  %b3 = arith.truncf %beta3 : f64 to f32
  %c3 = arith.truncf %omb3 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %a = arith.truncf %alpha : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new_param, %new_exp_avg, %new_exp_avg_slow, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_slow, %exp_avg_sq
           : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32, %s: f32, %v: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %s_old = arith.mulf %b3, %s : f32
    %s_add = arith.mulf %c3, %g : f32
    %s_new = arith.addf %s_old, %s_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %s_part = arith.mulf %s_new, %a : f32
    %mix = arith.addf %m_hat, %s_part : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %mix, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %ratio, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %s_new, %v_new : f32, f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_slow, %new_exp_avg_sq
      : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
