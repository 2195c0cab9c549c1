// RUN: tandem-opt %s -tandem-lower-storage | FileCheck %s

#p = #tandem.role<param "p">
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f16>>
!mx = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64, scale = f8E8M0FNU, recipe = pow2>>
!residual = !tandem.stored<tensor<?xf32>, #tandem.residual<bf16, i16>>

// A scale of the old value decodes; one of all new values of the group encodes.
// CHECK-LABEL: tandem.kernel @codes
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-NEXT:    %[[Q:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> i8
// CHECK-NEXT:    %[[R:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i16
// CHECK-NEXT:    %[[S:.+]] = arith.bitcast %[[R]] : i16 to f16
// CHECK-NEXT:    %[[X:.+]] = scaled.dequantize #scaled.softsign, %[[Q]] by %[[S]] : (i8), f16 -> f32
// CHECK-NEXT:    %[[M:.+]] = scaled.magnitude #scaled.softsign, %[[X]] : f32 -> i32
// CHECK-NEXT:    %[[AMAX:.+]] = tandem.reduce max %[[M]] group(32) : i32
// CHECK-NEXT:    %[[NEW:.+]] = scaled.scale #scaled.softsign, %[[AMAX]] by current : f16
// CHECK-NEXT:    %[[CODE:.+]] = scaled.quantize #scaled.softsign, %[[X]] by %[[NEW]] : f32, f16 -> i8
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[NEW]] : f16 to i16
// CHECK-NEXT:    tandem.store_plane %[[CODE]], %[[P]][0] : i8
// CHECK-NEXT:    tandem.store_plane %[[BITS]], %[[P]][1] : i16
// CHECK-NEXT:    tandem.yield
tandem.kernel @codes compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !codes):
  %0 = tandem.load %p : !codes -> f32
  tandem.store %0, %p : f32, !codes
  tandem.yield
}

// Codes and E8M0 are integers in memory; quantize makes canonical NaNs.
// CHECK-LABEL: tandem.kernel @mx
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK:         %[[RAW:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> i8
// CHECK:         %[[BITS:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i8
// CHECK:         %[[Q:.+]] = arith.bitcast %[[RAW]] : i8 to f8E4M3FN
// CHECK:         %[[S:.+]] = arith.bitcast %[[BITS]] : i8 to f8E8M0FNU
// CHECK:         scaled.dequantize #scaled.float<f8E4M3FN>, %[[Q]] by %[[S]] : (f8E4M3FN), f8E8M0FNU -> f32
// CHECK:         tandem.reduce max %{{.+}} group(64) : i32
// CHECK:         %[[NEW:.+]] = scaled.scale #scaled.float<f8E4M3FN>, %{{.+}} by pow2 : f8E8M0FNU
// CHECK:         %[[NARROW:.+]] = scaled.quantize
// CHECK-NEXT:    %[[CODE:.+]] = arith.bitcast %[[NARROW]] : f8E4M3FN to i8
// CHECK-NEXT:    %[[STORED:.+]] = arith.bitcast %[[NEW]] : f8E8M0FNU to i8
// CHECK:         tandem.store_plane %[[CODE]], %[[P]][0] : i8
// CHECK-NEXT:    tandem.store_plane %[[STORED]], %[[P]][1] : i8
tandem.kernel @mx compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !mx):
  %0 = tandem.load %p : !mx -> f32
  tandem.store %0, %p : f32, !mx
  tandem.yield
}

// L * ((x - hi) / h), with h half an ulp of hi.
// CHECK-LABEL: tandem.kernel @residual
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK:         %[[HI:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> bf16
// CHECK:         %[[R:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i16
// CHECK:         arith.constant 3.276700e+04 : f32
// CHECK:         %[[X:.+]] = arith.addf
// CHECK:         %[[NEW:.+]] = arith.truncf %[[X]] : f32 to bf16
// CHECK:         %[[REST:.+]] = arith.subf %[[X]], %{{.+}} : f32
// CHECK:         %[[FRACTION:.+]] = arith.divf %[[REST]], %{{.+}} : f32
// CHECK:         arith.mulf %[[FRACTION]], %{{.+}} : f32
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i16
// CHECK-NEXT:    tandem.store_plane %{{.+}}, %[[P]][1] : i16
tandem.kernel @residual compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !residual):
  %0 = tandem.load %p : !residual -> f32
  tandem.store %0, %p : f32, !residual
  tandem.yield
}
