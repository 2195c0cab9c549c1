#id = affine_map<(i) -> (i)>

// Adagrad (Duchi et al. 2011) with L2 regularization and learning-rate decay.
func.func @adagrad(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %sum: tensor<?xf32> {tandem.role = #tandem.role<state "sum", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-2>},
    %lr_decay: f64 {tandem.role = #tandem.role<hyper "lr_decay", domain = nonneg, default = 0.0>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-10>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %first = arith.constant 1 : i64
  %past = arith.subi %step, %first : i64
  %pastf = arith.sitofp %past : i64 to f64
  %lost = arith.mulf %pastf, %lr_decay : f64
  %slow = arith.addf %one, %lost : f64
  %clr = arith.divf %lr, %slow : f64
  %nclr = arith.negf %clr : f64
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nclr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new_param, %new_sum = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %sum : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %s: f32):
    %decay = arith.mulf %wd, %th : f32
    %g1 = arith.addf %g, %decay : f32
    %gg = arith.mulf %g1, %g1 : f32
    %s_new = arith.addf %s, %gg : f32
    %root = math.sqrt %s_new : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %g1, %denom : f32
    %delta = arith.mulf %neg_lr, %ratio : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %s_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_sum : tensor<?xf32>, tensor<?xf32>
}
