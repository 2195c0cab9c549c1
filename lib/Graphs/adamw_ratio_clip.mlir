#id = affine_map<(i) -> (i)>

// AdamW with gradients that are scaled down to a maximum norm, as adamw_clip, which stores the ratio
// m / sqrt(v) in place of the first moment, as adamw_ratio.
func.func @adamw_ratio_clip(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %ratio: tensor<?xf32> {tandem.role = #tandem.role<state "ratio", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
    %max_norm: f64 {tandem.role = #tandem.role<hyper "max_norm", domain = nonneg, default = 1.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
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
  %zero = arith.constant dense<0.0> : tensor<f32>
  %unit = arith.constant 1.0 : f32
  %tiny = arith.constant 1.0e-6 : f32
  %limit = arith.truncf %max_norm : f64 to f32
  %square = arith.mulf %grad, %grad : tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%square : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0] {tandem.scope = "model"}
  %norm_sq = tensor.extract %sum[] : tensor<f32>
  %norm = math.sqrt %norm_sq : f32
  %above = arith.addf %norm, %tiny : f32
  %quotient = arith.divf %limit, %above : f32
  %clips = arith.cmpf olt, %quotient, %unit : f32
  %coef = arith.select %clips, %quotient, %unit : f32
  %new_param, %new_ratio, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %ratio, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%raw: f32, %th: f32, %y: f32, %v: f32):
    %g = arith.mulf %coef, %raw : f32
    %none = arith.constant 0.0 : f32
    %root_old = math.sqrt %v : f32
    %m = arith.mulf %y, %root_old : f32
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %c2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %root = math.sqrt %v_new : f32
    %is_zero = arith.cmpf oeq, %root, %none : f32
    %y_full = arith.divf %m_new, %root : f32
    %y_new = arith.select %is_zero, %none, %y_full : f32
    %m_hat = arith.mulf %m_new, %r1 : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root_hat = math.sqrt %v_hat : f32
    %denom = arith.addf %root_hat, %e : f32
    %step_size = arith.divf %m_hat, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %step_size, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %y_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_ratio, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
