// RUN: tandem-opt %s -convert-tandem-to-nvvm | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

// One thread per row and one per column combines the partial results of tiles,
// neighbours first, then pairs of pairs, in place of the first partial result.
// CHECK-LABEL: llvm.func @tandem_sums_row_totals
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK:             arith.addf %{{.+}}, %{{.+}} : f32
// CHECK-LABEL: llvm.func @tandem_sums_column_totals
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK:             arith.maxui %{{.+}}, %{{.+}} : i32

// A block iterates over the rows of a tile: a thread's columns stay in
// registers, and a row's sum is a reduction over the block.
// CHECK-LABEL: llvm.func @tandem_sums(
// CHECK:         %[[COLUMNS:.+]] = scf.for %{{.+}} iter_args(%[[ABOVE:.+]] = %{{.+}}) -> (vector<4xi32>)
// CHECK:           nvvm.shfl.sync bfly
// CHECK:           nvvm.barrier
// CHECK:           %[[BOTH:.+]] = arith.maxui %[[ABOVE]], %{{.+}} : vector<4xi32>
// CHECK:           scf.yield %[[BOTH]]
// CHECK:         vector.extract %[[COLUMNS]][0]
tandem.step @sums compute(<f32, f32>) reductions(2) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !m):
    %x = tandem.load_plane %p[0] : !m -> vector<4xf32>
    %bits = arith.bitcast %x : vector<4xf32> to vector<4xi32>
    tandem.partial sum %x[0] over row : vector<4xf32>
    tandem.partial max %bits[1] over column : vector<4xi32>
    tandem.yield
  }
}

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>

// The maximum is taken over a thread's columns in all rows, and then over the
// eight threads of a block of the scale, whose first thread writes it.
// CHECK-LABEL: llvm.func @tandem_blocks_phase0
// CHECK:         %[[ROWS:.+]] = scf.for {{.*}} -> (i32)
// CHECK:           %[[OWN:.+]] = vector.reduction <maxui>, %{{.+}} : vector<8xi32> into i32
// CHECK:           arith.maxui %{{.+}}, %[[OWN]] : i32
// CHECK:         nvvm.shfl.sync bfly %{{.+}}, %[[ROWS]]
// CHECK-COUNT-2: nvvm.shfl.sync bfly
// CHECK-NOT:     nvvm.shfl.sync
// CHECK:         scf.if
// CHECK:           llvm.store %{{.+}}, %{{.+}} : i32, !llvm.ptr<1>
// CHECK-LABEL: llvm.func @tandem_blocks(
// CHECK:         %[[ENTRY:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> i32
// CHECK:         arith.trunci %[[ENTRY]] : i32 to i8
// CHECK-LABEL: llvm.func @tandem_blocks_commit_blocks
// CHECK:         llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<8xi32>
// CHECK-NOT:   llvm.func @tandem_blocks_phase0_totals
tandem.step @blocks compute(<f32, f32>) reductions(1) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(8) body {
  ^bb0(%p: !b):
    %x = tandem.load_plane %p[0] : !b -> vector<8xi8>
    %y = arith.extui %x : vector<8xi8> to vector<8xi32>
    tandem.partial max %y[0] over block : vector<8xi32>
    tandem.yield
  }
  tandem.launch main width(8) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : i32
    %1 = arith.trunci %0 : i32 to i8
    %2 = vector.broadcast %1 : i8 to vector<8xi8>
    tandem.store_plane %2, %p[0] : vector<8xi8>, !b
    tandem.yield
  }
  tandem.launch epilogue per(block) width(8) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : vector<8xi32>
    tandem.store_plane %0, %p[1] : vector<8xi32>, !b
    tandem.yield
  }
}

!t = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>

// A row is a column of the transpose. If the tile's rows are multiples of eight at
// aligned addresses, each of a thread's columns collects the codes of eight rows in 64
// bits, which are written with the last of these rows; otherwise, codes are written one
// by one.
// CHECK-LABEL: llvm.func @tandem_transposed(
// CHECK:         %[[PIECES:.+]] = arith.constant dense<0> : vector<4xi64>
// CHECK:         %[[ADDRESS:.+]] = llvm.ptrtoint
// CHECK:         %[[BITS:.+]] = arith.ori %{{.+}}, %[[ADDRESS]] : i64
// CHECK:         %[[SEVEN:.+]] = arith.constant 7 : i64
// CHECK:         %[[LOW:.+]] = arith.andi %[[BITS]], %[[SEVEN]] : i64
// CHECK:         %[[GATHERED:.+]] = arith.cmpi eq, %[[LOW]], %{{.+}} : i64
// CHECK:         scf.for %[[ROW:.+]] = {{.*}} iter_args(%[[BEFORE:.+]] = %[[PIECES]]) -> (vector<4xi64>)
// CHECK:           %[[DOWN:.+]] = arith.shrui %[[BEFORE]], %{{.+}} : vector<4xi64>
// CHECK:           %[[PIECE:.+]] = arith.ori %[[DOWN]], %{{.+}} : vector<4xi64>
// CHECK:           scf.if %[[GATHERED]]
// CHECK:             %[[AT:.+]] = arith.andi %[[ROW]], %{{.+}} : i64
// CHECK:             %[[LAST:.+]] = arith.cmpi eq, %[[AT]], %{{.+}} : i64
// CHECK:             scf.if %[[LAST]]
// CHECK:               vector.extract %[[PIECE]][0]
// CHECK-NEXT:          llvm.store %{{.+}}, %{{.+}} {alignment = 8 : i64} : i64, !llvm.ptr<1>
// CHECK:           else
// CHECK:             llvm.store %{{.+}}, %{{.+}} {alignment = 1 : i64} : i8, !llvm.ptr<1>
// CHECK:           scf.yield %[[PIECE]]
tandem.step @transposed compute(<f32, f32>) tensors [#tandem.role<input "x">, #tandem.role<output "y">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%x: !m, %y: !t):
    %0 = tandem.load_plane %x[0] : !m -> vector<4xi32>
    %1 = arith.trunci %0 : vector<4xi32> to vector<4xi8>
    tandem.store_plane %1, %y[2] : vector<4xi8>, !t
    tandem.yield
  }
}
