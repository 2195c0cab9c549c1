// RUN: tandem-opt %s -convert-tandem-to-cpu | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// Words of memory with 16-bit planes hold an even element in the low half and
// an odd one in the high half. Wide lanes hold all even elements first, then
// all odd ones; sums need them in order again.
// CHECK-LABEL: llvm.func @tandem_halves(
// CHECK:         %[[CODES:.+]] = llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr -> vector<8xi16>
// CHECK-NEXT:    %[[WORDS:.+]] = vector.bitcast %[[CODES]] : vector<8xi16> to vector<4xi32>
// CHECK:         %[[EVEN:.+]] = arith.andi %[[WORDS]], %{{.+}} : vector<4xi32>
// CHECK:         %[[ODD:.+]] = arith.shrui %[[WORDS]], %{{.+}} : vector<4xi32>
// CHECK-NEXT:    %[[LANES:.+]] = vector.shuffle %[[EVEN]], %[[ODD]] [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK:         %[[X:.+]] = arith.addi %[[LANES]], %{{.+}} : vector<8xi32>
// CHECK-NEXT:    %[[FIRST:.+]] = vector.shuffle %[[X]], %[[X]] [0, 1, 2, 3]
// CHECK-NEXT:    %[[SECOND:.+]] = vector.shuffle %[[X]], %[[X]] [4, 5, 6, 7]
// CHECK-DAG:     %[[LOW:.+]] = arith.andi %[[FIRST]]
// CHECK-DAG:     %[[HIGH:.+]] = arith.shli %[[SECOND]]
// CHECK-NEXT:    %[[PAIR:.+]] = arith.ori %[[LOW]], %[[HIGH]]
// CHECK-NEXT:    %[[CODE:.+]] = vector.bitcast %[[PAIR]] : vector<4xi32> to vector<8xi16>
// CHECK:         llvm.store %[[CODE]]
// CHECK:         %[[REAL:.+]] = arith.uitofp %[[X]]
// CHECK-NEXT:    %[[EVENS:.+]] = vector.shuffle %[[REAL]], %[[REAL]] [0, 1, 2, 3]
// CHECK-NEXT:    %[[ODDS:.+]] = vector.shuffle %[[REAL]], %[[REAL]] [4, 5, 6, 7]
// CHECK-NEXT:    vector.interleave %[[EVENS]], %[[ODDS]]
tandem.step @halves compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !bf16):
    %c = arith.constant dense<3> : vector<8xi32>
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<8xi16>
    %1 = arith.extui %0 : vector<8xi16> to vector<8xi32>
    %2 = arith.addi %1, %c : vector<8xi32>
    %3 = arith.trunci %2 : vector<8xi32> to vector<8xi16>
    tandem.store_plane %3, %p[0] : vector<8xi16>, !bf16
    %4 = arith.uitofp %2 : vector<8xi32> to vector<8xf64>
    tandem.metric %4[0] : vector<8xf64>
    tandem.yield
  }
}

// Random bits are 16-bit values in element order.
// CHECK-LABEL: llvm.func @tandem_random(
// CHECK:         %[[BITS:.+]] = vector.bitcast %{{.+}} : vector<4xi32> to vector<8xi16>
// CHECK-NEXT:    vector.bitcast %[[BITS]] : vector<8xi16> to vector<4xi32>
tandem.step @random compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> vector<8xi32>
    %1 = arith.trunci %0 : vector<8xi32> to vector<8xi16>
    tandem.store_plane %1, %p[0] : vector<8xi16>, !bf16
    tandem.yield
  }
}

// Dithered bits are computed in the order of the lanes, even elements first, so
// the multiples of 1627904589 are those of 0, 2, 4, 6 and 1, 3, 5, 7.
// CHECK-LABEL: llvm.func @tandem_dithered(
// CHECK:         arith.constant dense<[0, -1039158118, -2078316236, 1177492942, 1627904589, 588746471, -450411647, -1489569765]> : vector<8xi32>
tandem.step @dithered compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.random_bits dither %p seed(%s, %s) step(%s) : !bf16 -> vector<8xi32>
    %1 = arith.trunci %0 : vector<8xi32> to vector<8xi16>
    tandem.store_plane %1, %p[0] : vector<8xi16>, !bf16
    tandem.yield
  }
}

// A 32-bit plane is in element order, so all lanes are.
// CHECK-LABEL: llvm.func @tandem_words(
// CHECK-NOT:     vector.shuffle
// CHECK:         arith.extui %{{.+}} : vector<8xi16> to vector<8xi32>
// CHECK-NOT:     vector.shuffle
// CHECK:         llvm.return
tandem.step @words compute(<f32, f32>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !f32, %g: !bf16):
    %0 = tandem.load_plane %g[0] : !bf16 -> vector<8xi16>
    %1 = arith.extui %0 : vector<8xi16> to vector<8xi32>
    tandem.store_plane %1, %p[0] : vector<8xi32>, !f32
    tandem.yield
  }
}

// Lanes are also in order if values indexed by a constant or a condition on
// 16-bit values are combined with wide ones.
// CHECK-LABEL: llvm.func @tandem_numbered(
// CHECK-NOT:     vector.shuffle
// CHECK:         llvm.return
tandem.step @numbered compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !bf16):
    %c = arith.constant dense<[0, 1, 2, 3]> : vector<4xi32>
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<4xi16>
    %1 = arith.extui %0 : vector<4xi16> to vector<4xi32>
    %2 = arith.addi %1, %c : vector<4xi32>
    %3 = arith.trunci %2 : vector<4xi32> to vector<4xi16>
    tandem.store_plane %3, %p[0] : vector<4xi16>, !bf16
    tandem.yield
  }
}
// CHECK-LABEL: llvm.func @tandem_condition(
// CHECK-NOT:     vector.shuffle
// CHECK:         llvm.return
tandem.step @condition compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !bf16):
    %c = arith.constant dense<3> : vector<4xi16>
    %d = arith.constant dense<4> : vector<4xi32>
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<4xi16>
    %1 = arith.extui %0 : vector<4xi16> to vector<4xi32>
    %2 = arith.cmpi ult, %0, %c : vector<4xi16>
    %3 = arith.select %2, %1, %d : vector<4xi1>, vector<4xi32>
    %4 = arith.trunci %3 : vector<4xi32> to vector<4xi16>
    tandem.store_plane %4, %p[0] : vector<4xi16>, !bf16
    tandem.yield
  }
}

// Lanes of a type without a width, such as index, are also in order.
// CHECK-LABEL: llvm.func @tandem_indices(
// CHECK-NOT:     vector.shuffle
// CHECK:         llvm.return
tandem.step @indices compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !bf16):
    %c = arith.constant dense<3> : vector<4xindex>
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<4xi16>
    %1 = arith.index_castui %0 : vector<4xi16> to vector<4xindex>
    %2 = arith.addi %1, %c : vector<4xindex>
    %3 = arith.index_castui %2 : vector<4xindex> to vector<4xi16>
    tandem.store_plane %3, %p[0] : vector<4xi16>, !bf16
    tandem.yield
  }
}
// CHECK-LABEL: llvm.func @tandem_expansions(
// CHECK-NOT:     vector.shuffle
// CHECK:         mcf.pack
// CHECK-NOT:     vector.shuffle
// CHECK:         llvm.return
tandem.step @expansions compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !bf16):
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<4xi16>
    %1 = arith.bitcast %0 : vector<4xi16> to vector<4xbf16>
    %2 = mcf.pack %1, %1 : vector<4x!mcf.expansion<bf16 x 2>>
    %3:2 = mcf.components %2 : vector<4x!mcf.expansion<bf16 x 2>>
    %4 = arith.bitcast %3#0 : vector<4xbf16> to vector<4xi16>
    tandem.store_plane %4, %p[0] : vector<4xi16>, !bf16
    tandem.yield
  }
}
