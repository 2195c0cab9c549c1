// Everything in f32: the same as torch.optim with float32 parameters.
tandem.strategy @"fp32" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state = #tandem.float<f32>
}
