// RUN: tandem-opt %s -tandem-form-kernel -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">

// expected-error @+1 {{graph has no strategy; run -tandem-apply-strategy first}}
func.func @no_strategy(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @not_encoded(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  // expected-error @+1 {{results must be encoded; apply a strategy first}}
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!matrix = !tandem.stored<tensor<8x8xf32>, #tandem.float<f32>>

func.func @reduction(%p: !matrix {tandem.role = #p}) -> !matrix
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !matrix -> tensor<8x8xf32>
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  // expected-error @+1 {{a reduction in a graph is a linalg.reduce over all elements of a tensor}}
  %1 = linalg.matmul ins(%0, %0 : tensor<8x8xf32>, tensor<8x8xf32>) outs(%zero : tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = tandem.encode %1 : tensor<8x8xf32> -> !matrix
  return %2 : !matrix
}

// -----

#p = #tandem.role<param "p">
!matrix = !tandem.stored<tensor<8x8xf32>, #tandem.float<f32>>

func.func @transposed(%p: !matrix {tandem.role = #p}) -> !matrix
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !matrix -> tensor<8x8xf32>
  %empty = tensor.empty() : tensor<8x8xf32>
  // expected-error @+1 {{operand #0 is indexed by another map than the identity; transposed and broadcast tensors cannot be fused into an element-wise kernel}}
  %1 = linalg.transpose ins(%0 : tensor<8x8xf32>) outs(%empty : tensor<8x8xf32>) permutation = [1, 0]
  %2 = tandem.encode %1 : tensor<8x8xf32> -> !matrix
  return %2 : !matrix
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<4xf32>, #tandem.float<f32>>

func.func @unfusable(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<4xf32>
  // expected-error @+1 {{'tensor.cast' cannot be fused into an element-wise kernel}}
  %1 = tensor.cast %0 : tensor<4xf32> to tensor<?xf32>
  %2 = tensor.cast %1 : tensor<?xf32> to tensor<4xf32>
  %3 = tandem.encode %2 : tensor<4xf32> -> !f32
  return %3 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @scalar_operation(%p: !f32 {tandem.role = #p}, %lr: f64 {tandem.role = #tandem.role<hyper "lr">}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  // expected-error @+1 {{a scalar expression of hyperparameters uses + - * /, sqrt, integer powers and i64 arithmetic; 'math.exp' is none of them}}
  %1 = math.exp %lr : f64
  %2 = arith.truncf %1 : f64 to f32
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%0 : tensor<?xf32>) {
  ^bb0(%x: f32):
    %4 = arith.mulf %x, %2 : f32
    linalg.yield %4 : f32
  } -> tensor<?xf32>
  %5 = tandem.encode %3 : tensor<?xf32> -> !f32
  return %5 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @position(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%0 : tensor<?xf32>) {
  ^bb0(%x: f32):
    // expected-error @+1 {{'linalg.index' cannot be fused into an element-wise kernel}}
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    linalg.yield %k : f32
  } -> tensor<?xf32>
  %2 = tandem.encode %1 : tensor<?xf32> -> !f32
  return %2 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<2xf32>, #tandem.float<f32>>

func.func @constant(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<2xf32>
  // expected-error @+1 {{a constant of a graph must be one number for all elements}}
  %1 = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %2 = arith.mulf %0, %1 : tensor<2xf32>
  %3 = tandem.encode %2 : tensor<2xf32> -> !f32
  return %3 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// expected-error @+1 {{an integer scalar meets an element; convert it with arith.sitofp first}}
func.func @integer(%p: !f32 {tandem.role = #p}, %t: i64 {tandem.role = #tandem.role<step "t">}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%0 : tensor<?xf32>) {
  ^bb0(%x: f32):
    %2 = math.fpowi %x, %t : f32, i64
    linalg.yield %2 : f32
  } -> tensor<?xf32>
  %3 = tandem.encode %1 : tensor<?xf32> -> !f32
  return %3 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @empty(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %0, %c0 : tensor<?xf32>
  %empty = tensor.empty(%n) : tensor<?xf32>
  // expected-error @+1 {{operand of type 'tensor<?xf32>' is no element-wise value of the graph's tensors}}
  %1 = arith.addf %0, %empty : tensor<?xf32>
  %2 = tandem.encode %1 : tensor<?xf32> -> !f32
  return %2 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// expected-error @+1 {{two arguments are named "p"; role names must be unique}}
func.func @no_graph(%p: !f32 {tandem.role = #p}, %q: !f32 {tandem.role = #p}) -> (!f32, !f32)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  return %p, %q : !f32, !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @not_from_zero(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  // expected-error @+1 {{a reduction in a graph is the sum of all elements of one tensor, from zero: linalg.reduce { arith.addf } over every dimension}}
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?xf32>) outs(%one : tensor<f32>) dimensions = [0]
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @product(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{a reduction in a graph is the sum of all elements of one tensor}}
  %1 = linalg.reduce { arith.mulf } ins(%0 : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @scope(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{tandem.scope is "tensor" or "model", got "row"}}
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0] {tandem.scope = "row"}
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @element(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{picks an element of a tensor; a kernel sees one element and what a reduction makes of all}}
  %1 = tensor.extract %0[%c0] : tensor<?xf32>
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

func.func @extent(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?x?xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %0, %c0 : tensor<?x?xf32>
  // expected-error @+1 {{the size of a tensor is tensor.dim of a tensor with one dimension, cast to i64}}
  %1 = arith.index_cast %n : index to i64
  return %p : !f32
}
