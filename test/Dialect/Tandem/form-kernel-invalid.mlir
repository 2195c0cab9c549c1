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
  // expected-error @+1 {{a reduction in a graph is a linalg.reduce}}
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
  // expected-error @+1 {{operand #0 is indexed by a map other than its rows and columns; transposed tensors cannot be fused into an element-wise kernel}}
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
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1 : i64
    %positive = arith.cmpf ogt, %x, %zero : f32
    %count = arith.select %positive, %t, %one : i64
    %2 = arith.sitofp %count : i64 to f32
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
  // expected-error @+1 {{operand of type 'tensor<?xf32>' is not an element-wise value of the graph's tensors}}
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
  // expected-error @+1 {{a reduction in a graph is of all elements of one tensor, or of each row or column of a matrix, by arith.addf from zero, by arith.maximumf from -inf, or by arith.minimumf from inf}}
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?xf32>) outs(%one : tensor<f32>) dimensions = [0]
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @maximum_from_inf(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %inf = arith.constant dense<0x7F800000> : tensor<f32>
  // expected-error @+1 {{by arith.maximumf from -inf}}
  %1 = linalg.reduce { arith.maximumf } ins(%0 : tensor<?xf32>) outs(%inf : tensor<f32>) dimensions = [0]
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @product(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{a reduction in a graph is of all elements of one tensor, or of each row or column of a matrix}}
  %1 = linalg.reduce { arith.mulf } ins(%0 : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
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
  // expected-error @+1 {{the size of a tensor is tensor.dim of a tensor with one dimension, or of a matrix in a graph of rows and columns, cast to i64}}
  %1 = arith.index_cast %n : index to i64
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
#c = #tandem.role<state "c", per = column>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @rows_and_columns(%p: !m {tandem.role = #p}, %r: !v {tandem.role = #r}, %c: !v {tandem.role = #c}) -> (!m, !v, !v)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %r : !v -> tensor<?xf32>
  %1 = tandem.decode %c : !v -> tensor<?xf32>
  // expected-error @+1 {{joins an entry per row with one per column; broadcast both to matrices first (linalg.broadcast)}}
  %2 = arith.addf %0, %1 : tensor<?xf32>
  return %p, %r, %c : !m, !v, !v
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
#c = #tandem.role<state "c", per = column>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @column_of_rows(%p: !m {tandem.role = #p}, %r: !v {tandem.role = #r}, %c: !v {tandem.role = #c}) -> (!m, !v, !v)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %r : !v -> tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  %2 = tandem.encode %1 : tensor<?xf32> -> !v
  %3 = tandem.decode %p : !m -> tensor<?x?xf32>
  %4 = tandem.encode %3 : tensor<?x?xf32> -> !m
  %5 = tandem.encode %0 : tensor<?xf32> -> !v
  // expected-error @+1 {{the new value of "c" has an entry per row, the tensor per column}}
  return %4, %5, %2 : !m, !v, !v
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @other_axis(%p: !m {tandem.role = #p}, %r: !v {tandem.role = #r}) -> (!m, !v)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !m -> tensor<?x?xf32>
  %1 = tandem.decode %r : !v -> tensor<?xf32>
  // expected-error @+1 {{operand #0 is indexed by a map other than its rows and columns}}
  %2 = linalg.broadcast ins(%1 : tensor<?xf32>) outs(%0 : tensor<?x?xf32>) dimensions = [0]
  return %p, %r : !m, !v
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// expected-error @+1 {{the graph has rows and columns, but "p" is '!tandem.stored<tensor<?xf32>, #tandem.float<f32>>'; give it two dimensions, or say per = row or per = column}}
func.func @flat_beside_rows(%p: !v {tandem.role = #p}, %r: !v {tandem.role = #r}) -> (!v, !v)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  return %p, %r : !v, !v
}

// -----

#p = #tandem.role<param "p", per = row>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

// expected-error @+1 {{argument "p" has an entry per row; that is a tensor with one dimension, got '!tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>'}}
func.func @matrix_per_row(%p: !m {tandem.role = #p}) -> !m
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  return %p : !m
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

func.func @scope_of_rows(%p: !m {tandem.role = #p}) -> !m
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !m -> tensor<?x?xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %0, %c0 : tensor<?x?xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%d) : tensor<?xf32>
  %zero = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  // expected-error @+1 {{a reduction along rows or columns has no tandem.scope}}
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?x?xf32>) outs(%zero : tensor<?xf32>)
      dimensions = [1] {tandem.scope = "model"}
  return %p : !m
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @entries_alike(%p: !m {tandem.role = #p}, %r: !v {tandem.role = #r}) -> (!m, !v)
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %r : !v -> tensor<?xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %c7 = arith.constant 7 : index
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %2 = tensor.extract %1[] : tensor<f32>
  %3 = tensor.splat %2[%c7] : tensor<?xf32>
  // expected-error @+1 {{reduces a vector without saying whether it has an entry per row or per column; let its size be a tensor.dim of the matrix}}
  %4 = linalg.reduce { arith.addf } ins(%3 : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  return %p, %r : !m, !v
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @sine(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  // expected-error @+1 {{'math.sin' of these types has no specified result; docs/Numerics.md lists the operations of a graph}}
  %1 = math.sin %0 : tensor<?xf32>
  %2 = tandem.encode %1 : tensor<?xf32> -> !f32
  return %2 : !f32
}

// -----

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// expected-error @+1 {{graph 'my-graph' needs a name of letters, digits, _ and $, as symbols of every target have them}}
func.func @"my-graph"(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  return %p : !f32
}

// -----

#p = #tandem.role<param "p">
#h = #tandem.role<hyper "h">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

func.func @power(%p: !f32 {tandem.role = #p}, %h: f64 {tandem.role = #h}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  %three = arith.constant 3 : i4
  // expected-error @+1 {{an exponent is i32 or i64, got 'i4'}}
  %1 = math.fpowi %h, %three : f64, i4
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

func.func @other_join(%p: !f32 {tandem.role = #p}) -> !f32
    attributes {tandem.compute = #tandem.compute<f32, f32>} {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %0 = tandem.decode %p : !f32 -> tensor<?xf32>
  // expected-error @+1 {{a reduction in a graph is of all elements of one tensor}}
  %1 = linalg.reduce ins(%0 : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
    (%in: f32, %sum: f32) {
      %2 = arith.addf %in, %in : f32
      linalg.yield %2 : f32
    }
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%1 : tensor<f32>) outs(%0 : tensor<?xf32>) {
  ^bb0(%s: f32, %x: f32):
    %4 = arith.mulf %x, %s : f32
    linalg.yield %4 : f32
  } -> tensor<?xf32>
  %5 = tandem.encode %3 : tensor<?xf32> -> !f32
  return %5 : !f32
}
