// RUN: tandem-opt %s -tandem-connect-saves | FileCheck %s
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=bf16 | FileCheck %s -check-prefix=SHARED
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat | FileCheck %s -check-prefix=COAT

#row = affine_map<(i, j) -> (i)>
#matrix = affine_map<(i, j) -> (i, j)>

// A saved value is a destination and a result. If an input has the same name, it gets
// a suffix; a value that is saved twice is stored once, for the stricter consumer.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:      %[[X:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">}
// CHECK-SAME:      %[[Y:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">}
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<saved "x.saved">}
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<saved "square", consumer = linear>}
// CHECK-SAME:      %{{[^:]+}}: tensor<?xf32> {tandem.role = #tandem.role<saved "sum", per = row>}
// CHECK-SAME:      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>)
// CHECK:         %[[SQUARE:.+]] = arith.mulf %[[X]], %[[X]]
// CHECK:         %[[SUM:.+]] = linalg.reduce
// CHECK-NOT:     tandem.save
// CHECK:         return %[[SQUARE]], %[[X]], %[[SQUARE]], %[[SUM]]

// An input or output whose storage is that of the saved tensor is not stored again.
// SHARED-LABEL: func.func @forward(
// SHARED-NOT:       "x.saved"
// SHARED-NOT:       saved "square"
// SHARED-SAME:      #tandem.float<f32>> {tandem.role = #tandem.role<saved "sum", per = row>}
// SHARED-SAME:      tandem.kept = {x = #tandem.role<saved "x.saved">, y = #tandem.role<saved "square", consumer = linear>}

// COAT-LABEL: func.func @forward(
// COAT-SAME:      group = 16, scale = bf16>> {tandem.role = #tandem.role<saved "x.saved">}
// COAT-SAME:      group = tensor, scale = f32>> {tandem.role = #tandem.role<saved "square", consumer = linear>}
func.func @forward(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
                   %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %square = arith.mulf %x, %x : tensor<?x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%square : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %square as "square" : tensor<?x?xf32>
  tandem.save %square as "again" consumer(linear) : tensor<?x?xf32>
  tandem.save %sum as "sum" per(row) : tensor<?xf32>
  return %square : tensor<?x?xf32>
}

// Both names of a tensor are a single argument.
// CHECK-LABEL: func.func @backward(
// CHECK-SAME:      %[[X:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<restored "x.saved">}
// CHECK-SAME:      %[[SQUARE:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<restored "square", consumer = linear>}
// CHECK-SAME:      %[[SUM:[^:]+]]: tensor<?xf32> {tandem.role = #tandem.role<restored "sum", per = row>}
// CHECK-NOT:     tandem.restore
// CHECK:         arith.mulf %[[SQUARE]], %[[SQUARE]]
// CHECK:         linalg.generic
// CHECK-SAME:        ins(%{{.+}}, %[[X]], %[[SUM]]

// SHARED-LABEL: func.func @backward(
// SHARED-SAME:      #tandem.float<bf16>> {tandem.role = #tandem.role<restored "x">}
// SHARED-SAME:      #tandem.float<bf16>> {tandem.role = #tandem.role<restored "y", consumer = linear>}

// COAT-LABEL: func.func @backward(
// COAT-SAME:      group = 16, scale = bf16>> {tandem.role = #tandem.role<restored "x.saved">}
// COAT-SAME:      group = tensor, scale = f32>> {tandem.role = #tandem.role<restored "square", consumer = linear>}
func.func @backward(%dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?x?xf32>
    attributes {tandem.forward = @forward} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %square = tandem.restore "square" : tensor<?x?xf32>
  %again = tandem.restore "again" : tensor<?x?xf32>
  %sum = tandem.restore "sum" : tensor<?xf32>
  %fourth = arith.mulf %square, %again : tensor<?x?xf32>
  %0 = linalg.generic {
      indexing_maps = [#matrix, #matrix, #row, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%fourth, %x, %sum : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>)
      outs(%dx : tensor<?x?xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %out: f32):
    %1 = arith.mulf %a, %b : f32
    %2 = arith.mulf %1, %c : f32
    linalg.yield %2 : f32
  } -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
