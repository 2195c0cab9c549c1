// fp8-lm with delayed scaling: weight and moments are written in one pass, with scales
// from the largest magnitudes of the last 16 steps that leave room for twice these.
tandem.strategy @"fp8-lm-delayed" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2, history = 16, margin = 1>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2, history = 16, margin = 1>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN, dither>, group = tensor, scale = f32, recipe = pow2, history = 16, margin = 1>
}
