// adam8bit with COAT's range expansion of the first moment (Xi et al. 2025, table 8, where
// the second moment does better without).
tandem.strategy @"adam8bit-expanded" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned, dither>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.dynamic<signed, dither>, range = 1.0e4>, group = 256, scale = f32>
}
