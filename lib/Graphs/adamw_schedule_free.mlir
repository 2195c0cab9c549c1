#id = affine_map<(i) -> (i)>

// Schedule-Free AdamW (Defazio et al. 2024, Algorithm 1), with epsilon outside of the root as in the
// authors' package. param is y, where gradients are taken. Of the other two sequences, the state
// holds z - y, which decays like a momentum and so can be stored as one; the average is
// x = y - (1 - beta1) / beta1 * (z - y). mixing is the step's share in the average, which the host
// gives: 1 / step for a constant learning rate.
func.func @adamw_schedule_free(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %offset: tensor<?xf32> {tandem.role = #tandem.role<state "offset", moment = slow>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 2.5e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %mixing: f64 {tandem.role = #tandem.role<hyper "mixing", domain = nonneg, default = 1.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %d2 = arith.subf %one, %p2 : f64
  %i2 = arith.divf %one, %d2 : f64
  %kept = arith.subf %one, %mixing : f64
  %share = arith.mulf %beta1, %kept : f64
  %lead = arith.mulf %lr, %share : f64
  %nlead = arith.negf %lead : f64
  %back = arith.subf %share, %one : f64
  %rate = arith.mulf %lr, %back : f64
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %c = arith.truncf %mixing : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_lead = arith.truncf %nlead : f64 to f32
  %neg_rate = arith.truncf %rate : f64 to f32
  %new_param, %new_offset, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %offset, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %d: f32, %v: f32):
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %g, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %ratio, %decay : f32
    %towards = arith.mulf %c, %d : f32
    %move = arith.mulf %neg_rate, %update : f32
    %delta = arith.addf %towards, %move : f32
    %th_new = arith.addf %th, %delta : f32
    %d_old = arith.mulf %keep, %d : f32
    %d_add = arith.mulf %neg_lead, %update : f32
    %d_new = arith.addf %d_old, %d_add : f32
    linalg.yield %th_new, %d_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_offset, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
