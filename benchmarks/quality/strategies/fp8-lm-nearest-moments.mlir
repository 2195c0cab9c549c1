// fp8-lm with moments rounded to nearest, as in the paper.
tandem.strategy @"fp8-lm-nearest-moments" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
}
