#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>

// The cross entropy of softmax(x) and a class for each row: with p = exp(x - max) over its
// sum, loss = -log(p[target]). `column` numbers the columns from 0, and a row whose target
// is negative has no loss. The saved values are at most 1, so that few bits suffice. p - 1
// of the class itself is computed from the sum of the other columns and saved for each row,
// since the subtraction would cancel if p is close to 1.
func.func @cross_entropy(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %target: tensor<?xf32> {tandem.role = #tandem.role<input "target", per = row>},
    %column: tensor<?xf32> {tandem.role = #tandem.role<input "column", per = column>},
    %loss: tensor<?xf32> {tandem.role = #tandem.role<output "loss", per = row>})
    -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xf32>
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %least = linalg.fill ins(%lowest : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %largest = linalg.reduce { arith.maximumf } ins(%x : tensor<?x?xf32>) outs(%least : tensor<?xf32>) dimensions = [1]
  %power, %other, %picked = linalg.generic {
      indexing_maps = [#matrix, #row, #row, #column, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %largest, %target, %column
          : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%by_element, %by_element, %by_element
           : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%a: f32, %m: f32, %t: f32, %c: f32, %out0: f32, %out1: f32, %out2: f32):
    %below = arith.subf %a, %m : f32
    %e = math.exp %below : f32
    %is_class = arith.cmpf oeq, %c, %t : f32
    %p = arith.select %is_class, %below, %zero : f32
    %o = arith.select %is_class, %zero, %e : f32
    linalg.yield %e, %o, %p : f32, f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
  %others = linalg.reduce { arith.addf } ins(%other : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %chosen = linalg.reduce { arith.addf } ins(%picked : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %new_loss, %inverse, %excess = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>,
                       affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
      ins(%others, %chosen, %target : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%loss, %by_row, %by_row : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%o: f32, %p: f32, %t: f32, %out0: f32, %out1: f32, %out2: f32):
    %has_none = arith.cmpf olt, %t, %zero : f32
    %e = math.exp %p : f32
    %s = arith.addf %o, %e : f32
    %log = math.log %s : f32
    %entropy = arith.subf %log, %p : f32
    %part = arith.divf %one, %s : f32
    %share = arith.mulf %o, %part : f32
    %rest = arith.negf %share : f32
    %l = arith.select %has_none, %zero, %entropy : f32
    %i = arith.select %has_none, %zero, %part : f32
    %r = arith.select %has_none, %zero, %rest : f32
    linalg.yield %l, %i, %r : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  tandem.save %power as "power" : tensor<?x?xf32>
  tandem.save %inverse as "inverse" per(row) : tensor<?xf32>
  tandem.save %excess as "excess" per(row) : tensor<?xf32>
  return %new_loss : tensor<?xf32>
}

// dx = dloss * (p - 1 in the class's column, p in others).
func.func @cross_entropy_backward(
    %dloss: tensor<?xf32> {tandem.role = #tandem.role<input "dloss", per = row>},
    %target: tensor<?xf32> {tandem.role = #tandem.role<input "target", per = row>},
    %column: tensor<?xf32> {tandem.role = #tandem.role<input "column", per = column>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @cross_entropy} {
  %power = tandem.restore "power" : tensor<?x?xf32>
  %inverse = tandem.restore "inverse" : tensor<?xf32>
  %excess = tandem.restore "excess" : tensor<?xf32>
  %new_dx = linalg.generic {
      indexing_maps = [#row, #row, #column, #matrix, #row, #row, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%dloss, %target, %column, %power, %inverse, %excess
          : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%dx : tensor<?x?xf32>) {
  ^bb0(%d: f32, %t: f32, %c: f32, %e: f32, %i: f32, %r: f32, %out: f32):
    %p = arith.mulf %e, %i : f32
    %is_class = arith.cmpf oeq, %c, %t : f32
    %slope = arith.select %is_class, %r, %p : f32
    %product = arith.mulf %d, %slope : f32
    linalg.yield %product : f32
  } -> tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
