// RUN: tandem-opt %s -tandem-lower-storage | FileCheck %s

#p = #tandem.role<param "p">
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f16>>
!mx = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64, scale = f8E8M0FNU, recipe = pow2>>
!stochastic = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, group = 32, scale = f32>>
!dither = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>>
!coded = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.root>>
!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f32, recipe = pow2, history = 8, margin = 1>>
!given = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f32, recipe = given>>
!residual = !tandem.stored<tensor<?xf32>, #tandem.residual<bf16, i16>>

// The old value's scale decodes; a scale of all of the group's new values encodes.
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

// Codes and E8M0 are integers in memory; quantize produces canonical NaNs.
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

// The scale is that of the previous step; the next one is computed from the history.
// CHECK-LABEL: tandem.kernel @delayed
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-NEXT:    %[[Q:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> i8
// CHECK-NEXT:    %[[OLD:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i32
// CHECK-NOT:     tandem.load_plane %[[P]][3]
// CHECK:         %[[X:.+]] = scaled.dequantize
// CHECK:         %[[BITS:.+]] = tandem.load_plane %[[P]][2] {{.+}} -> i32
// CHECK-NEXT:    %[[REST:.+]] = tandem.load_history %[[P]][3]
// CHECK-NEXT:    %[[KNOWN:.+]] = arith.bitcast %[[BITS]] : i32 to f32
// CHECK-NEXT:    %[[S:.+]] = scaled.given_scale #scaled.softsign, %[[KNOWN]] : f32
// CHECK-NEXT:    scaled.quantize #scaled.softsign, %[[X]] by %[[S]]
// CHECK:         %[[AMAX:.+]] = tandem.reduce max %{{.+}} over tensor : i32
// CHECK-NEXT:    %[[MOST:.+]] = arith.maxui %[[AMAX]], %[[REST]] : i32
// CHECK:         %[[NONE:.+]] = arith.cmpi eq, %[[MOST]], %{{.+}} : i32
// CHECK:         %[[MADE:.+]] = scaled.scale #scaled.softsign, %[[MOST]] by pow2 margin 1 : f32
// CHECK:         %[[NEXT:.+]] = arith.select %[[NONE]], %{{.+}}, %{{.+}} : i32
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i8
// CHECK-NEXT:    tandem.store_plane %{{.+}}, %[[P]][1] : i32
// CHECK-NEXT:    tandem.store_plane %[[NEXT]], %[[P]][2] : i32
// CHECK-NEXT:    tandem.push_history %[[AMAX]], %[[P]][3]
tandem.kernel @delayed compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !delayed):
  %0 = tandem.load %p : !delayed -> f32
  tandem.store %0, %p : f32, !delayed
  tandem.yield
}

// A given scale is checked when it is read, and it does not change. Stored
// codes of the largest magnitude are counted.
// CHECK-LABEL: tandem.kernel @given
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK:         scaled.given_scale
// CHECK:         scaled.dequantize
// CHECK-NOT:     tandem.reduce
// CHECK:         %[[SCALE:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i32
// CHECK:         scaled.given_scale
// CHECK:         %[[Q:.+]] = scaled.quantize
// CHECK:         %[[CODE:.+]] = arith.bitcast %[[Q]] : f8E4M3FN to i8
// CHECK:         tandem.store_plane %[[CODE]], %[[P]][0] : i8
// CHECK-NOT:     tandem.store_plane
// CHECK:         %[[Y:.+]] = scaled.decode_float f8E4M3FN, %[[CODE]] : i8 -> f32
// CHECK:         %[[L:.+]] = arith.constant 4.480000e+02 : f32
// CHECK:         %[[FULL:.+]] = arith.cmpf oge, %{{.+}}, %[[L]] : f32
// CHECK:         %[[ONE:.+]] = arith.select %[[FULL]], %{{.+}}, %{{.+}} : f64
// CHECK:         tandem.metric %[[ONE]][0] : f64
tandem.kernel @given compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !given):
  %0 = tandem.load %p : !given -> f32
  tandem.store %0, %p : f32, !given
  tandem.saturation %p : !given
  tandem.yield
}

// L * ((x - hi) / h), with h half an ulp of hi: an exact product with the inverse of half the
// power of two below hi, then one with L times a power of two. An hi that is not finite has
// the distance zero.
// CHECK-LABEL: tandem.kernel @residual
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK:         %[[HI:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> bf16
// CHECK:         %[[R:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i16
// CHECK:         arith.truncf %[[X:.+]] : f32 to bf16
// CHECK:         %[[REST:.+]] = arith.subf %[[X]], %{{.+}} : f32
// CHECK:         %[[FINITE:.+]] = arith.select %{{.+}}, %[[REST]], %{{.+}} : f32
// CHECK:         %[[DISTANCE:.+]] = arith.mulf %[[FINITE]], %{{.+}} : f32
// CHECK:         %[[LEVELS:.+]] = arith.constant 0x4A7FFE00 : f32
// CHECK:         arith.mulf %[[DISTANCE]], %[[LEVELS]] : f32
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

// The element's random bits are passed to the code. The seed and the step are the
// kernel's.
// CHECK-LABEL: tandem.kernel @stochastic
// CHECK-SAME:      scalars [#tandem.role<step "step">, #tandem.role<seed "seed">] prologue {
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[LOW:.+]]: i32, %[[HIGH:.+]]: i32, %[[STEP:.+]]: i32):
// CHECK:         %[[R:.+]] = tandem.random_bits %[[P]] seed(%[[LOW]], %[[HIGH]]) step(%[[STEP]]) : {{.+}} -> i32
// CHECK:         %[[NEW:.+]] = scaled.scale
// CHECK:         %[[Q:.+]] = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, %{{.+}} by %[[NEW]] random %[[R]] : f32, f32, i32 -> i8
// CHECK:         tandem.store_plane %[[Q]], %[[P]][0] : i8
tandem.kernel @stochastic compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !stochastic):
  %0 = tandem.load %p : !stochastic -> f32
  tandem.store %0, %p : f32, !stochastic
  tandem.yield
}

// A second moment has a floor, and dithered bits depend on its index among the tensors.
// CHECK-LABEL: tandem.kernel @moment
// CHECK:         %[[R:.+]] = tandem.random_bits dither %[[V:[^ ]+]] seed
// CHECK:         %[[Q:.+]] = scaled.quantize #scaled.root<dither>, %{{.+}} by %{{.+}} random %[[R]] floor : f32, f32, i32 -> i8
// CHECK:         tandem.store_plane %[[Q]], %[[V]][0] : i8
tandem.kernel @moment compute(<f32, f32>) tensors [#tandem.role<state "v", moment = second, domain = nonneg>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%v: !dither):
  %0 = tandem.load %v : !dither -> f32
  tandem.store %0, %v : f32, !dither
  tandem.yield
}

// Without a scale, values are encoded directly, without division and groups.
// The root of a negative number is NaN, which is not finite.
// CHECK-LABEL: tandem.kernel @coded
// CHECK-NOT:     scaled.
// CHECK-NOT:     tandem.reduce
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK:         %[[Q:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> i8
// CHECK:         %[[X:.+]] = arith.mulf %[[Z:.+]], %[[Z]] : f32
// CHECK:         %[[ROOT:.+]] = math.sqrt %[[X]] : f32
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[ROOT]] : f32 to i32
// CHECK:         %[[M:.+]] = arith.andi %[[BITS]], %{{.+}} : i32
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult, %[[M]], %{{.+}} : i32
// CHECK-NOT:     arith.mulf %[[ROOT]]
// CHECK:         %[[BYTE:.+]] = arith.trunci %{{.+}} : i32 to i8
// CHECK:         %[[CODE:.+]] = arith.select %[[FINITE]], %[[BYTE]], %{{.+}} : i8
// CHECK-NEXT:    tandem.store_plane %[[CODE]], %[[P]][0] : i8
// CHECK-NEXT:    tandem.yield
tandem.kernel @coded compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !coded):
  %0 = tandem.load %p : !coded -> f32
  tandem.store %0, %p : f32, !coded
  tandem.yield
}

!transposed = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 2, transposed = true>>

// The code is stored in both planes before the values for the next store.
// CHECK-LABEL: tandem.kernel @transposed
// CHECK:       ^bb0(%{{.+}}: !tandem{{.+}}, %[[Y:.+]]: !tandem
// CHECK:         %[[NEXT:.+]] = tandem.load_plane %[[Y]][3] {{.+}} -> i32
// CHECK:         tandem.load_history %[[Y]][4]
// CHECK:         %[[CODE:.+]] = scaled.quantize
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[CODE]] : f8E4M3FN to i8
// CHECK:         tandem.store_plane %[[BITS]], %[[Y]][0] : i8
// CHECK-NEXT:    tandem.store_plane %{{.+}}, %[[Y]][1] : i32
// CHECK-NEXT:    tandem.store_plane %[[BITS]], %[[Y]][2] : i8
// CHECK-NEXT:    tandem.store_plane %{{.+}}, %[[Y]][3] : i32
// CHECK-NEXT:    tandem.push_history %{{.+}}, %[[Y]][4]
tandem.kernel @transposed compute(<f32, f32>) tensors [#tandem.role<input "x">, #tandem.role<output "y">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%x: !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>, %y: !transposed):
  %0 = tandem.load %x : !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>> -> f32
  tandem.store %0, %y : f32, !transposed
  tandem.yield
}
