#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>

// LayerNorm (Ba et al. 2016): y = weight * (x - mean) / sqrt(variance + eps) + bias,
// with the mean and the variance of each row.
func.func @layer_norm(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %weight: tensor<?xf32> {tandem.role = #tandem.role<input "weight", per = column>},
    %bias: tensor<?xf32> {tandem.role = #tandem.role<input "bias", per = column>},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = nonneg, default = 1.0e-5>})
    -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %e = arith.truncf %eps : f64 to f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %columns_int = arith.index_cast %columns : index to i64
  %count = arith.sitofp %columns_int : i64 to f32
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %counts = tensor.splat %count[%rows] : tensor<?xf32>
  %epss = tensor.splat %e[%rows] : tensor<?xf32>
  %ones = tensor.splat %one[%rows] : tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %mean = arith.divf %sum, %counts : tensor<?xf32>
  %square = linalg.generic {
      indexing_maps = [#matrix, #row, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean : tensor<?x?xf32>, tensor<?xf32>)
      outs(%by_element : tensor<?x?xf32>) {
  ^bb0(%a: f32, %m: f32, %out: f32):
    %centred = arith.subf %a, %m : f32
    %product = arith.mulf %centred, %centred : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  %squares = linalg.reduce { arith.addf } ins(%square : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %variance = arith.divf %squares, %counts : tensor<?xf32>
  %raised = arith.addf %variance, %epss : tensor<?xf32>
  %root = math.sqrt %raised : tensor<?xf32>
  %inverse = arith.divf %ones, %root : tensor<?xf32>
  %new_y = linalg.generic {
      indexing_maps = [#matrix, #row, #row, #column, #column, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean, %inverse, %weight, %bias
          : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%y : tensor<?x?xf32>) {
  ^bb0(%a: f32, %m: f32, %r: f32, %w: f32, %b: f32, %out: f32):
    %centred = arith.subf %a, %m : f32
    %normal = arith.mulf %centred, %r : f32
    %scaled = arith.mulf %w, %normal : f32
    %shifted = arith.addf %scaled, %b : f32
    linalg.yield %shifted : f32
  } -> tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %mean as "mean" per(row) : tensor<?xf32>
  tandem.save %inverse as "inverse" per(row) : tensor<?xf32>
  return %new_y : tensor<?x?xf32>
}

// With n = (x - mean) * inverse and s = weight * dy:
// dx = inverse * (s - mean(s) - n * mean(s * n)), dweight = sum over the rows of dy * n,
// dbias = sum over the rows of dy.
func.func @layer_norm_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %weight: tensor<?xf32> {tandem.role = #tandem.role<input "weight", per = column>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", flow = gradient>},
    %dweight: tensor<?xf32> {tandem.role = #tandem.role<output "dweight", per = column>},
    %dbias: tensor<?xf32> {tandem.role = #tandem.role<output "dbias", per = column>})
    -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>) attributes {tandem.forward = @layer_norm} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %mean = tandem.restore "mean" : tensor<?xf32>
  %inverse = tandem.restore "inverse" : tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %dy, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %dy, %c1 : tensor<?x?xf32>
  %columns_int = arith.index_cast %columns : index to i64
  %count = arith.sitofp %columns_int : i64 to f32
  %counts = tensor.splat %count[%rows] : tensor<?xf32>
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_column = tensor.empty(%columns) : tensor<?xf32>
  %by_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %row_none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %column_none = linalg.fill ins(%zero : f32) outs(%by_column : tensor<?xf32>) -> tensor<?xf32>
  %normal, %scaled, %along, %across = linalg.generic {
      indexing_maps = [#matrix, #row, #row, #matrix, #column, #matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %mean, %inverse, %dy, %weight
          : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>)
      outs(%by_element, %by_element, %by_element, %by_element
           : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%a: f32, %m: f32, %r: f32, %d: f32, %w: f32, %o0: f32, %o1: f32, %o2: f32, %o3: f32):
    %centred = arith.subf %a, %m : f32
    %n = arith.mulf %centred, %r : f32
    %s = arith.mulf %w, %d : f32
    %sn = arith.mulf %s, %n : f32
    %dn = arith.mulf %d, %n : f32
    linalg.yield %n, %s, %sn, %dn : f32, f32, f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
  %row_sum = linalg.reduce { arith.addf } ins(%scaled : tensor<?x?xf32>) outs(%row_none : tensor<?xf32>) dimensions = [1]
  %row_product = linalg.reduce { arith.addf } ins(%along : tensor<?x?xf32>) outs(%row_none : tensor<?xf32>) dimensions = [1]
  %new_dweight = linalg.reduce { arith.addf } ins(%across : tensor<?x?xf32>) outs(%column_none : tensor<?xf32>) dimensions = [0]
  %new_dbias = linalg.reduce { arith.addf } ins(%dy : tensor<?x?xf32>) outs(%column_none : tensor<?xf32>) dimensions = [0]
  %level = arith.divf %row_sum, %counts : tensor<?xf32>
  %share = arith.divf %row_product, %counts : tensor<?xf32>
  %new_dx = linalg.generic {
      indexing_maps = [#matrix, #matrix, #row, #row, #row, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%normal, %scaled, %level, %share, %inverse
          : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%dx : tensor<?x?xf32>) {
  ^bb0(%n: f32, %s: f32, %l: f32, %m: f32, %r: f32, %out: f32):
    %part = arith.mulf %n, %m : f32
    %above = arith.subf %s, %l : f32
    %rest = arith.subf %above, %part : f32
    %d = arith.mulf %r, %rest : f32
    linalg.yield %d : f32
  } -> tensor<?x?xf32>
  return %new_dx, %new_dweight, %new_dbias : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>
}
