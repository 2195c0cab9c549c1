// FP8-LM as published (Peng et al. 2023, table 6, row 2; MS-AMP's level O2): fp8-lm with
// the weight and the moments rounded to nearest.
tandem.strategy @"fp8-lm-published" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
}
