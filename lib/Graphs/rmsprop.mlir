#id = affine_map<(i) -> (i)>

// RMSprop (Hinton 2012) with L2 regularization added to the gradient.
func.func @rmsprop(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %square_avg: tensor<?xf32> {tandem.role = #tandem.role<state "square_avg", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-2>},
    %alpha: f64 {tandem.role = #tandem.role<hyper "alpha", domain = unit, default = 0.99>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %oma = arith.subf %one, %alpha : f64
  %nlr = arith.negf %lr : f64
  %a = arith.truncf %alpha : f64 to f32
  %c = arith.truncf %oma : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new_param, %new_square_avg = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %square_avg : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %v: f32):
    %decay = arith.mulf %wd, %th : f32
    %g1 = arith.addf %g, %decay : f32
    %v_old = arith.mulf %a, %v : f32
    %gg = arith.mulf %g1, %g1 : f32
    %v_add = arith.mulf %c, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %root = math.sqrt %v_new : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %g1, %denom : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %v_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_square_avg : tensor<?xf32>, tensor<?xf32>
}
