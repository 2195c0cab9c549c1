#matrix = affine_map<(i, j) -> (i, j)>

// GELU (Hendrycks and Gimpel 2016): y = x * (1 + erf(x / sqrt(2))) / 2.
func.func @gelu(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>}) -> tensor<?x?xf32> {
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %root = arith.constant 0.7071067811865476 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %argument = arith.mulf %root, %a : f32
    %e = math.erf %argument : f32
    %raised = arith.addf %one, %e : f32
    %share = arith.mulf %half, %raised : f32
    %gelu = arith.mulf %a, %share : f32
    linalg.yield %gelu : f32
  } -> tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}

// dx = dy * slope, where slope = (1 + erf(x / sqrt(2))) / 2 + x * exp(-x^2 / 2) / sqrt(2 pi).
func.func @gelu_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", consumer = linear, flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @gelu} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %minus_half = arith.constant -0.5 : f32
  %root = arith.constant 0.7071067811865476 : f32
  %peak = arith.constant 0.3989422804014327 : f32
  %new_dx = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%dy, %x : tensor<?x?xf32>, tensor<?x?xf32>) outs(%dx : tensor<?x?xf32>) {
  ^bb0(%d: f32, %a: f32, %out: f32):
    %argument = arith.mulf %root, %a : f32
    %e = math.erf %argument : f32
    %raised = arith.addf %one, %e : f32
    %share = arith.mulf %half, %raised : f32
    %square = arith.mulf %a, %a : f32
    %exponent = arith.mulf %minus_half, %square : f32
    %power = math.exp %exponent : f32
    %density = arith.mulf %peak, %power : f32
    %rise = arith.mulf %a, %density : f32
    %slope = arith.addf %share, %rise : f32
    %product = arith.mulf %d, %slope : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
