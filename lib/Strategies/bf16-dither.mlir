// bf16 weights and states, computed in f32. Both are dithered, so that moments follow
// their averages with no more bytes than in bf16-stochastic.
tandem.strategy @"bf16-dither" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.float<bf16, dither>
}
