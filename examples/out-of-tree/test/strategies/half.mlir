// Parameters and gradients in f16, states in f32, computed in f32.
tandem.strategy @half compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f32>
}
