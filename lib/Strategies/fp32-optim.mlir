// bf16 weights, rounded to nearest, with f32 states: option D of Collage without master
// weights.
tandem.strategy @"fp32-optim" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}
