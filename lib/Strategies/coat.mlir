// COAT (Xi et al. 2025): moments as f8E4M3FN, stretched to its range in groups of 128, the
// first moment down to the subnormal numbers, the second over the normal ones, and a bf16
// weight with an f32 master. Unlike in the paper, moments are dithered and have f32
// scales, so that they follow their averages.
tandem.strategy @coat compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 28672.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
