// RUN: tandem-opt %s -tandem-form-kernel | FileCheck %s

#id = affine_map<(i) -> (i)>
#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// Fastmath flags do not enter a kernel. A constant is the same for all elements
// and moves to the prologue.
// CHECK-LABEL: tandem.kernel @tensors compute(<component, bf16>)
// CHECK-SAME:      tensors [#tandem.role<param "p">, #tandem.role<grad "g">] scalars [] prologue {
// CHECK-NEXT:    %[[HALF:.+]] = arith.constant 5.000000e-01 : f64
// CHECK-NEXT:    %[[UNIFORM:.+]] = arith.truncf %[[HALF]] : f64 to f32
// CHECK-NEXT:    tandem.yield %[[UNIFORM]] : f32
// CHECK-NEXT:  } body {
// CHECK-NEXT:  ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[G:.+]]: !tandem{{.+}}, %[[H:.+]]: f32):
// CHECK-NEXT:    %[[PARAM:.+]] = tandem.load %[[P]] {{.+}} -> f32
// CHECK-NEXT:    %[[GRAD:.+]] = tandem.load %[[G]] {{.+}} -> f32
// CHECK-NEXT:    %[[D:.+]] = arith.mulf %[[H]], %[[GRAD]] : f32
// CHECK-NEXT:    %[[NEW:.+]] = tandem.accumulate %[[PARAM]], %[[D]] : f32
// CHECK-NEXT:    tandem.store %[[NEW]], %[[P]] : f32
// CHECK-NEXT:    tandem.yield
func.func @tensors(%p: !bf16 {tandem.role = #p}, %g: !bf16 {tandem.role = #g}) -> !bf16
    attributes {tandem.compute = #tandem.compute<component, bf16>} {
  %0 = tandem.decode %p : !bf16 -> tensor<?xf32>
  %1 = tandem.decode %g : !bf16 -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %0, %c0 : tensor<?xf32>
  %half = arith.constant 0.5 : f32
  %halves = tensor.splat %half[%n] : tensor<?xf32>
  %2 = arith.mulf %halves, %1 fastmath<contract> : tensor<?xf32>
  %3 = tandem.accumulate %0, %2 : tensor<?xf32>
  %4 = tandem.encode %3 : tensor<?xf32> -> !bf16
  return %4 : !bf16
}

// Hyperparameters are computed in f64, whatever precision the graph has, and
// rounded once. Each value has one slot.
// CHECK-LABEL: tandem.kernel @scalars compute(<f32, f32>)
// CHECK-SAME:      scalars [#tandem.role<hyper "lr">, #tandem.role<step "t">] prologue {
// CHECK-NEXT:  ^bb0(%[[LR:.+]]: f64, %[[T:.+]]: i64):
// CHECK-DAG:     %[[POWER:.+]] = math.fpowi %[[LR]], %[[T]] : f64, i64
// CHECK-DAG:     %[[SUM:.+]] = arith.addf %[[LR]], %[[POWER]] : f64
// CHECK-DAG:     %[[TIME:.+]] = arith.sitofp %[[T]] : i64 to f64
// CHECK-DAG:     %[[RATIO:.+]] = arith.divf %[[SUM]], %[[TIME]] : f64
// CHECK:         %[[SLOT:.+]] = arith.truncf %[[RATIO]] : f64 to f32
// CHECK:         tandem.yield %[[SLOT]] : f32
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[R:.+]]: f32):
// CHECK:         %[[PARAM:.+]] = tandem.load %[[P]]
// CHECK:         %[[A:.+]] = arith.mulf %[[PARAM]], %[[R]] : f32
// CHECK:         %[[B:.+]] = arith.addf %[[A]], %[[R]] : f32
// CHECK:         tandem.store %[[B]], %[[P]]
func.func @scalars(%p: !bf16 {tandem.role = #p}, %lr: f32 {tandem.role = #tandem.role<hyper "lr">},
                   %t: i64 {tandem.role = #tandem.role<step "t">}) -> !bf16
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !bf16 -> tensor<?xf32>
  %wide = arith.extf %lr : f32 to f64
  %power = math.fpowi %lr, %t : f32, i64
  %power64 = arith.extf %power : f32 to f64
  %sum = arith.addf %wide, %power64 : f64
  %time = arith.sitofp %t : i64 to f64
  %ratio = arith.divf %sum, %time : f64
  %ratio32 = arith.truncf %ratio : f64 to f32
  %1 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]}
      outs(%0 : tensor<?xf32>) {
  ^bb0(%x: f32):
    %2 = arith.mulf %x, %ratio32 : f32
    %3 = arith.addf %2, %ratio32 : f32
    linalg.yield %3 : f32
  } -> tensor<?xf32>
  %4 = tandem.encode %1 : tensor<?xf32> -> !bf16
  return %4 : !bf16
}

// Chained linalg operations of any rank become one body; a splat indexed by
// another map is still the same number.
// CHECK-LABEL: tandem.kernel @rank_two
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[S:.+]]: f32):
// CHECK-NEXT:    %[[X:.+]] = tandem.load %[[P]]
// CHECK-NEXT:    %[[ROOT:.+]] = math.sqrt %[[X]] : f32
// CHECK-NEXT:    %[[NEW:.+]] = arith.divf %[[ROOT]], %[[S]] : f32
// CHECK-NEXT:    tandem.store %[[NEW]], %[[P]]
// CHECK-NEXT:    tandem.yield
func.func @rank_two(%p: !tandem.stored<tensor<4x8xf32>, #tandem.float<f32>> {tandem.role = #p},
                    %s: f64 {tandem.role = #tandem.role<hyper "s">})
    -> !tandem.stored<tensor<4x8xf32>, #tandem.float<f32>>
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !tandem.stored<tensor<4x8xf32>, #tandem.float<f32>> -> tensor<4x8xf32>
  %empty = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) {
  ^bb0(%x: f32, %unused: f32):
    %2 = math.sqrt %x : f32
    linalg.yield %2 : f32
  } -> tensor<4x8xf32>
  %s32 = arith.truncf %s : f64 to f32
  %row = tensor.splat %s32 : tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%row : tensor<8xf32>) outs(%1 : tensor<4x8xf32>) {
  ^bb0(%divisor: f32, %x: f32):
    %4 = arith.divf %x, %divisor : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  %5 = tandem.encode %3 : tensor<4x8xf32> -> !tandem.stored<tensor<4x8xf32>, #tandem.float<f32>>
  return %5 : !tandem.stored<tensor<4x8xf32>, #tandem.float<f32>>
}

// A sum over all elements is one reduction. Values derived from it are scalars,
// used as such or as tensors. CSE runs later.
// CHECK-LABEL: tandem.kernel @sums
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored<{{.+}}>, %[[HALF:.+]]: f32):
// CHECK:         %[[X:.+]] = tandem.load %[[P]]
// CHECK-NEXT:    %[[SUM:.+]] = tandem.reduce sum %[[X]] over tensor : f32
// CHECK-NEXT:    %[[N:.+]] = tandem.size : i64
// CHECK-NEXT:    %[[COUNT:.+]] = arith.sitofp %[[N]] : i64 to f32
// CHECK-NEXT:    %[[MEAN:.+]] = arith.divf %[[SUM]], %[[COUNT]] : f32
// CHECK-NEXT:    %[[CENTERED:.+]] = arith.subf %[[X]], %[[MEAN]] : f32
// CHECK-NEXT:    %[[SQUARE:.+]] = arith.mulf %[[CENTERED]], %[[CENTERED]] : f32
// CHECK-NEXT:    %[[ALL:.+]] = tandem.reduce sum %[[SQUARE]] over model : f32
// CHECK-NEXT:    %[[SCALED:.+]] = arith.mulf %[[ALL]], %[[HALF]] : f32
// CHECK-NEXT:    %[[NEW:.+]] = arith.addf %[[CENTERED]], %[[SCALED]] : f32
// CHECK-NEXT:    tandem.store %[[NEW]], %[[P]]
func.func @sums(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>> {tandem.role = #p})
    -> !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> tensor<?xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<f32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<f32>) -> tensor<f32>
  %sum = linalg.reduce { arith.addf } ins(%0 : tensor<?xf32>) outs(%init : tensor<f32>) dimensions = [0]
  %value = tensor.extract %sum[] : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %0, %c0 : tensor<?xf32>
  %n = arith.index_cast %size : index to i64
  %count = arith.sitofp %n : i64 to f32
  %mean = arith.divf %value, %count : f32
  %means = tensor.splat %mean[%size] : tensor<?xf32>
  %centered = arith.subf %0, %means : tensor<?xf32>
  %square = arith.mulf %centered, %centered : tensor<?xf32>
  %all = linalg.reduce { arith.addf } ins(%square : tensor<?xf32>) outs(%init : tensor<f32>)
      dimensions = [0] {tandem.scope = "model"}
  %half = arith.constant dense<0.5> : tensor<f32>
  %scaled = arith.mulf %all, %half : tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>],
                       iterator_types = ["parallel"]}
      ins(%scaled : tensor<f32>) outs(%centered : tensor<?xf32>) {
  ^bb0(%s: f32, %x: f32):
    %2 = arith.addf %x, %s : f32
    linalg.yield %2 : f32
  } -> tensor<?xf32>
  %3 = tandem.encode %1 : tensor<?xf32> -> !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  return %3 : !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
}

// CHECK: func.func @no_graph
func.func @no_graph() {
  return
}

// If a graph uses no rows and columns, its kernel's tensors are flat.
// CHECK:       tandem.kernel @elements
// CHECK:       ^bb0(%{{.+}}: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
func.func @elements(%p: !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>> {tandem.role = #tandem.role<param "p">})
    -> !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %x = tandem.decode %p : !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>> -> tensor<?x?xf32>
  %y = arith.addf %x, %x : tensor<?x?xf32>
  %z = tandem.encode %y : tensor<?x?xf32> -> !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
  return %z : !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
}

// Scales of blocks turn tensors that are flat in the graph into matrices.
// CHECK:       tandem.kernel @blocks compute(<f32, f32>) tensors
// CHECK:         %[[X:.+]] = tandem.load %{{.+}} -> f32
// CHECK-NEXT:    tandem.store %[[X]]
func.func @blocks(%p: !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>> {tandem.role = #tandem.role<param "p">})
    -> !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>>
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>> -> tensor<?xf32>
  %1 = tandem.encode %0 : tensor<?xf32> -> !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>>
  return %1 : !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>>
}

// A vector with equal entries has as many as its size says. A matrix's elements
// each count once.
// CHECK-LABEL: tandem.kernel @alike
// CHECK:         %[[TOTAL:.+]] = tandem.reduce sum %{{.+}} over tensor : f32
// CHECK-NEXT:    tandem.reduce sum %[[TOTAL]] over tensor per row : f32
// CHECK-NEXT:    tandem.reduce sum %[[TOTAL]] over tensor per column : f32
// CHECK-NEXT:    tandem.reduce max %[[TOTAL]] over model : f32
func.func @alike(%p: !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>> {tandem.role = #p},
                 %r: !tandem.stored<tensor<?xf32>, #tandem.float<f32>> {tandem.role = #tandem.role<state "r", per = row>})
    -> (!tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>> -> tensor<?x?xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %least = arith.constant dense<0xFF800000> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %0, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %0, %c1 : tensor<?x?xf32>
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?x?xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]
  %2 = tensor.extract %1[] : tensor<f32>
  %by_row = tensor.splat %2[%rows] : tensor<?xf32>
  %empty = tensor.empty(%columns) : tensor<?xf32>
  %by_column = linalg.broadcast ins(%1 : tensor<f32>) outs(%empty : tensor<?xf32>) dimensions = [0]
  %matrix = tensor.splat %2[%rows, %columns] : tensor<?x?xf32>
  %3 = linalg.reduce { arith.addf } ins(%by_row : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %4 = linalg.reduce { arith.addf } ins(%by_column : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %5 = linalg.reduce { arith.maximumf } ins(%matrix : tensor<?x?xf32>) outs(%least : tensor<f32>)
      dimensions = [0, 1] {tandem.scope = "model"}
  %6 = tensor.splat %2[%rows, %columns] : tensor<?x?xf32>
  %7 = tandem.encode %6 : tensor<?x?xf32> -> !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
  %8 = tandem.encode %by_row : tensor<?xf32> -> !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  return %7, %8 : !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
}

// A NaN has no sign.
// CHECK-LABEL: tandem.kernel @sign
// CHECK:         %[[X:.+]] = tandem.load
// CHECK-NEXT:    %[[NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]] : f32
// CHECK-NEXT:    %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %[[SIGN:.+]] = arith.select %[[NAN]], %[[ZERO]], %[[X]] : f32
// CHECK-NEXT:    math.copysign %{{.+}}, %[[SIGN]] : f32
func.func @sign(%one: f64 {tandem.role = #tandem.role<hyper "one">},
                %p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>> {tandem.role = #p})
    -> !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %0, %c0 : tensor<?xf32>
  %1 = arith.truncf %one : f64 to f32
  %2 = tensor.splat %1[%size] : tensor<?xf32>
  %3 = math.copysign %2, %0 : tensor<?xf32>
  %4 = tandem.encode %3 : tensor<?xf32> -> !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  return %4 : !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
}
