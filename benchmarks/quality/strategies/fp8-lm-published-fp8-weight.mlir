// FP8-LM as published (Peng et al. 2023, table 6, row 3): fp8-lm-published with an
// f8E4M3FN weight.
tandem.strategy @"fp8-lm-published-fp8-weight" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
}
