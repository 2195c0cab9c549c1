#id = affine_map<(i) -> (i)>

// Adan (Xie et al. 2024, Algorithm 1) with the decay of its authors' code, which divides the
// weight by 1 + lr * weight_decay. difference is 0 in a parameter's first step, in which there is
// no previous gradient, and 1 later.
func.func @adan(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_diff: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_diff", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %previous: tensor<?xf32> {tandem.role = #tandem.role<state "previous", moment = first>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.98>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.92>},
    %beta3: f64 {tandem.role = #tandem.role<hyper "beta3", domain = unit, default = 0.99>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %difference: f64 {tandem.role = #tandem.role<hyper "difference", domain = nonneg, default = 1.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %omb3 = arith.subf %one, %beta3 : f64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %p3 = math.fpowi %beta3, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %d2 = arith.subf %one, %p2 : f64
  %d3 = arith.subf %one, %p3 : f64
  %i1 = arith.divf %one, %d1 : f64
  %i2 = arith.divf %beta2, %d2 : f64
  %i3 = arith.divf %one, %d3 : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %larger = arith.addf %one, %loss : f64
  %kept = arith.divf %one, %larger : f64
  %rate = arith.mulf %lr, %kept : f64
  %nrate = arith.negf %rate : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %b3 = arith.truncf %beta3 : f64 to f32
  %c3 = arith.truncf %omb3 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %r3 = arith.truncf %i3 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_lr = arith.truncf %nrate : f64 to f32
  %has = arith.truncf %difference : f64 to f32
  %new_param, %new_exp_avg, %new_exp_avg_diff, %new_exp_avg_sq, %new_previous = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_diff, %exp_avg_sq, %previous
           : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32, %d: f32, %v: f32, %p: f32):
    %change = arith.subf %g, %p : f32
    %diff = arith.mulf %has, %change : f32
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %d_old = arith.mulf %b2, %d : f32
    %d_add = arith.mulf %c2, %diff : f32
    %d_new = arith.addf %d_old, %d_add : f32
    %ahead = arith.mulf %b2, %diff : f32
    %sum = arith.addf %g, %ahead : f32
    %v_old = arith.mulf %b3, %v : f32
    %gg = arith.mulf %sum, %sum : f32
    %v_add = arith.mulf %c3, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %d_hat = arith.mulf %d_new, %r2 : f32
    %mix = arith.addf %m_hat, %d_hat : f32
    %v_hat = arith.mulf %v_new, %r3 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %mix, %denom : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %kept_th = arith.mulf %keep, %th : f32
    %th_new = arith.addf %kept_th, %delta : f32
    linalg.yield %th_new, %m_new, %d_new, %v_new, %g : f32, f32, f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_diff, %new_exp_avg_sq, %new_previous
      : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
