#id = affine_map<(i) -> (i)>

// Stochastic gradient descent with Nesterov's momentum.
func.func @sgd_nesterov(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %momentum_buffer: tensor<?xf32> {tandem.role = #tandem.role<state "momentum_buffer", moment = first>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %momentum: f64 {tandem.role = #tandem.role<hyper "momentum", domain = unit, default = 0.9>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %nlr = arith.negf %lr : f64
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %mu = arith.truncf %momentum : f64 to f32
  %new_param, %new_momentum_buffer = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %momentum_buffer : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %b: f32):
    %decay = arith.mulf %wd, %th : f32
    %g1 = arith.addf %g, %decay : f32
    %b_old = arith.mulf %mu, %b : f32
    %b_new = arith.addf %b_old, %g1 : f32
    %ahead = arith.mulf %mu, %b_new : f32
    %n = arith.addf %g1, %ahead : f32
    %delta = arith.mulf %neg_lr, %n : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %b_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_momentum_buffer : tensor<?xf32>, tensor<?xf32>
}
