#matrix = affine_map<(i, j) -> (i, j)>

// GELU by tanh (Hendrycks and Gimpel 2016):
// y = x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2.
func.func @gelu_tanh(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>}) -> tensor<?x?xf32> {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7978845608028654 : f32
  %cubic = arith.constant 0.044715 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %square = arith.mulf %a, %a : f32
    %scaled = arith.mulf %cubic, %square : f32
    %factor = arith.addf %one, %scaled : f32
    %inner = arith.mulf %a, %factor : f32
    %argument = arith.mulf %root, %inner : f32
    %t = math.tanh %argument : f32
    %raised = arith.addf %one, %t : f32
    %share = arith.mulf %half, %raised : f32
    %gelu = arith.mulf %a, %share : f32
    linalg.yield %gelu : f32
  } -> tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}

// With t the hyperbolic tangent: dx = dy * slope, where
// slope = (1 + t) / 2 + x * (1 - t^2) / 2 * sqrt(2/pi) * (1 + 3 * 0.044715 x^2).
func.func @gelu_tanh_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", consumer = linear, flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @gelu_tanh} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7978845608028654 : f32
  %cubic = arith.constant 0.044715 : f32
  %thrice = arith.constant 0.134145 : f32
  %new_dx = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%dy, %x : tensor<?x?xf32>, tensor<?x?xf32>) outs(%dx : tensor<?x?xf32>) {
  ^bb0(%d: f32, %a: f32, %out: f32):
    %square = arith.mulf %a, %a : f32
    %scaled = arith.mulf %cubic, %square : f32
    %factor = arith.addf %one, %scaled : f32
    %inner = arith.mulf %a, %factor : f32
    %argument = arith.mulf %root, %inner : f32
    %t = math.tanh %argument : f32
    %raised = arith.addf %one, %t : f32
    %share = arith.mulf %half, %raised : f32
    %lowered = arith.subf %one, %t : f32
    %bend = arith.mulf %share, %lowered : f32
    %scaled3 = arith.mulf %thrice, %square : f32
    %factor3 = arith.addf %one, %scaled3 : f32
    %speed = arith.mulf %root, %factor3 : f32
    %turn = arith.mulf %bend, %speed : f32
    %rise = arith.mulf %a, %turn : f32
    %slope = arith.addf %share, %rise : f32
    %product = arith.mulf %d, %slope : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
