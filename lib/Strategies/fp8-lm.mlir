// FP8-LM (Peng et al. 2023, table 6, row 2): an f16 weight, an f8E4M3FN gradient and
// first moment and an f16 second moment, each with a scale for the whole tensor. Unlike
// in the paper, the weight and the moments are dithered.
tandem.strategy @"fp8-lm" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN, dither>, group = tensor, scale = f32, recipe = pow2>
}
