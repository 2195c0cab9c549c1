#id = affine_map<(i) -> (i)>

// Stochastic gradient descent with L2 regularization.
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
