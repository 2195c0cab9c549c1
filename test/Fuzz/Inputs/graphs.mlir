// Initial texts of tandem-fuzz: graphs.

#id = affine_map<(i) -> (i)>
func.func @sgd(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>) {
  %nlr = arith.negf %lr : f64
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new_param = linalg.generic {
      indexing_maps = [#id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param : tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32):
    %decay = arith.mulf %wd, %th : f32
    %g1 = arith.addf %g, %decay : f32
    %delta = arith.mulf %neg_lr, %g1 : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new : f32
  } -> (tensor<?xf32>)
  return %new_param : tensor<?xf32>
}

// -----

#id = affine_map<(i) -> (i)>
func.func @adamw(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
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
  %new_param, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32, %v: f32):
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
    %ratio = arith.divf %m_hat, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %ratio, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

#id = affine_map<(i) -> (i)>
func.func @lamb(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-6>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
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
  %none = arith.constant 0.0 : f32
  %unit = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %empty = tensor.empty(%size) : tensor<?xf32>
  %update, %new_exp_avg, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad, %param : tensor<?xf32>, tensor<?xf32>)
      outs(%empty, %exp_avg, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %out: f32, %m: f32, %v: f32):
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
    %ratio = arith.divf %m_hat, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %u = arith.addf %ratio, %decay : f32
    linalg.yield %u, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  %param_sq = arith.mulf %param, %param : tensor<?xf32>
  %update_sq = arith.mulf %update, %update : tensor<?xf32>
  %param_sum = linalg.reduce { arith.addf } ins(%param_sq : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %update_sum = linalg.reduce { arith.addf } ins(%update_sq : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %param_norm_sq = tensor.extract %param_sum[] : tensor<f32>
  %update_norm_sq = tensor.extract %update_sum[] : tensor<f32>
  %param_norm = math.sqrt %param_norm_sq : f32
  %update_norm = math.sqrt %update_norm_sq : f32
  %has_param = arith.cmpf ogt, %param_norm, %none : f32
  %has_update = arith.cmpf ogt, %update_norm, %none : f32
  %has_both = arith.andi %has_param, %has_update : i1
  %quotient = arith.divf %param_norm, %update_norm : f32
  %trust = arith.select %has_both, %quotient, %unit : f32
  %rate = arith.mulf %neg_lr, %trust : f32
  %rates = tensor.splat %rate[%size] : tensor<?xf32>
  %delta = arith.mulf %rates, %update : tensor<?xf32>
  %new_param = arith.addf %param, %delta : tensor<?xf32>
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
