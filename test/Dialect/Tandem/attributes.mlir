// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -emit-bytecode | tandem-opt | FileCheck %s

// CHECK-LABEL: func.func private @roles(
func.func private @roles(
    // CHECK-SAME: tensor<?xf32> {tandem.role = #tandem.role<param "w">},
    tensor<?xf32> {tandem.role = #tandem.role<param "w">},
    // CHECK-SAME: tensor<?xf32> {tandem.role = #tandem.role<grad "w.grad">},
    tensor<?xf32> {tandem.role = #tandem.role<grad "w.grad">},
    // CHECK-SAME: tensor<?xf32> {tandem.role = #tandem.role<state "plain">},
    tensor<?xf32> {tandem.role = #tandem.role<state "plain", moment = none, domain = any>},
    // CHECK-SAME: tensor<?xf32> {tandem.role = #tandem.role<state "m", moment = first>},
    tensor<?xf32> {tandem.role = #tandem.role<state "m", moment = first>},
    // CHECK-SAME: tensor<?xf32> {tandem.role = #tandem.role<state "v", moment = second, domain = nonneg>},
    tensor<?xf32> {tandem.role = #tandem.role<state "v", domain = nonneg, moment = second>},
    // CHECK-SAME: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.000000e-03>},
    f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    // CHECK-SAME: f32 {tandem.role = #tandem.role<hyper "beta", domain = unit>},
    f32 {tandem.role = #tandem.role<hyper "beta", domain = unit>},
    // CHECK-SAME: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon>},
    f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon>},
    // CHECK-SAME: i64 {tandem.role = #tandem.role<step "t">},
    i64 {tandem.role = #tandem.role<step "t">},
    // CHECK-SAME: i64 {tandem.role = #tandem.role<seed "s">})
    i64 {tandem.role = #tandem.role<seed "s">})

// CHECK-LABEL: func.func private @policies()
// CHECK-SAME:      a = #tandem.compute<component, bf16>
// CHECK-SAME:      b = #tandem.compute<component, f16>
// CHECK-SAME:      c = #tandem.compute<f32, f32>
func.func private @policies() attributes {
  a = #tandem.compute<component, bf16>,
  b = #tandem.compute<component, f16>,
  c = #tandem.compute<f32, f32>
}

// CHECK-LABEL: func.func private @storages(
func.func private @storages(
    // CHECK-SAME: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>,
    !tandem.stored<tensor<?xf32>, #tandem.float<bf16, nearest>>,
    // CHECK-SAME: !tandem.stored<tensor<?x8xf32>, #tandem.float<f16, stochastic>>,
    !tandem.stored<tensor<?x8xf32>, #tandem.float<f16, stochastic>>,
    // CHECK-SAME: !tandem.stored<tensor<f32>, #tandem.float<f8E4M3FN>>,
    !tandem.stored<tensor<f32>, #tandem.float<f8E4M3FN>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.expansion<bf16 x 3>>,
    !tandem.stored<tensor<4xf32>, #tandem.expansion<bf16, bf16, bf16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.expansion<f16, f8E5M2>>,
    !tandem.stored<tensor<4xf32>, #tandem.expansion<f16, f8E5M2>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.kahan<f16>>,
    !tandem.stored<tensor<4xf32>, #tandem.kahan<f16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.master<bf16>>,
    !tandem.stored<tensor<4xf32>, #tandem.master<bf16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.remainder>,
    !tandem.stored<tensor<4xf32>, #tandem.remainder>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.residual<f16, i16>>,
    !tandem.stored<tensor<4xf32>, #tandem.residual<f16, i16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.float<bf16, dither>>,
    !tandem.stored<tensor<4xf32>, #tandem.float<bf16, dither>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.float<f16>>,
    !tandem.stored<tensor<4xf32>, #tandem.float<f16, nearest>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.residual<bf16, i8, dither>>,
    !tandem.stored<tensor<4xf32>, #tandem.residual<bf16, i8, dither>>,
    // CHECK-SAME: #tandem.coded<#scaled.float<f8E5M2, dither>>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.float<f8E5M2, dither>>>,
    // CHECK-SAME: #tandem.coded<#scaled.pair<f8E4M3FN, stochastic>>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.pair<f8E4M3FN, stochastic>>>,
    // CHECK-SAME: #tandem.coded<#scaled.softsign<dither>>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.softsign<dither>>>,
    // CHECK-SAME: #tandem.coded<#scaled.root>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.root<nearest>>>,
    // CHECK-SAME: #tandem.coded<#scaled.dynamic<unsigned, dither>>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.dynamic<unsigned, dither>>>,
    // CHECK-SAME: #tandem.scaled<#scaled.mulaw<signed, dither>, group = 64, scale = f32>
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.mulaw<signed, dither>, group = 64, scale = f32>>,
    // CHECK-SAME: #tandem.scaled<#scaled.mulaw<unsigned>, group = 16, scale = f8E8M0FNU, recipe = pow2>
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.mulaw<unsigned, nearest>, group = 16, scale = f8E8M0FNU, recipe = pow2>>,
    // CHECK-SAME: #tandem.scaled<#scaled.mulaw<signed, dither, bits = 4>, group = 32, scale = bf16>
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.mulaw<signed, dither, bits = 4>, group = 32, scale = bf16>>,
    // CHECK-SAME: #tandem.scaled<#scaled.mulaw<unsigned, bits = 4>, group = 32, scale = f32>
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.mulaw<unsigned, bits = 4>, group = 32, scale = f32>>,
    // CHECK-SAME: #tandem.scaled<#scaled.mulaw<signed>, group = 32, scale = f32>
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.mulaw<signed, bits = 8>, group = 32, scale = f32>>,
    // CHECK-SAME: #tandem.coded<#scaled.linear<bits = 4, dither>>
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.linear<bits = 4, dither>>>,
    // CHECK-SAME: #tandem.coded<#scaled.linear<bits = 8>>
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.linear<bits = 8, nearest>>>,
    // CHECK-SAME: #scaled.expanded<f8E4M3FN, range = 2.000000e+02>, group = 16
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN>, range = 200.0>, group = 16, scale = f32>>,
    // CHECK-SAME: #scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 2.000000e+02>, group = 16
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 200.0>, group = 16, scale = f32>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.pair<f8E4M3FN>, group = 16, scale = f32>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.pair<f8E4M3FN>, group = 16, scale = f32, recipe = current>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.masked<bf16, #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero>>>,
    !tandem.stored<tensor<4xf32>, #tandem.masked<bf16, #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero>>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 22, specials = ieee>>>,
    !tandem.stored<tensor<4xf32>, #tandem.masked<f32, #scaled.minifloat<exponent = 8, mantissa = 22, specials = ieee>>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.minifloat<exponent = 4, mantissa = 3>>>,
    !tandem.stored<tensor<4xf32>, #tandem.coded<#scaled.minifloat<exponent = 4, mantissa = 3>>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f16, recipe = pow2, history = 16, margin = 2>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, margin = 2, group = tensor, history = 16, recipe = pow2, scale = f16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f32, history = 1>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f32, history = 1, margin = 0>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f8E8M0FNU, recipe = given>>,
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f8E8M0FNU, recipe = given>>,
    // CHECK-SAME: !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.softsign, group = row, scale = f32>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.softsign, group = row, scale = f32>>,
    // CHECK-SAME: !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32, history = 4, transposed = true>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E5M2>, transposed = true, group = tensor, history = 4, scale = f32>>,
    // CHECK-SAME: !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = bf16>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = bf16, transposed = false>>,
    // CHECK-SAME: !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128x128, scale = bf16>>,
    !tandem.stored<tensor<4x4xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128x128, scale = bf16>>,
    // CHECK-SAME: !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.root, group = 256, scale = f8E8M0FNU, recipe = mx_floor>>)
    !tandem.stored<tensor<4xf32>, #tandem.scaled<#scaled.root, group = 256, scale = f8E8M0FNU, recipe = mx_floor>>)
