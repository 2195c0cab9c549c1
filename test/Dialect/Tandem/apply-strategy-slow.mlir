// RUN: tandem-opt %s -tandem-apply-strategy=strategy=dither-mulaw | FileCheck %s -check-prefix=CODES
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=bf16-stochastic | FileCheck %s -check-prefix=DITHER
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=collage-plus | FileCheck %s -check-prefix=EXPANSION
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=fp32 | FileCheck %s -check-prefix=F32
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=ruled | FileCheck %s -check-prefix=RULED
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=named | FileCheck %s -check-prefix=NAMED

// A slow moment is stored as other states, but so that changes below half a unit are kept, unless
// the strategy has a rule for slow moments or for its name.

// CODES:     #tandem.scaled<#scaled.mulaw<signed, dither>, group = 32, scale = f32>> {tandem.role = #tandem.role<state "m", moment = slow>}
// DITHER:    #tandem.float<bf16, dither>> {tandem.role = #tandem.role<state "m", moment = slow>}
// EXPANSION: #tandem.expansion<bf16 x 2>> {tandem.role = #tandem.role<state "m", moment = slow>}
// F32:       #tandem.float<f32>> {tandem.role = #tandem.role<state "m", moment = slow>}
// RULED:     #tandem.float<bf16>> {tandem.role = #tandem.role<state "m", moment = slow>}
// NAMED:     #tandem.float<f16>> {tandem.role = #tandem.role<state "m", moment = slow>}

tandem.strategy @ruled compute(<f32, f32>) {
  tandem.assign state moment(slow) = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}

tandem.strategy @named compute(<f32, f32>) {
  tandem.assign state named("m") = #tandem.float<f16>
  tandem.assign state = #tandem.float<f32>
}

func.func @slow(%m: tensor<?xf32> {tandem.role = #tandem.role<state "m", moment = slow>})
    -> tensor<?xf32> {
  return %m : tensor<?xf32>
}
