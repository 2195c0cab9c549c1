#matrix = affine_map<(i, j) -> (i, j)>

// SiLU (Elfwing et al. 2018): y = x / (1 + exp(-x)).
func.func @silu(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>}) -> tensor<?x?xf32> {
  %one = arith.constant 1.0 : f32
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x?xf32>) outs(%y : tensor<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %negative = arith.negf %a : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %silu = arith.divf %a, %denominator : f32
    linalg.yield %silu : f32
  } -> tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  return %new_y : tensor<?x?xf32>
}

// With s = 1 / (1 + exp(-x)): dx = dy * s * (1 + x * (1 - s)).
func.func @silu_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", consumer = linear, flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @silu} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %one = arith.constant 1.0 : f32
  %new_dx = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%dy, %x : tensor<?x?xf32>, tensor<?x?xf32>) outs(%dx : tensor<?x?xf32>) {
  ^bb0(%d: f32, %a: f32, %out: f32):
    %negative = arith.negf %a : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %s = arith.divf %one, %denominator : f32
    %rest = arith.subf %one, %s : f32
    %part = arith.mulf %a, %rest : f32
    %bend = arith.addf %one, %part : f32
    %slope = arith.mulf %s, %bend : f32
    %product = arith.mulf %d, %slope : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
