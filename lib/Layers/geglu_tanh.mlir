#matrix = affine_map<(i, j) -> (i, j)>

// GeGLU (Shazeer 2020): y = gelu(gate) * up, with GELU by tanh (Hendrycks and Gimpel
// 2016): gelu(g) = g * (1 + tanh(sqrt(2/pi) * (g + 0.044715 g^3))) / 2.
func.func @geglu_tanh(
    %gate: tensor<?x?xf32> {tandem.role = #tandem.role<input "gate">},
    %up: tensor<?x?xf32> {tandem.role = #tandem.role<input "up">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>}) -> tensor<?x?xf32> {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7978845608028654 : f32
  %cubic = arith.constant 0.044715 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%y : tensor<?x?xf32>) {
  ^bb0(%g: f32, %u: f32, %out: f32):
    %square = arith.mulf %g, %g : f32
    %scaled = arith.mulf %cubic, %square : f32
    %factor = arith.addf %one, %scaled : f32
    %inner = arith.mulf %g, %factor : f32
    %argument = arith.mulf %root, %inner : f32
    %t = math.tanh %argument : f32
    %raised = arith.addf %one, %t : f32
    %share = arith.mulf %half, %raised : f32
    %gelu = arith.mulf %g, %share : f32
    %product = arith.mulf %gelu, %u : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  tandem.save %gate as "gate" : tensor<?x?xf32>
  tandem.save %up as "up" : tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}

// With t the hyperbolic tangent: dup = dy * gelu(gate), dgate = dy * up * slope, where
// slope = (1 + t) / 2 + gate * (1 - t^2) / 2 * sqrt(2/pi) * (1 + 3 * 0.044715 gate^2).
func.func @geglu_tanh_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dgate: tensor<?x?xf32> {tandem.role = #tandem.role<output "dgate", consumer = linear, flow = gradient>},
    %dup: tensor<?x?xf32> {tandem.role = #tandem.role<output "dup", consumer = linear, flow = gradient>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) attributes {tandem.forward = @geglu_tanh} {
  %gate = tandem.restore "gate" : tensor<?x?xf32>
  %up = tandem.restore "up" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7978845608028654 : f32
  %cubic = arith.constant 0.044715 : f32
  %thrice = arith.constant 0.134145 : f32
  %new_dgate, %new_dup = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%dy, %gate, %up : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%dgate, %dup : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%d: f32, %g: f32, %u: f32, %out0: f32, %out1: f32):
    %square = arith.mulf %g, %g : f32
    %scaled = arith.mulf %cubic, %square : f32
    %factor = arith.addf %one, %scaled : f32
    %inner = arith.mulf %g, %factor : f32
    %argument = arith.mulf %root, %inner : f32
    %t = math.tanh %argument : f32
    %raised = arith.addf %one, %t : f32
    %share = arith.mulf %half, %raised : f32
    %gelu = arith.mulf %g, %share : f32
    %du = arith.mulf %d, %gelu : f32
    %lowered = arith.subf %one, %t : f32
    %bend = arith.mulf %share, %lowered : f32
    %scaled3 = arith.mulf %thrice, %square : f32
    %factor3 = arith.addf %one, %scaled3 : f32
    %speed = arith.mulf %root, %factor3 : f32
    %turn = arith.mulf %bend, %speed : f32
    %rise = arith.mulf %g, %turn : f32
    %slope = arith.addf %share, %rise : f32
    %wide = arith.mulf %d, %u : f32
    %dg = arith.mulf %wide, %slope : f32
    linalg.yield %dg, %du : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_dgate, %new_dup : tensor<?x?xf32>, tensor<?x?xf32>
}

// Recomputes y from the tensors that the forward pass has saved, so that a matrix product
// that takes y need not keep it.
func.func @geglu_tanh_again(
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>})
    -> tensor<?x?xf32> attributes {tandem.forward = @geglu_tanh} {
  %gate = tandem.restore "gate" : tensor<?x?xf32>
  %up = tandem.restore "up" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7978845608028654 : f32
  %cubic = arith.constant 0.044715 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%y : tensor<?x?xf32>) {
  ^bb0(%g: f32, %u: f32, %out: f32):
    %square = arith.mulf %g, %g : f32
    %scaled = arith.mulf %cubic, %square : f32
    %factor = arith.addf %one, %scaled : f32
    %inner = arith.mulf %g, %factor : f32
    %argument = arith.mulf %root, %inner : f32
    %t = math.tanh %argument : f32
    %raised = arith.addf %one, %t : f32
    %share = arith.mulf %half, %raised : f32
    %gelu = arith.mulf %g, %share : f32
    %product = arith.mulf %gelu, %u : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}
