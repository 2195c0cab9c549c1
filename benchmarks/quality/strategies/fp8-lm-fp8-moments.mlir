// FP8-LM (Peng et al. 2023, table 6, row 4): an f16 weight, an f8E4M3FN gradient,
// f8E4M3FN moments, each with a scale for the whole tensor.
tandem.strategy @"fp8-lm-fp8-moments" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f8E4M3FN, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN, dither>, group = tensor, scale = f32, recipe = pow2>
}
