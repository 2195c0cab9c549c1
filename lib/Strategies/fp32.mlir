// Everything in f32.
tandem.strategy @"fp32" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state = #tandem.float<f32>
}
