#id = affine_map<(i, j) -> (i, j)>

// Muon (Jordan et al. 2024) for matrices, as in torch.optim.Muon: the momentum's direction is
// orthogonalized by the host, and the weights move along it. `scale` adjusts the learning rate to
// the shape of the matrix; `nesterov` is the share of the gradient in the direction, 1 - momentum
// for Nesterov's momentum and 0 without.
func.func @muon(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %momentum_buffer: tensor<?x?xf32> {tandem.role = #tandem.role<state "momentum_buffer", moment = first>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %momentum: f64 {tandem.role = #tandem.role<hyper "momentum", domain = unit, default = 0.95>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.1>},
    %nesterov: f64 {tandem.role = #tandem.role<hyper "nesterov", domain = unit, default = 0.05>},
    %scale: f64 {tandem.role = #tandem.role<hyper "scale", domain = nonneg, default = 1.0>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %one = arith.constant 1.0 : f64
  %omm = arith.subf %one, %momentum : f64
  %nback = arith.negf %nesterov : f64
  %rate = arith.mulf %lr, %scale : f64
  %nrate = arith.negf %rate : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %loss : f64
  %share = arith.truncf %omm : f64 to f32
  %ahead = arith.truncf %nback : f64 to f32
  %neg_lr = arith.truncf %nrate : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>

  // The momentum moves from its old value towards the gradient, and the direction from the momentum
  // back to it (torch.lerp).
  %direction, %new_momentum_buffer = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad : tensor<?x?xf32>)
      outs(%empty, %momentum_buffer : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%g: f32, %out: f32, %m: f32):
    %towards = arith.subf %g, %m : f32
    %m_new = math.fma %share, %towards, %m : f32
    %from = arith.subf %m_new, %g : f32
    %u = math.fma %ahead, %from, %m_new : f32
    linalg.yield %u, %m_new : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)

  %orthogonal = tandem.external "orthogonalize"(%direction) sends ["direction"]
      receives ["orthogonal"] format(bf16) : (tensor<?x?xf32>) -> tensor<?x?xf32>

  %new_param = linalg.generic {
      indexing_maps = [#id, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%orthogonal : tensor<?x?xf32>)
      outs(%param : tensor<?x?xf32>) {
  ^bb0(%o: f32, %th: f32):
    %decayed = arith.mulf %keep, %th : f32
    %delta = arith.mulf %neg_lr, %o : f32
    %th_new = arith.addf %decayed, %delta : f32
    linalg.yield %th_new : f32
  } -> tensor<?x?xf32>
  return %new_param, %new_momentum_buffer : tensor<?x?xf32>, tensor<?x?xf32>
}
