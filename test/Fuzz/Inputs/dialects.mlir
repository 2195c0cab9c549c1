// Initial texts of tandem-fuzz: operations, types and attributes.

func.func @error_free_transforms(%a: bf16, %b: bf16) {
  %0 = mcf.fast_two_sum %a, %b granted : !mcf.expansion<bf16 x 2>
  %1 = mcf.fast_two_sum %a, %b : !mcf.expansion<bf16 x 2>
  %2 = mcf.two_sum %a, %b : !mcf.expansion<bf16 x 2>
  %3 = mcf.two_prod %a, %b : !mcf.expansion<bf16 x 2>
  %4 = mcf.two_prod_dekker %a, %b : !mcf.expansion<bf16 x 2>
  %5 = mcf.split %a : !mcf.expansion<bf16 x 2>
  return
}
func.func @expansion_component(%s: !mcf.expansion<f16 x 2>, %a: f16) {
  %0 = mcf.grow %s, %a : !mcf.expansion<f16 x 2>
  %1 = mcf.kahan %s, %a : !mcf.expansion<f16 x 2>
  %2 = mcf.scale %s, %a : !mcf.expansion<f16 x 2>
  return
}
func.func @expansion_expansion(%s: !mcf.expansion<f8E5M2 x 3>, %t: !mcf.expansion<f8E5M2 x 3>) {
  %0 = mcf.mul %s, %t : !mcf.expansion<f8E5M2 x 3>
  %add = mcf.add %s, %t : !mcf.expansion<f8E5M2 x 3>
  %sub = mcf.sub %s, %t : !mcf.expansion<f8E5M2 x 3>
  %div = mcf.div %s, %t : !mcf.expansion<f8E5M2 x 3>
  %sqrt = mcf.sqrt %s : !mcf.expansion<f8E5M2 x 3>
  %normal = mcf.renormalize %s : !mcf.expansion<f8E5M2 x 3>
  %1 = mcf.neg %s : !mcf.expansion<f8E5M2 x 3>
  return
}
func.func @mixed(%hi: bf16, %lo: f8E4M3FN) -> (bf16, f8E4M3FN) {
  %0 = mcf.pack %hi, %lo : !mcf.expansion<bf16, f8E4M3FN>
  %1:2 = mcf.components %0 : !mcf.expansion<bf16, f8E4M3FN>
  return %1#0, %1#1 : bf16, f8E4M3FN
}
func.func @conversions(%x: f32, %y: f64) {
  %0 = mcf.from_float %x : f32 -> !mcf.expansion<bf16 x 3>
  %1 = mcf.to_float %0 : !mcf.expansion<bf16 x 3> -> f32
  %2 = mcf.from_float %y : f64 -> !mcf.expansion<f32 x 2>
  %3 = mcf.to_float %2 : !mcf.expansion<f32 x 2> -> f32
  return
}
func.func @shaped(%v: vector<8x!mcf.expansion<bf16 x 2>>, %w: vector<8xbf16>,
                  %t: tensor<?x4x!mcf.expansion<f16 x 2>>, %x: tensor<?x4xf64>) {
  %0 = mcf.grow %v, %w : vector<8x!mcf.expansion<bf16 x 2>>
  %1 = mcf.two_sum %w, %w : vector<8x!mcf.expansion<bf16 x 2>>
  %2:2 = mcf.components %t : tensor<?x4x!mcf.expansion<f16 x 2>>
  %3 = mcf.from_float %x : tensor<?x4xf64> -> tensor<?x4x!mcf.expansion<f16 x 2>>
  return
}
func.func @comparisons(%s: !mcf.expansion<bf16 x 2>, %v: vector<8x!mcf.expansion<bf16 x 2>>) -> (i1, vector<8xi1>) {
  %eq = mcf.compare eq, %s, %s : !mcf.expansion<bf16 x 2>
  %lt = mcf.compare lt, %s, %s : !mcf.expansion<bf16 x 2>
  %le = mcf.compare le, %s, %s : !mcf.expansion<bf16 x 2>
  %gt = mcf.compare gt, %s, %s : !mcf.expansion<bf16 x 2>
  %ge = mcf.compare ge, %v, %v : vector<8x!mcf.expansion<bf16 x 2>>
  return %lt, %ge : i1, vector<8xi1>
}
func.func @constants() {
  %0 = mcf.constant -2.5 : !mcf.expansion<bf16 x 2>
  %1 = mcf.constant 0.1 : vector<4x!mcf.expansion<f16, f8E4M3FN>>
  return
}
func.func @convert(%s: !mcf.expansion<bf16, f8E5M2>) {
  %0 = mcf.convert %s : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<bf16 x 2>
  %1 = mcf.convert %0 : !mcf.expansion<bf16 x 2> -> !mcf.expansion<bf16, f8E5M2>
  return
}

// -----

func.func @scalars(%x: f32, %amax: i32) -> (f32, f32, i32) {
  %m = scaled.magnitude #scaled.float<f8E4M3FN>, %x : f32 -> i32
  %s = scaled.scale #scaled.float<f8E4M3FN>, %amax by current : bf16
  %q = scaled.quantize #scaled.float<f8E4M3FN>, %x by %s : f32, bf16 -> f8E4M3FN
  %y = scaled.dequantize #scaled.float<f8E4M3FN>, %q by %s : (f8E4M3FN), bf16 -> f32
  %p:2 = scaled.quantize #scaled.pair<f8E5M2>, %x by %s : f32, bf16 -> f8E5M2, f8E5M2
  %z = scaled.dequantize #scaled.pair<f8E5M2>, %p#0, %p#1 by %s : (f8E5M2, f8E5M2), bf16 -> f32
  return %y, %z, %m : f32, f32, i32
}
func.func @expanded(%x: vector<8xf32>, %s: bf16, %least: i32) -> (vector<8xf32>, vector<8xi32>) {
  %l = scaled.least %x : vector<8xf32> -> vector<8xi32>
  %j = scaled.exponent #scaled.expanded<f8E4M3FN, range = 229376.0>, %s, %least : bf16
  %q = scaled.quantize #scaled.expanded<f8E4M3FN, range = 229376.0>, %x by %s, %j : vector<8xf32>, bf16 -> vector<8xf8E4M3FN>
  %y = scaled.dequantize #scaled.expanded<f8E4M3FN, range = 229376.0>, %q by %s, %j : (vector<8xf8E4M3FN>), bf16 -> vector<8xf32>
  return %y, %l : vector<8xf32>, vector<8xi32>
}
func.func @vectors(%x: vector<8xf32>, %s: f16) -> (vector<8xf32>, vector<8xi32>) {
  %m = scaled.magnitude #scaled.root, %x : vector<8xf32> -> vector<8xi32>
  %q = scaled.quantize #scaled.root, %x by %s : vector<8xf32>, f16 -> vector<8xi8>
  %y = scaled.dequantize #scaled.softsign, %q by %s : (vector<8xi8>), f16 -> vector<8xf32>
  return %y, %m : vector<8xf32>, vector<8xi32>
}
func.func @scales(%amax: i32) -> (f8E8M0FNU, f8E8M0FNU, f32, f16) {
  %0 = scaled.scale #scaled.float<f16>, %amax by pow2 : f8E8M0FNU
  %1 = scaled.scale #scaled.pair<f8E4M3FN>, %amax by mx_floor : f8E8M0FNU
  %2 = scaled.scale #scaled.softsign, %amax by pow2 : f32
  %3 = scaled.scale #scaled.root, %amax by current : f16
  %4 = scaled.scale #scaled.root, %amax by pow2 margin 3 : f16
  %5 = scaled.given_scale #scaled.root, %4 : f16
  return %0, %1, %2, %3 : f8E8M0FNU, f8E8M0FNU, f32, f16
}
func.func private @codes() attributes {
  a = #scaled.dynamic<signed>,
  b = #scaled.expanded<#scaled.dynamic<unsigned>, range = 1.0e4>,
  c = #scaled.expanded<#scaled.float<f8E5M2>, range = 2.0>,
  d = #scaled.minifloat<bias = 7, exponent = 4, mantissa = 2, rounding = nearest, specials = nan>,
  e = #scaled.minifloat<exponent = 2, mantissa = 1, bias = -3, specials = none>,
  f = #scaled.minifloat<exponent = 3, mantissa = 0, specials = negative_zero, rounding = stochastic>,
  g = #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>}
func.func @random(%x: vector<4xf32>, %s: f16, %r: vector<4xi32>) -> vector<4xi16> {
  %q = scaled.quantize #scaled.minifloat<exponent = 5, mantissa = 10, specials = ieee, rounding = stochastic>, %x by %s random %r : vector<4xf32>, f16, vector<4xi32> -> vector<4xi16>
  return %q : vector<4xi16>
}
func.func @float_codes(%x: f32, %xs: vector<4xf32>, %finite: vector<4xi1>) -> (f32, vector<4xf32>) {
  %q = scaled.encode_float f16, %x : f32 -> i16
  %e = scaled.encode_float f8E5M2, exact %x : f32 -> i8
  %y = scaled.decode_float f16, %q : i16 -> f32
  %qs = scaled.encode_float f8E4M3FN, %xs where %finite : vector<4xf32>, vector<4xi1> -> vector<4xi8>
  %ys = scaled.decode_float f8E4M3FN, %qs : vector<4xi8> -> vector<4xf32>
  return %y, %ys : f32, vector<4xf32>
}

// -----

!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16, stochastic>>
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param named("head.weight") = #tandem.float<f32>
  tandem.assign state moment(second) named("v") = #tandem.expansion<bf16 x 2>
  tandem.assign state moment(first) = #tandem.kahan<bf16>
  tandem.assign grad = #tandem.float<bf16>
}
func.func @vocabulary(%s: tensor<?xf32>, %b: tensor<?xf32>, %x: tensor<?xf32>) {
  %0 = tandem.accumulate %s, %x : tensor<?xf32>
  %1 = tandem.decay %s by %b : tensor<?xf32>
  %2 = tandem.ema %s by %b plus %x : tensor<?xf32>
  return
}
func.func @boundary(%p: !pair) -> !pair {
  %0 = tandem.decode %p : !pair -> tensor<?xf32>
  %1 = tandem.encode %0 : tensor<?xf32> -> !pair
  return %1 : !pair
}
tandem.kernel @stored compute(<component, bf16>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<hyper "lr">, #tandem.role<step "t">] prologue {
^bb0(%lr: f64, %t: i64):
  %0 = arith.truncf %lr : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !pair, %neg_lr: f32):
  %0 = tandem.load %p : !pair -> f32
  %1 = tandem.load %p : !pair -> !mcf.expansion<bf16 x 2>
  tandem.store %1, %p : !mcf.expansion<bf16 x 2>, !pair
  tandem.yield
}
!scale = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
!blocks = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>

tandem.step @planes compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !bf16, %seed: i32):
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<8xbf16>
    %1 = tandem.load_plane %p[0] : !bf16 -> i16
    %2 = tandem.random_bits %p seed(%seed, %seed) step(%seed) : !bf16 -> i32
    %dithered = tandem.random_bits dither %p seed(%seed, %seed) step(%seed) : !bf16 -> i32
    %3 = tandem.random_bits %p seed(%seed, %seed) step(%seed) : !bf16 -> vector<8xi32>
    %6 = arith.cmpi sgt, %1, %1 : i16
    tandem.set_flag %6[31] : i1
    %7 = tandem.reduce max %3 group(8) : vector<8xi32>
    %8 = tandem.reduce min %seed group(256) : i32
    tandem.store_plane %1, %p[0] : i16, !bf16
    tandem.yield
  }
}

tandem.step @phases compute(<f32, f32>) reductions(2)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction body {
  ^bb0(%p: !scale):
    %0 = tandem.size : i64
    %1 = arith.uitofp %0 : i64 to f32
    tandem.partial sum %1[0] over model : f32
    tandem.yield
  }
  tandem.launch main body {
  ^bb0(%p: !scale):
    %0 = tandem.reduction_result[0] : f32
    %1 = arith.bitcast %0 : f32 to i32
    tandem.partial max %1[1] over tensor : i32
    tandem.yield
  }
  tandem.launch epilogue per(tensor) body {
  ^bb0(%p: !scale):
    %0 = tandem.reduction_result[1] : i32
    tandem.store_plane %0, %p[1] : i32, !scale
    tandem.yield
  }
}

tandem.step @rows compute(<f32, f32>) reductions(1)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction body {
  ^bb0(%p: !blocks):
    %0 = arith.constant 1.0 : f32
    tandem.partial sum %0[0] over row : f32
    tandem.yield
  }
  tandem.launch main fused_with_previous body {
  ^bb0(%p: !blocks):
    %0 = tandem.load_reduction_result[0] over row : f32
    %1 = tandem.size per row : i64
    tandem.yield
  }
  tandem.launch epilogue per(row) width(8) body {
  ^bb0(%p: !blocks):
    %0 = tandem.load_reduction_result[0] over row : vector<8xf32>
    tandem.yield
  }
}

func.func @reductions(%x: f32, %y: i32) {
  %0 = tandem.reduce sum %x over tensor : f32
  %1 = tandem.reduce sum %x over tensor per row : f32
  %2 = tandem.reduce min %y over model : i32
  return
}
!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
func.func @histories(%p: !delayed) {
  %0 = tandem.load_history %p[3] : !delayed
  tandem.push_history %0, %p[3] : !delayed
  tandem.saturation %p : !delayed
  return
}
func.func @lookup(%j: i8, %q: vector<4xi8>) -> (f32, vector<4xf32>) {
  %0 = tandem.lookup[%j, %j] in dense<1.0> : tensor<256x256xf32> : i8, i8 -> f32
  %1 = tandem.lookup[%q] in dense<2.0> : tensor<256xf32> : vector<4xi8> -> vector<4xf32>
  return %0, %1 : f32, vector<4xf32>
}

// -----

func.func private @roles(
    tensor<?xf32> {tandem.role = #tandem.role<param "w">},
    tensor<?xf32> {tandem.role = #tandem.role<grad "w.grad">},
    tensor<?xf32> {tandem.role = #tandem.role<state "plain", moment = none, domain = any>},
    tensor<?xf32> {tandem.role = #tandem.role<state "m", moment = first>},
    tensor<?xf32> {tandem.role = #tandem.role<state "v", domain = nonneg, moment = second>},
    f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    f32 {tandem.role = #tandem.role<hyper "beta", domain = unit>},
    f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon>},
    i64 {tandem.role = #tandem.role<step "t">},
    i64 {tandem.role = #tandem.role<seed "s">})
func.func private @policies() attributes {
  a = #tandem.compute<component, bf16>,
  b = #tandem.compute<component, f16>,
  c = #tandem.compute<f32, f32>
}
func.func private @storages(
    !tandem.stored<tensor<?xf32>, #tandem.float<bf16, nearest>>,
    !tandem.stored<tensor<?x8xf32>, #tandem.float<f16, stochastic>>,
    !tandem.stored<tensor<f32>, #tandem.float<f8E4M3FN>>,
    !tandem.stored<tensor<4xf32>, #tandem.expansion<bf16, bf16, bf16>>,
    !tandem.stored<tensor<4xf32>, #tandem.expansion<f16, f8E5M2>>,
    !tandem.stored<tensor<4xf32>, #tandem.kahan<f16>>,
    !tandem.stored<tensor<4xf32>, #tandem.master<bf16>>,
    !tandem.stored<tensor<4xf32>, #tandem.remainder>,
    !tandem.stored<tensor<4xf32>, #tandem.residual<f16, i16>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.pair<f8E4M3FN>, group = 16, scale = f32, recipe = current>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.minifloat<exponent = 4, mantissa = 3>>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, margin = 2, group = tensor, history = 16, recipe = pow2, scale = f16>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f32, history = 1, margin = 0>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f8E8M0FNU, recipe = given>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.softsign, group = row, scale = f32>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128x128, scale = bf16>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.root, group = 256, scale = f8E8M0FNU, recipe = mx_floor>>)
