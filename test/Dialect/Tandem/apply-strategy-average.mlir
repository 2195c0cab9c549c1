// RUN: tandem-opt %s -tandem-apply-strategy=strategy=fp32 | FileCheck %s -check-prefix=SAME
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=dither-mulaw | FileCheck %s -check-prefix=DITHER
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=fp32-optim | FileCheck %s -check-prefix=DITHER
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=bf16 | FileCheck %s -check-prefix=EXPANSION
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=master-weights | FileCheck %s -check-prefix=MASTER
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=working | FileCheck %s -check-prefix=WORKING
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=ruled | FileCheck %s -check-prefix=RULED
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=named | FileCheck %s -check-prefix=NAMED

// An average of weights is not stored like other states. Without a rule of its own it is stored
// like the weight, but so that changes below half a unit are kept, and without a copy for others.

// SAME:      #tandem.float<f32>> {tandem.role = #tandem.role<state "ema", moment = average>}
// DITHER:    #tandem.float<bf16, dither>> {tandem.role = #tandem.role<state "ema", moment = average>}
// EXPANSION: #tandem.expansion<bf16 x 2>> {tandem.role = #tandem.role<state "ema", moment = average>}
// MASTER:    #tandem.float<f32>> {tandem.role = #tandem.role<state "ema", moment = average>}
// WORKING:   #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>> {tandem.role = #tandem.role<state "ema", moment = average>}
// RULED:     #tandem.residual<bf16, i8>> {tandem.role = #tandem.role<state "ema", moment = average>}
// NAMED:     #tandem.remainder> {tandem.role = #tandem.role<state "ema", moment = average>}

tandem.strategy @working compute(<f32, f32>) {
  tandem.assign param = #tandem.working<bf16, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>>
  tandem.assign state = #tandem.float<f8E5M2>
}

tandem.strategy @ruled compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign state = #tandem.float<f8E5M2>
  tandem.assign state moment(average) = #tandem.residual<bf16, i8>
}

tandem.strategy @named compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign state named("ema") = #tandem.remainder
}

func.func @average(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                   %e: tensor<?xf32> {tandem.role = #tandem.role<state "ema", moment = average>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  return %p, %e : tensor<?xf32>, tensor<?xf32>
}
