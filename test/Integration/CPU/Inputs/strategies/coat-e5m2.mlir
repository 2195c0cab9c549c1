// coat with a second moment of f8E5M2 (Xi et al. 2025, table 1), over its normal numbers.
tandem.strategy @"coat-e5m2" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E5M2, dither>, range = 939524096.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
