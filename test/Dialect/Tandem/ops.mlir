// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -emit-bytecode | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -mlir-print-op-generic | tandem-opt | FileCheck %s

!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16, stochastic>>
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

// CHECK-LABEL: tandem.strategy @mine compute(<component, bf16>) {
tandem.strategy @mine compute(<component, bf16>) {
  // CHECK-NEXT: tandem.assign param named("head.weight") = #tandem.float<f32>
  tandem.assign param named("head.weight") = #tandem.float<f32>
  // CHECK-NEXT: tandem.assign state moment(second) named("v") = #tandem.expansion<bf16 x 2>
  tandem.assign state moment(second) named("v") = #tandem.expansion<bf16 x 2>
  // CHECK-NEXT: tandem.assign state moment(first) = #tandem.kahan<bf16>
  tandem.assign state moment(first) = #tandem.kahan<bf16>
  // CHECK-NEXT: tandem.assign grad = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
}

// CHECK-LABEL: func.func @vocabulary(
// CHECK-SAME:      %[[S:.+]]: tensor<?xf32>, %[[B:.+]]: tensor<?xf32>, %[[X:.+]]: tensor<?xf32>)
func.func @vocabulary(%s: tensor<?xf32>, %b: tensor<?xf32>, %x: tensor<?xf32>) {
  // CHECK: tandem.accumulate %[[S]], %[[X]] : tensor<?xf32>
  %0 = tandem.accumulate %s, %x : tensor<?xf32>
  // CHECK: tandem.decay %[[S]] by %[[B]] : tensor<?xf32>
  %1 = tandem.decay %s by %b : tensor<?xf32>
  // CHECK: tandem.ema %[[S]] by %[[B]] plus %[[X]] : tensor<?xf32>
  %2 = tandem.ema %s by %b plus %x : tensor<?xf32>
  return
}

// CHECK-LABEL: func.func @boundary(
// CHECK-SAME:      %[[P:.+]]: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>)
func.func @boundary(%p: !pair) -> !pair {
  // CHECK: %[[X:.+]] = tandem.decode %[[P]] : <tensor<?xf32>, #tandem.expansion<bf16 x 2>> -> tensor<?xf32>
  %0 = tandem.decode %p : !pair -> tensor<?xf32>
  // CHECK: tandem.encode %[[X]] : tensor<?xf32> -> <tensor<?xf32>, #tandem.expansion<bf16 x 2>>
  %1 = tandem.encode %0 : tensor<?xf32> -> !pair
  return %1 : !pair
}

// CHECK-LABEL: tandem.kernel @stored compute(<component, bf16>)
// CHECK-SAME:      tensors [#tandem.role<param "p">]
// CHECK-SAME:      scalars [#tandem.role<hyper "lr">, #tandem.role<step "t">] prologue {
// CHECK-NEXT:  ^bb0(%[[LR:.+]]: f64, %{{.+}}: i64):
// CHECK-NEXT:    %[[ROUNDED:.+]] = arith.truncf %[[LR]] : f64 to f32
// CHECK-NEXT:    tandem.yield %[[ROUNDED]] : f32
// CHECK-NEXT:  } body {
// CHECK-NEXT:  ^bb0(%[[P:.+]]: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>, %{{.+}}: f32):
tandem.kernel @stored compute(<component, bf16>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<hyper "lr">, #tandem.role<step "t">] prologue {
^bb0(%lr: f64, %t: i64):
  %0 = arith.truncf %lr : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !pair, %neg_lr: f32):
  // CHECK-NEXT: tandem.load %[[P]] : <tensor<?xf32>, #tandem.expansion<bf16 x 2>> -> f32
  %0 = tandem.load %p : !pair -> f32
  // CHECK-NEXT: %[[WHOLE:.+]] = tandem.load %[[P]] : <tensor<?xf32>, #tandem.expansion<bf16 x 2>> -> !mcf.expansion<bf16 x 2>
  %1 = tandem.load %p : !pair -> !mcf.expansion<bf16 x 2>
  // CHECK-NEXT: tandem.store %[[WHOLE]], %[[P]] : !mcf.expansion<bf16 x 2>, <tensor<?xf32>, #tandem.expansion<bf16 x 2>>
  tandem.store %1, %p : !mcf.expansion<bf16 x 2>, !pair
  // CHECK-NEXT: tandem.yield
  tandem.yield
}

!scale = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
!blocks = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>

// CHECK-LABEL: tandem.step @planes compute(<f32, f32>) tensors
tandem.step @planes compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  // CHECK:      tandem.launch main width(8) body {
  // CHECK-NEXT: ^bb0(%[[P:.+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16, stochastic>>, %[[SEED:.+]]: i32):
  tandem.launch main width(8) body {
  ^bb0(%p: !bf16, %seed: i32):
    // CHECK-NEXT: tandem.load_plane %[[P]][0] : <tensor<?xf32>, #tandem.float<bf16, stochastic>> -> vector<8xbf16>
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<8xbf16>
    // CHECK-NEXT: %[[CODE:.+]] = tandem.load_plane %[[P]][0] : <tensor<?xf32>, #tandem.float<bf16, stochastic>> -> i16
    %1 = tandem.load_plane %p[0] : !bf16 -> i16
    // CHECK-NEXT: tandem.random_bits %[[P]] seed(%[[SEED]], %[[SEED]]) step(%[[SEED]]) : <tensor<?xf32>, #tandem.float<bf16, stochastic>> -> i32
    %2 = tandem.random_bits %p seed(%seed, %seed) step(%seed) : !bf16 -> i32
    // CHECK-NEXT: tandem.random_bits dither %[[P]] seed(%[[SEED]], %[[SEED]]) step(%[[SEED]]) : <tensor<?xf32>, #tandem.float<bf16, stochastic>> -> i32
    %dithered = tandem.random_bits dither %p seed(%seed, %seed) step(%seed) : !bf16 -> i32
    // CHECK-NEXT: %[[BITS:.+]] = tandem.random_bits %[[P]] {{.+}} -> vector<8xi32>
    %3 = tandem.random_bits %p seed(%seed, %seed) step(%seed) : !bf16 -> vector<8xi32>
    // CHECK-NEXT: %[[IS_LARGE:.+]] = arith.cmpi sgt, %[[CODE]], %[[CODE]] : i16
    %6 = arith.cmpi sgt, %1, %1 : i16
    // CHECK-NEXT: tandem.set_flag %[[IS_LARGE]][31] : i1
    tandem.set_flag %6[31] : i1
    // CHECK-NEXT: tandem.reduce max %[[BITS]] group(8) : vector<8xi32>
    %7 = tandem.reduce max %3 group(8) : vector<8xi32>
    // CHECK-NEXT: tandem.reduce min %[[SEED]] group(256) : i32
    %8 = tandem.reduce min %seed group(256) : i32
    // CHECK-NEXT: tandem.store_plane %[[CODE]], %[[P]][0] : i16, <tensor<?xf32>, #tandem.float<bf16, stochastic>>
    tandem.store_plane %1, %p[0] : i16, !bf16
    tandem.yield
  }
}

// CHECK-LABEL: tandem.step @phases compute(<f32, f32>) reductions(2) tensors
tandem.step @phases compute(<f32, f32>) reductions(2)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  // CHECK: tandem.launch reduction body {
  tandem.launch reduction body {
  ^bb0(%p: !scale):
    // CHECK: %[[SIZE:.+]] = tandem.size : i64
    %0 = tandem.size : i64
    // CHECK-NEXT: %[[COUNT:.+]] = arith.uitofp %[[SIZE]] : i64 to f32
    %1 = arith.uitofp %0 : i64 to f32
    // CHECK-NEXT: tandem.partial sum %[[COUNT]][0] over model : f32
    tandem.partial sum %1[0] over model : f32
    // CHECK-NEXT: tandem.yield
    tandem.yield
  }
  // CHECK: tandem.launch main body {
  tandem.launch main body {
  ^bb0(%p: !scale):
    // CHECK: %[[TOTAL:.+]] = tandem.reduction_result[0] : f32
    %0 = tandem.reduction_result[0] : f32
    // CHECK-NEXT: %[[BITS:.+]] = arith.bitcast %[[TOTAL]] : f32 to i32
    %1 = arith.bitcast %0 : f32 to i32
    // CHECK-NEXT: tandem.partial max %[[BITS]][1] over tensor : i32
    tandem.partial max %1[1] over tensor : i32
    tandem.yield
  }
  // CHECK: tandem.launch epilogue per(tensor) body {
  tandem.launch epilogue per(tensor) body {
  ^bb0(%p: !scale):
    // CHECK: tandem.reduction_result[1] : i32
    %0 = tandem.reduction_result[1] : i32
    tandem.store_plane %0, %p[1] : i32, !scale
    tandem.yield
  }
}

// CHECK-LABEL: tandem.step @rows compute(<f32, f32>) reductions(1) tensors
tandem.step @rows compute(<f32, f32>) reductions(1)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction body {
  ^bb0(%p: !blocks):
    %0 = arith.constant 1.0 : f32
    // CHECK: tandem.partial sum %{{.+}}[0] over row : f32
    tandem.partial sum %0[0] over row : f32
    tandem.yield
  }
  // CHECK: tandem.launch main fused_with_previous body {
  tandem.launch main fused_with_previous body {
  ^bb0(%p: !blocks):
    // CHECK: tandem.load_reduction_result[0] over row : f32
    %0 = tandem.load_reduction_result[0] over row : f32
    // CHECK-NEXT: tandem.size per row : i64
    %1 = tandem.size per row : i64
    tandem.yield
  }
  // CHECK: tandem.launch epilogue per(row) width(8) body {
  tandem.launch epilogue per(row) width(8) body {
  ^bb0(%p: !blocks):
    // CHECK: tandem.load_reduction_result[0] over row : vector<8xf32>
    %0 = tandem.load_reduction_result[0] over row : vector<8xf32>
    tandem.yield
  }
}

// CHECK-LABEL: func.func @reductions(
// CHECK-SAME:      %[[X:.+]]: f32, %[[Y:.+]]: i32)
func.func @reductions(%x: f32, %y: i32) {
  // CHECK-NEXT: tandem.reduce sum %[[X]] over tensor : f32
  %0 = tandem.reduce sum %x over tensor : f32
  // CHECK-NEXT: tandem.reduce sum %[[X]] over tensor per row : f32
  %1 = tandem.reduce sum %x over tensor per row : f32
  // CHECK-NEXT: tandem.reduce min %[[Y]] over model : i32
  %2 = tandem.reduce min %y over model : i32
  return
}

!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>

// CHECK-LABEL: func.func @histories(
// CHECK-SAME:      %[[P:.+]]: !tandem.stored
func.func @histories(%p: !delayed) {
  // CHECK: %[[M:.+]] = tandem.load_history %[[P]][3] : <tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
  %0 = tandem.load_history %p[3] : !delayed
  // CHECK-NEXT: tandem.push_history %[[M]], %[[P]][3] : <tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
  tandem.push_history %0, %p[3] : !delayed
  // CHECK-NEXT: tandem.saturation %[[P]] : <tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
  tandem.saturation %p : !delayed
  return
}

// CHECK-LABEL: func.func @visible(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32>
func.func @visible(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  // CHECK: tandem.visible %[[P]] of %[[P]] : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  %0 = tandem.visible %p of %p : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @lookup(
// CHECK-SAME:      %[[J:.+]]: i8, %[[Q:.+]]: vector<4xi8>)
func.func @lookup(%j: i8, %q: vector<4xi8>) -> (f32, vector<4xf32>) {
  // CHECK-NEXT: tandem.lookup[%[[J]], %[[J]]] in dense<1.000000e+00> : tensor<256x256xf32> : i8, i8 -> f32
  %0 = tandem.lookup[%j, %j] in dense<1.0> : tensor<256x256xf32> : i8, i8 -> f32
  // CHECK-NEXT: tandem.lookup[%[[Q]]] in dense<2.000000e+00> : tensor<256xf32> : vector<4xi8> -> vector<4xf32>
  %1 = tandem.lookup[%q] in dense<2.0> : tensor<256xf32> : vector<4xi8> -> vector<4xf32>
  return %0, %1 : f32, vector<4xf32>
}
