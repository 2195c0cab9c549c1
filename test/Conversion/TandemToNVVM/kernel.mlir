// RUN: tandem-opt %s -convert-tandem-to-nvvm -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// CHECK-LABEL: llvm.func @tandem_add_prologue(
// CHECK-SAME:      nvvm.kernel
// CHECK-SAME:      nvvm.maxntid = array<i32: 1>

// CHECK-LABEL: llvm.func @tandem_add(
// CHECK-SAME:      %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr, %[[FLAGS:.+]]: !llvm.ptr,
// CHECK-SAME:      %[[BEGIN:.+]]: i64, %[[END:.+]]: i64)
// CHECK-SAME:      nvvm.kernel
// CHECK-SAME:      nvvm.maxntid = array<i32: 256>
// CHECK-DAG:     %[[LANES:.+]] = arith.constant 8 : i64
// CHECK-DAG:     %[[MASK:.+]] = arith.constant 15 : i64
// CHECK-DAG:     %[[BLOCK:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK-DAG:     %[[BLOCKS:.+]] = nvvm.read.ptx.sreg.nctaid.x
// CHECK-DAG:     %[[THREAD:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK-DAG:     %[[THREADS:.+]] = nvvm.read.ptx.sreg.ntid.x
// CHECK-DAG:     %[[BLOCK64:.+]] = arith.extui %[[BLOCK]]
// CHECK-DAG:     %[[BLOCKS64:.+]] = arith.extui %[[BLOCKS]]
// CHECK-DAG:     %[[FIRST_CHUNK:.+]] = arith.addi %[[BEGIN]], %[[BLOCK64]]
// A word after the launch's flags disables the kernel.
// CHECK-DAG:     %[[SKIP_AT:.+]] = llvm.getelementptr %[[FLAGS]][4]
// CHECK-DAG:     %[[SKIP:.+]] = llvm.load %[[SKIP_AT]]
// CHECK-DAG:     %[[RUNS:.+]] = arith.cmpi eq, %[[SKIP]], %{{.+}} : i32
// CHECK-DAG:     %[[LAST:.+]] = arith.select %[[RUNS]], %[[END]], %[[BEGIN]]
// Blocks stride over chunks.
// CHECK:         scf.for %{{.+}} = %[[FIRST_CHUNK]] to %[[LAST]] step %[[BLOCKS64]]
// Accesses are wide if every plane is aligned and the chunk begins at a
// multiple of the width.
// CHECK-DAG:       %[[P:.+]] = llvm.addrspacecast %{{.+}} : !llvm.ptr to !llvm.ptr<1>
// CHECK-DAG:       %[[G:.+]] = llvm.addrspacecast %{{.+}} : !llvm.ptr to !llvm.ptr<1>
// CHECK:           %[[LOW:.+]] = arith.andi %{{.+}}, %[[MASK]]
// CHECK:           %[[OFFSET:.+]] = arith.andi %[[FROM:.+]], %{{.+}} : i64
// CHECK:           %[[REST:.+]] = arith.ori %[[LOW]], %[[OFFSET]]
// CHECK:           %[[ALIGNED:.+]] = arith.cmpi eq, %[[REST]]
// A step counts from the chunk's begin, in 32 bits.
// CHECK:           scf.for %[[I:.+]] = %{{.+}} to %{{.+}} step %{{.+}} : i32
// CHECK:             %[[OFFSET:.+]] = arith.extui %[[I]] : i32 to i64
// CHECK:             %[[INDEX:.+]] = arith.addi %[[FROM]], %[[OFFSET]] : i64
// CHECK:             %[[HERE:.+]] = arith.trunci %[[INDEX]] : i64 to i32
// CHECK:             %[[END:.+]] = arith.trunci %{{.+}} : i64 to i32
// CHECK:             %[[LEFT:.+]] = arith.subi %[[END]], %[[HERE]] : i32
// CHECK:             %[[WHOLE:.+]] = arith.cmpi sge, %[[LEFT]], %{{.+}} : i32
// CHECK:             %[[WIDE:.+]] = arith.andi %[[WHOLE]], %[[ALIGNED]]
// CHECK:             %[[LOADED:.+]]:2 = scf.if %[[WIDE]] -> (vector<8xf32>, vector<8xbf16>) {
// CHECK:               llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xf32>
// CHECK:               llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK:             } else {
// CHECK-COUNT-8:       arith.cmpi sgt, %{{.+}} : i32
// CHECK:             }
// CHECK:             %[[X:.+]] = arith.extf %[[LOADED]]#1
// CHECK:             %[[SUM:.+]] = arith.addf %[[LOADED]]#0, %[[X]] : vector<8xf32>
// CHECK:             scf.if %[[WIDE]] {
// CHECK:               llvm.store %[[SUM]], %{{.+}} {alignment = 16 : i64} : vector<8xf32>, !llvm.ptr<1>
// CHECK:             } else {
// CHECK:               scf.if
// CHECK:                 %[[ELEMENT:.+]] = vector.extract %[[SUM]][0]
// CHECK:                 llvm.store %[[ELEMENT]], %{{.+}} {alignment = 4 : i64} : f32, !llvm.ptr<1>
// CHECK:         llvm.return
tandem.step @add compute(<f32, f32>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !f32, %g: !bf16):
    %0 = tandem.load_plane %p[0] : !f32 -> vector<8xf32>
    %1 = tandem.load_plane %g[0] : !bf16 -> vector<8xbf16>
    %2 = arith.extf %1 : vector<8xbf16> to vector<8xf32>
    %3 = arith.addf %0, %2 : vector<8xf32>
    tandem.store_plane %3, %p[0] : vector<8xf32>, !f32
    tandem.yield
  }
}

// A thread accesses two bf16 elements as 4 bytes. Their random bits are two
// half-words of one Philox call, or of this one and the next: ten rounds each.
// CHECK-LABEL: llvm.func @tandem_narrow(
// CHECK:         scf.if
// CHECK:           llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xi16>
// CHECK-COUNT-20: arith.mului_extended
// CHECK-NOT:     arith.mului_extended
// CHECK:         scf.if
// CHECK-COUNT-20:  arith.mului_extended
// CHECK-NOT:     arith.mului_extended
// CHECK:         %[[HALVES:.+]] = vector.extract_strided_slice %{{.+}} {offsets = [0], sizes = [2], strides = [1]} : vector<8xi16> to vector<2xi16>
// CHECK-NEXT:    arith.xori %{{.+}}, %[[HALVES]] : vector<2xi16>
tandem.step @narrow compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(2) body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<2xi16>
    %1 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> vector<2xi32>
    %2 = arith.trunci %1 : vector<2xi32> to vector<2xi16>
    %3 = arith.xori %0, %2 : vector<2xi16>
    tandem.store_plane %3, %p[0] : vector<2xi16>, !bf16
    tandem.yield
  }
}

// Dithered bits come from two Philox calls, which the tensor's elements share.
// The elements of a thread add constants to the first one's bits.
// CHECK-LABEL: llvm.func @tandem_dithered(
// CHECK:         %[[STEPS:.+]] = arith.constant dense<[0, 1627904589]> : vector<2xi32>
// CHECK-COUNT-34: arith.mului_extended
// CHECK-NOT:     arith.mului_extended
// CHECK:         %[[ELEMENT:.+]] = arith.muli %{{.+}}, %c1627904589_i32 : i32
// CHECK:         %[[WORD:.+]] = arith.addi %[[ELEMENT]], %{{.+}} : i32
// CHECK:         %[[FIRST:.+]] = vector.broadcast %[[WORD]] : i32 to vector<2xi32>
// CHECK:         %[[SUM:.+]] = arith.addi %[[FIRST]], %[[STEPS]] : vector<2xi32>
// CHECK:         arith.shrui %[[SUM]], %{{.+}} : vector<2xi32>
tandem.step @dithered compute(<f32, f32>) tensors [#tandem.role<grad "g">, #p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(2) body {
  ^bb0(%g: !bf16, %p: !bf16, %s: i32):
    %1 = tandem.random_bits dither %p seed(%s, %s) step(%s) : !bf16 -> vector<2xi32>
    %2 = arith.trunci %1 : vector<2xi32> to vector<2xi16>
    tandem.store_plane %2, %p[0] : vector<2xi16>, !bf16
    tandem.yield
  }
}

// A kernel may have no loads.
// CHECK-LABEL: llvm.func @tandem_fill(
// CHECK-NOT:     llvm.load {{.+}} : !llvm.ptr<1>
// CHECK:         llvm.store %[[X:.+]], %{{.+}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
tandem.step @fill compute(<f32, f32>) tensors [#p] scalars [#tandem.role<hyper "x">] prologue {
^bb0(%x: f64):
  %0 = arith.truncf %x : f64 to f32
  tandem.yield %0 : f32
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !f32, %x: f32):
    %0 = vector.broadcast %x : f32 to vector<4xf32>
    tandem.store_plane %0, %p[0] : vector<4xf32>, !f32
    tandem.yield
  }
}

// A thread for which a condition holds in a chunk sets its bit of the launch's
// flags.
// CHECK-LABEL: llvm.func @tandem_flag(
// CHECK-SAME:      %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[FLAGS:[^:]+]]: !llvm.ptr,
// CHECK-DAG:     %[[NONE:.+]] = arith.constant false
// CHECK-DAG:     %[[BIT:.+]] = arith.constant 8 : i32
// CHECK:         scf.for
// CHECK:           %[[HELD:.+]] = scf.for {{.+}} iter_args(%[[BEFORE:.+]] = %[[NONE]]) -> (i1)
// CHECK:             %[[WIDE:.+]] = arith.extsi %{{.+}} : vector<2xi16> to vector<2xi32>
// CHECK:             %[[HOLDS:.+]] = arith.cmpi sgt, %[[WIDE]], %{{.+}} : vector<2xi32>
// CHECK:             %[[ANY:.+]] = vector.reduction <or>, %[[HOLDS]] : vector<2xi1> into i1
// CHECK:             %[[OR:.+]] = arith.ori %[[BEFORE]], %[[ANY]] : i1
// CHECK:             scf.yield %[[OR]]
// CHECK:           scf.if %[[HELD]] {
// CHECK-NEXT:        %[[GLOBAL:.+]] = llvm.addrspacecast %[[FLAGS]] : !llvm.ptr to !llvm.ptr<1>
// CHECK-NEXT:        llvm.atomicrmw _or %[[GLOBAL]], %[[BIT]] monotonic : !llvm.ptr<1>, i32
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
// CHECK:             %[[HOLDS:.+]] = arith.cmpi slt, %{{.+}} : vector<2xi32>
// CHECK:             %[[EXISTS:.+]] = arith.cmpi sgt, %{{.+}} : vector<2xi32>
// CHECK:             %[[BOTH:.+]] = arith.andi %[[HOLDS]], %[[EXISTS]] : vector<2xi1>
// CHECK:             vector.reduction <or>, %[[BOTH]] : vector<2xi1> into i1
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
