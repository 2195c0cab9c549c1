// fp32-optim in f16: f16 weights with f32 states.
tandem.strategy @"f16-fp32-optim" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f32>
}
