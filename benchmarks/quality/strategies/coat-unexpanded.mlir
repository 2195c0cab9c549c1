// COAT without its expansion of the moments' range (Xi et al. 2025, table 1, E4M3 and
// E4M3): moments rounded to nearest, with scales in bf16.
tandem.strategy @"coat-unexpanded" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = bf16>
}
