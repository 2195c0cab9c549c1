// COAT (Xi et al. 2025): moments as f8E4M3FN whose range each group of 128 stretches,
// the first down to the subnormal numbers, the second over the normal ones.
tandem.strategy @coat compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 128, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = 128, scale = bf16>
}
