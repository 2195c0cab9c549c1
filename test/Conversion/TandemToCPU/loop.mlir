// RUN: tandem-opt %s -convert-tandem-to-cpu -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#b = #tandem.role<hyper "b">
#t = #tandem.role<step "t">
#c = #tandem.role<hyper "c">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!master = !tandem.stored<tensor<?xf32>, #tandem.master<bf16>>

// In a row, two hypers take 16 bytes, one integer 8, and two slots 8.
// CHECK-LABEL: llvm.func @tandem_scale_prologue(
// CHECK-SAME:      %[[HYPERS:.+]]: !llvm.ptr, %[[INTEGERS:.+]]: !llvm.ptr, %[[SLOTS:.+]]: !llvm.ptr, %[[ROWS:.+]]: i64)
// CHECK-DAG:     %[[EIGHT:.+]] = arith.constant 8 : i64
// CHECK-DAG:     %[[SIXTEEN:.+]] = arith.constant 16 : i64
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %[[ROWS]]
// CHECK:           %[[HYPER_BYTES:.+]] = arith.muli %[[ROW]], %[[SIXTEEN]]
// CHECK:           %[[HYPER_ROW:.+]] = llvm.getelementptr %[[HYPERS]][%[[HYPER_BYTES]]]
// CHECK:           %[[BYTES:.+]] = arith.muli %[[ROW]], %[[EIGHT]]
// CHECK:           %[[INTEGER_ROW:.+]] = llvm.getelementptr %[[INTEGERS]][%[[BYTES]]]
// CHECK-DAG:       %[[B:.+]] = llvm.load %[[HYPER_ROW]] : !llvm.ptr -> f64
// CHECK-DAG:       %[[T:.+]] = llvm.load %[[INTEGER_ROW]] : !llvm.ptr -> i64
// CHECK-DAG:       %[[NEXT:.+]] = llvm.getelementptr %[[HYPER_ROW]][8]
// CHECK-DAG:       %[[C:.+]] = llvm.load %[[NEXT]] : !llvm.ptr -> f64
// CHECK-DAG:       %[[C32:.+]] = arith.truncf %[[C]] : f64 to f32
// An integer power is computed by square and multiply in a fixed order; a
// negative power is the reciprocal.
// CHECK:           scf.for {{.+}} iter_args(%[[POWER:.+]] = %{{.+}}, %[[SQUARE:.+]] = %[[B]], %[[REST:.+]] = %{{.+}}) -> (f64, f64, i64)
// CHECK:             arith.mulf %[[POWER]], %[[SQUARE]] : f64
// CHECK:             arith.mulf %[[SQUARE]], %[[SQUARE]] : f64
// CHECK:             arith.shrui %[[REST]]
// CHECK:           arith.divf
// CHECK-NOT:       math.fpowi
// CHECK-DAG:       %[[FIRST:.+]] = arith.bitcast %[[C32]] : f32 to i32
// CHECK:           llvm.store %[[FIRST]], %{{.+}} : i32
// CHECK:           llvm.store %{{.+}}, %{{.+}} : i32
// CHECK:         llvm.return

// A chunk is {tensor, row, begin, end}, 32 bytes. The record of a tensor has
// 104 bytes and 8 for each of the three planes. A row's elements follow those
// of the previous rows.
// CHECK-LABEL: llvm.func @tandem_scale(
// CHECK-SAME:      %[[TENSORS:[^:]+]]: !llvm.ptr, %[[CHUNKS:[^:]+]]: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr,
// CHECK-SAME:      %[[BEGIN:.+]]: i64, %[[END:.+]]: i64)
// CHECK-DAG:     %[[LANES:.+]] = arith.constant 8 : i64
// CHECK-DAG:     %[[CHUNK_BYTES:.+]] = arith.constant 32 : i64
// CHECK-DAG:     %[[RECORD_BYTES:.+]] = arith.constant 128 : i64
// CHECK-DAG:     %[[SCRATCH0:.+]] = llvm.alloca {{.+}} x vector<8xi16> {alignment = 64 : i64}
// CHECK-DAG:     %[[SCRATCH1:.+]] = llvm.alloca {{.+}} x vector<8xi32> {alignment = 64 : i64}
// CHECK:         scf.for %[[CHUNK:.+]] = %[[BEGIN]] to %[[END]]
// CHECK:           arith.muli %[[CHUNK]], %[[CHUNK_BYTES]]
// CHECK:           %[[RECORD:.+]] = llvm.getelementptr %[[CHUNKS]]
// CHECK:           %[[TENSOR:.+]] = llvm.load %[[RECORD]] : !llvm.ptr -> i64
// CHECK:           arith.muli %[[TENSOR]], %[[RECORD_BYTES]]
// CHECK:           %[[TABLE:.+]] = llvm.getelementptr %[[TENSORS]]
// CHECK:           %[[AT8:.+]] = llvm.getelementptr %[[TABLE]][8]
// CHECK-NEXT:      %[[COLUMNS:.+]] = llvm.load %[[AT8]] : !llvm.ptr -> i64
// CHECK-DAG:       llvm.getelementptr %[[TABLE]][104]
// CHECK-DAG:       llvm.getelementptr %[[TABLE]][112]
// CHECK-DAG:       llvm.getelementptr %[[TABLE]][120]
// CHECK-DAG:       %[[AT16:.+]] = llvm.getelementptr %[[RECORD]][16]
// CHECK-DAG:       %[[FROM:.+]] = llvm.load %[[AT16]] : !llvm.ptr -> i64
// CHECK-DAG:       %[[AT24:.+]] = llvm.getelementptr %[[RECORD]][24]
// CHECK-DAG:       %[[TO:.+]] = llvm.load %[[AT24]] : !llvm.ptr -> i64
// CHECK:           %[[ROW:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i64
// CHECK:           arith.muli %[[ROW]], %[[COLUMNS]] : i64
// CHECK:           scf.for %[[I:.+]] = %[[FROM]] to %[[TO]] step %[[LANES]]
// Each plane is prefetched 1024 bytes ahead, in lines of 64 bytes.
// CHECK-COUNT-3:     llvm.intr.prefetch
// CHECK-NOT:         llvm.intr.prefetch
// CHECK:             %[[COUNT:.+]] = arith.subi %[[TO]], %[[I]]
// CHECK:             %[[PARTIAL:.+]] = arith.cmpi slt, %[[COUNT]], %[[LANES]]
// A partial block runs on a copy. The visible plane, 0, is not read, and the
// gradient, 2, is not written.
// CHECK:             scf.if %[[PARTIAL]] {
// CHECK-COUNT-2:       llvm.intr.memcpy
// CHECK-NOT:           llvm.intr.memcpy
// CHECK:             }
// CHECK-DAG:         %[[P0:.+]] = llvm.select %[[PARTIAL]], %[[SCRATCH0]]
// CHECK-DAG:         %[[P1:.+]] = llvm.select %[[PARTIAL]], %[[SCRATCH1]]
// CHECK-DAG:         llvm.load %[[P1]] {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
// CHECK-DAG:         %[[PRODUCT:.+]] = arith.mulf
// CHECK-DAG:         llvm.store %{{.+}}, %[[P0]] {alignment = 2 : i64} : vector<8xi16>
// CHECK-DAG:         llvm.store %[[PRODUCT]], %[[P1]] {alignment = 4 : i64} : vector<8xf32>
// CHECK:             scf.if %[[PARTIAL]] {
// CHECK-COUNT-2:       llvm.intr.memcpy
// CHECK-NOT:           llvm.intr.memcpy
// CHECK:             }
// CHECK:         llvm.return
tandem.step @scale compute(<f32, f32>) tensors [#p, #g] scalars [#b, #t, #c] prologue {
^bb0(%b: f64, %t: i64, %c: f64):
  %0 = arith.truncf %c : f64 to f32
  %1 = math.fpowi %b, %t : f64, i64
  %2 = arith.truncf %1 : f64 to f32
  tandem.yield %0, %2 : f32, f32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !master, %g: !bf16, %b: f32, %c: f32):
    %0 = tandem.load_plane %p[1] : !master -> vector<8xf32>
    %1 = tandem.load_plane %g[0] : !bf16 -> vector<8xi16>
    %2 = vector.broadcast %b : f32 to vector<8xf32>
    %3 = arith.mulf %0, %2 : vector<8xf32>
    tandem.store_plane %1, %p[0] : vector<8xi16>, !master
    tandem.store_plane %3, %p[1] : vector<8xf32>, !master
    tandem.yield
  }
}

// A scalar kernel has no partial block. Random bits depend on the element's
// index in the unsharded tensor, which starts at the record's `first`, and on
// the low word of the key.
// CHECK-LABEL: llvm.func @tandem_random(
// CHECK-NOT:     llvm.alloca
// CHECK:         %[[TABLE:.+]] = llvm.getelementptr %{{.+}} : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK:         %[[AT24:.+]] = llvm.getelementptr %[[TABLE:.+]][24] : (!llvm.ptr) -> !llvm.ptr, i8
// CHECK:         %[[FIRST:.+]] = llvm.load %[[AT24:.+]] : !llvm.ptr -> i64
// CHECK:         %[[KEY:.+]] = arith.trunci %{{.+}} : i64 to i32
// CHECK:         scf.for %[[I:.+]] = %{{.+}} to
// CHECK-NOT:       llvm.intr.memcpy
// CHECK:           %[[INDEX:.+]] = arith.addi %{{.*}}%[[I]]{{.*}} : i64
// CHECK:           arith.shrui %[[INDEX]]
// CHECK:           %[[LOW:.+]], %[[HIGH:.+]] = arith.mului_extended %[[KEY]], %{{.+}} : i32
tandem.step @random compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> i32
    %1 = arith.trunci %0 : i32 to i16
    tandem.store_plane %1, %p[0] : i16, !bf16
    tandem.yield
  }
}

// A metric's sum is a tree over the chunk, in which lanes beyond the end are -0.0.
// As many blocks as a block has elements are folded together, and their sums carry
// on a stack like a binary counter. Each chunk writes its own slot of the workspace.
// CHECK-LABEL: llvm.func @tandem_metric(
// CHECK-SAME:      %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[WORKSPACE:[^:]+]]: !llvm.ptr,
// CHECK-DAG:     %[[NOTHING:.+]] = arith.constant dense<-0.000000e+00> : vector<2xf64>
// CHECK-DAG:     %[[START:.+]] = arith.constant -0.000000e+00 : f64
// CHECK:         %[[STACK:.+]] = llvm.alloca {{.+}} x i64
// CHECK:         %[[SLOT:.+]] = llvm.getelementptr %[[WORKSPACE]]
// CHECK:           %[[EXISTING:.+]] = arith.select %{{.+}}, %{{.+}}, %[[NOTHING]] : vector<2xi1>, vector<2xf64>
// CHECK:           llvm.store %[[EXISTING]], %{{.+}} {alignment = 64 : i64}
// CHECK:           scf.if
// CHECK:             %[[FIRST:.+]] = llvm.load {{.+}} -> vector<2xf64>
// CHECK:             %[[SECOND:.+]] = llvm.load {{.+}} -> vector<2xf64>
// CHECK-DAG:         %[[EVEN:.+]] = vector.shuffle %[[FIRST]], %[[SECOND]] [0, 2]
// CHECK-DAG:         %[[ODD:.+]] = vector.shuffle %[[FIRST]], %[[SECOND]] [1, 3]
// CHECK:             %[[PAIRS:.+]] = arith.addf %[[EVEN]], %[[ODD]]
// CHECK-DAG:         vector.shuffle %[[PAIRS]], %[[PAIRS]] [0]
// CHECK-DAG:         vector.shuffle %[[PAIRS]], %[[PAIRS]] [1]
// CHECK:             scf.while
// Missing blocks at the end count as -0.0.
// CHECK:         scf.if
// CHECK:           llvm.store %[[NOTHING]], %{{.+}}
// CHECK:         %[[TOTAL:.+]]:3 = scf.while {{.*}}%[[START]]
// CHECK:         llvm.store %[[TOTAL]]#2, %[[SLOT]] : f64
tandem.step @metric compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%p: !bf16):
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<2xi16>
    %1 = arith.uitofp %0 : vector<2xi16> to vector<2xf64>
    tandem.metric %1[0] : vector<2xf64>
    tandem.yield
  }
}

// Conditions are accumulated over a chunk's blocks; if one holds anywhere, it
// sets its bit of the thread's flags.
// CHECK-LABEL: llvm.func @tandem_flag(
// CHECK-SAME:      %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[FLAGS:[^:]+]]: !llvm.ptr,
// CHECK-DAG:     %[[NONE:.+]] = arith.constant dense<false> : vector<2xi1>
// CHECK-DAG:     %[[BIT:.+]] = arith.constant 8 : i32
// CHECK:         scf.for
// CHECK:           %[[HELD:.+]] = scf.for {{.+}} iter_args(%[[BEFORE:.+]] = %[[NONE]]) -> (vector<2xi1>)
// CHECK:             %[[HOLDS:.+]] = arith.cmpi sgt
// CHECK:             %[[OR:.+]] = arith.ori %[[BEFORE]], %[[HOLDS]] : vector<2xi1>
// CHECK:             scf.yield %[[OR]]
// CHECK:           %[[ANY:.+]] = vector.reduction <or>, %[[HELD]] : vector<2xi1> into i1
// CHECK:           scf.if %[[ANY]] {
// CHECK-NEXT:        %[[OLD:.+]] = llvm.load %[[FLAGS]] : !llvm.ptr -> i32
// CHECK-NEXT:        %[[NEW:.+]] = arith.ori %[[OLD]], %[[BIT]] : i32
// CHECK-NEXT:        llvm.store %[[NEW]], %[[FLAGS]] : i32, !llvm.ptr
tandem.step @flag compute(<f32, f32>) tensors [#g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%g: !bf16):
    %0 = tandem.load_plane %g[0] : !bf16 -> vector<2xi16>
    %1 = arith.constant dense<7> : vector<2xi16>
    %2 = arith.cmpi sgt, %0, %1 : vector<2xi16>
    tandem.set_flag %2[3] : vector<2xi1>
    tandem.yield
  }
}

// A condition that holds for zeros counts only for elements, since lanes beyond
// the end are zero.
// CHECK-LABEL: llvm.func @tandem_flag_of_zeros(
// CHECK-DAG:     %[[NONE:.+]] = arith.constant dense<false> : vector<2xi1>
// CHECK:             %[[HOLDS:.+]] = arith.cmpi slt, %{{.+}} : vector<2xi16>
// CHECK:             %[[EXISTS:.+]] = arith.cmpi sgt, %{{.+}} : vector<2xi32>
// CHECK:             %[[BOTH:.+]] = arith.select %[[EXISTS]], %[[HOLDS]], %[[NONE]]
// CHECK:             arith.ori %{{.+}}, %[[BOTH]] : vector<2xi1>
tandem.step @flag_of_zeros compute(<f32, f32>) tensors [#g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%g: !bf16):
    %0 = tandem.load_plane %g[0] : !bf16 -> vector<2xi16>
    %1 = arith.constant dense<7> : vector<2xi16>
    %2 = arith.cmpi slt, %0, %1 : vector<2xi16>
    tandem.set_flag %2[3] : vector<2xi1>
    tandem.yield
  }
}
