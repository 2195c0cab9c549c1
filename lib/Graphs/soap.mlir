#id = affine_map<(i, j) -> (i, j)>

// SOAP (Vyas et al. 2024) for matrices, as in the authors' code: AdamW in the eigenbases of Shampoo's
// statistics. The host turns the gradient into the bases and the direction back, and keeps statistics
// and bases. Both moments are stored in the bases' coordinates, where the error of a stored element is
// relative to the moments of its own direction; where the host changes the bases, it turns the first
// moment. `rate` is the learning rate after the correction of both moments. Decay is after the update.
// `moves` is 0 in the first step, in which the host finds the bases and everything else stays as it
// is, and 1 in the others.
func.func @soap(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 3.0e-3>},
    %rate: f64 {tandem.role = #tandem.role<hyper "rate", domain = nonneg, default = 3.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.95>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.95>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
    %moves: f64 {tandem.role = #tandem.role<hyper "moves", domain = nonneg, default = 1.0>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %move1 = arith.mulf %moves, %omb1 : f64
  %move2 = arith.mulf %moves, %omb2 : f64
  %stay1 = arith.subf %one, %move1 : f64
  %stay2 = arith.subf %one, %move2 : f64
  %step_rate = arith.mulf %moves, %rate : f64
  %nrate = arith.negf %step_rate : f64
  %step_lr = arith.mulf %moves, %lr : f64
  %loss = arith.mulf %step_lr, %weight_decay : f64
  %nloss = arith.negf %loss : f64
  %b1 = arith.truncf %stay1 : f64 to f32
  %share1 = arith.truncf %move1 : f64 to f32
  %b2 = arith.truncf %stay2 : f64 to f32
  %share2 = arith.truncf %move2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_rate = arith.truncf %nrate : f64 to f32
  %neg_decay = arith.truncf %nloss : f64 to f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>

  %gradient = linalg.generic {
      indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad : tensor<?x?xf32>)
      outs(%empty : tensor<?x?xf32>) {
  ^bb0(%g: f32, %out: f32):
    linalg.yield %g : f32
  } -> tensor<?x?xf32>

  %rotated = tandem.external "rotate"(%gradient) sends ["gradient"]
      receives ["gradient_rotated"] format(f32) : (tensor<?x?xf32>) -> tensor<?x?xf32>

  %direction, %momentum, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%rotated, %exp_avg : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%empty, %empty, %exp_avg_sq : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%g: f32, %m: f32, %out1: f32, %out2: f32, %v: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %share1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %gg = arith.mulf %g, %g : f32
    %v_old = arith.mulf %b2, %v : f32
    %v_add = arith.mulf %share2, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %root = math.sqrt %v_new : f32
    %denom = arith.addf %root, %e : f32
    %n = arith.divf %m_new, %denom : f32
    linalg.yield %n, %m_new, %v_new : f32, f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)

  %update, %turned = tandem.external "rotate_back"(%direction, %momentum)
      sends ["direction", "momentum"] receives ["update", "momentum_turned"] format(f32)
      : (tensor<?x?xf32>, tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>)

  %new_param, %new_exp_avg = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%update, %turned : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%param, %exp_avg : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%u: f32, %m: f32, %th: f32, %old: f32):
    %delta = arith.mulf %neg_rate, %u : f32
    %moved = arith.addf %th, %delta : f32
    %decay = arith.mulf %neg_decay, %moved : f32
    %th_new = arith.addf %moved, %decay : f32
    linalg.yield %th_new, %m : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}
