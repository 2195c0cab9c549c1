// FP8-LM's level O1 (Peng et al. 2023, as MS-AMP has it): as fp8-lm an f16 weight, which is
// dithered, and an f8E4M3FN gradient, each with a scale for the whole tensor; moments in f32.
tandem.strategy @"fp8-lm-o1" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.float<f16, dither>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.float<f32>
}
