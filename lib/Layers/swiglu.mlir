#matrix = affine_map<(i, j) -> (i, j)>

// SwiGLU (Shazeer 2020): y = silu(gate) * up, where silu(g) = g / (1 + exp(-g)).
func.func @swiglu(
    %gate: tensor<?x?xf32> {tandem.role = #tandem.role<input "gate">},
    %up: tensor<?x?xf32> {tandem.role = #tandem.role<input "up">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>}) -> tensor<?x?xf32> {
  %one = arith.constant 1.0 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%y : tensor<?x?xf32>) {
  ^bb0(%g: f32, %u: f32, %out: f32):
    %negative = arith.negf %g : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %silu = arith.divf %g, %denominator : f32
    %product = arith.mulf %silu, %u : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  tandem.save %gate as "gate" : tensor<?x?xf32>
  tandem.save %up as "up" : tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}

// With s = 1 / (1 + exp(-gate)): dup = dy * gate * s,
// dgate = dy * up * s * (1 + gate * (1 - s)).
func.func @swiglu_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dgate: tensor<?x?xf32> {tandem.role = #tandem.role<output "dgate", consumer = linear, flow = gradient>},
    %dup: tensor<?x?xf32> {tandem.role = #tandem.role<output "dup", consumer = linear, flow = gradient>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) attributes {tandem.forward = @swiglu} {
  %gate = tandem.restore "gate" : tensor<?x?xf32>
  %up = tandem.restore "up" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %new_dgate, %new_dup = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%dy, %gate, %up : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%dgate, %dup : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%d: f32, %g: f32, %u: f32, %out0: f32, %out1: f32):
    %negative = arith.negf %g : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %s = arith.divf %one, %denominator : f32
    %silu = arith.mulf %g, %s : f32
    %du = arith.mulf %d, %silu : f32
    %rest = arith.subf %one, %s : f32
    %part = arith.mulf %g, %rest : f32
    %bend = arith.addf %one, %part : f32
    %slope = arith.mulf %s, %bend : f32
    %wide = arith.mulf %d, %u : f32
    %dg = arith.mulf %wide, %slope : f32
    linalg.yield %dg, %du : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_dgate, %new_dup : tensor<?x?xf32>, tensor<?x?xf32>
}

// Recomputes y from the tensors that the forward pass has saved, so that a matrix product
// that takes y need not keep it.
func.func @swiglu_again(
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>})
    -> tensor<?x?xf32> attributes {tandem.forward = @swiglu} {
  %gate = tandem.restore "gate" : tensor<?x?xf32>
  %up = tandem.restore "up" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%y : tensor<?x?xf32>) {
  ^bb0(%g: f32, %u: f32, %out: f32):
    %negative = arith.negf %g : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %silu = arith.divf %g, %denominator : f32
    %product = arith.mulf %silu, %u : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}
