#matrix = affine_map<(i, j) -> (i, j)>

// RoPE (Su et al. 2021): rotates each pair of numbers by the angle of its position. The
// first and second halves of the heads are separate tensors, and so are cosines and sines.
// Nothing is saved.
func.func @rope(
    %first: tensor<?x?xf32> {tandem.role = #tandem.role<input "first">},
    %second: tensor<?x?xf32> {tandem.role = #tandem.role<input "second">},
    %cosine: tensor<?x?xf32> {tandem.role = #tandem.role<input "cosine">},
    %sine: tensor<?x?xf32> {tandem.role = #tandem.role<input "sine">},
    %left: tensor<?x?xf32> {tandem.role = #tandem.role<output "left">},
    %right: tensor<?x?xf32> {tandem.role = #tandem.role<output "right">})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %new_left, %new_right = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%first, %second, %cosine, %sine
          : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%left, %right : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %s: f32, %out0: f32, %out1: f32):
    %ac = arith.mulf %a, %c : f32
    %bs = arith.mulf %b, %s : f32
    %l = arith.subf %ac, %bs : f32
    %bc = arith.mulf %b, %c : f32
    %as = arith.mulf %a, %s : f32
    %r = arith.addf %bc, %as : f32
    linalg.yield %l, %r : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_left, %new_right : tensor<?x?xf32>, tensor<?x?xf32>
}

// Rotates the gradients of the pairs in the opposite direction.
func.func @rope_backward(
    %dleft: tensor<?x?xf32> {tandem.role = #tandem.role<input "dleft", flow = gradient>},
    %dright: tensor<?x?xf32> {tandem.role = #tandem.role<input "dright", flow = gradient>},
    %cosine: tensor<?x?xf32> {tandem.role = #tandem.role<input "cosine">},
    %sine: tensor<?x?xf32> {tandem.role = #tandem.role<input "sine">},
    %dfirst: tensor<?x?xf32> {tandem.role = #tandem.role<output "dfirst", flow = gradient>},
    %dsecond: tensor<?x?xf32> {tandem.role = #tandem.role<output "dsecond", flow = gradient>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) attributes {tandem.forward = @rope} {
  %new_dfirst, %new_dsecond = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%dleft, %dright, %cosine, %sine
          : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%dfirst, %dsecond : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %s: f32, %out0: f32, %out1: f32):
    %ac = arith.mulf %a, %c : f32
    %bs = arith.mulf %b, %s : f32
    %l = arith.addf %ac, %bs : f32
    %bc = arith.mulf %b, %c : f32
    %as = arith.mulf %a, %s : f32
    %r = arith.subf %bc, %as : f32
    linalg.yield %l, %r : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %new_dfirst, %new_dsecond : tensor<?x?xf32>, tensor<?x?xf32>
}
