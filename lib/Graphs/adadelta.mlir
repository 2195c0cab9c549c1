#id = affine_map<(i) -> (i)>

// Adadelta (Zeiler 2012, Algorithm 1) with L2 regularization added to the gradient, as in
// torch.optim.Adadelta: updates have the size of earlier ones, whose squares are averaged.
func.func @adadelta(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %square_avg: tensor<?xf32> {tandem.role = #tandem.role<state "square_avg", moment = second, domain = nonneg>},
    %acc_delta: tensor<?xf32> {tandem.role = #tandem.role<state "acc_delta", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0>},
    %rho: f64 {tandem.role = #tandem.role<hyper "rho", domain = unit, default = 0.9>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-6>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omr = arith.subf %one, %rho : f64
  %nlr = arith.negf %lr : f64
  %r = arith.truncf %rho : f64 to f32
  %c = arith.truncf %omr : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new_param, %new_square_avg, %new_acc_delta = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %square_avg, %acc_delta : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %v: f32, %d: f32):
    %decay = arith.mulf %wd, %th : f32
    %g1 = arith.addf %g, %decay : f32
    %v_old = arith.mulf %r, %v : f32
    %gg = arith.mulf %g1, %g1 : f32
    %v_add = arith.mulf %c, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %v_sum = arith.addf %v_new, %e : f32
    %std = math.sqrt %v_sum : f32
    %d_sum = arith.addf %d, %e : f32
    %size = math.sqrt %d_sum : f32
    %ratio = arith.divf %size, %std : f32
    %u = arith.mulf %ratio, %g1 : f32
    %d_old = arith.mulf %r, %d : f32
    %uu = arith.mulf %u, %u : f32
    %d_add = arith.mulf %c, %uu : f32
    %d_new = arith.addf %d_old, %d_add : f32
    %delta = arith.mulf %neg_lr, %u : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %v_new, %d_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_square_avg, %new_acc_delta : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
