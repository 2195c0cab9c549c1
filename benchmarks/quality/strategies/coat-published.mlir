// COAT as published (Xi et al. 2025): coat with moments rounded to nearest, scales in
// bf16, and both moments stretched down to the subnormal numbers.
tandem.strategy @"coat-published" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = 128, scale = bf16>
}
