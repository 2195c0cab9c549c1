// Collage-light (Yu et al. 2024) adapted to f8E4M3FN: the weight is the sum of two
// such floats, dithered, and 128 numbers share a power-of-two scale.
tandem.strategy @"fp8-collage-light" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.pair<f8E4M3FN, dither>, group = 128, scale = f32, recipe = pow2>
  tandem.assign grad = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32, recipe = pow2>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN, dither>, group = 128, scale = f32, recipe = pow2>
}
