// Everything in f16, uncompensated: second moments have f16's range, so that gradients
// need a scale.
tandem.strategy @"f16" compute(<component, f16>) {
  tandem.assign param = #tandem.float<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f16>
}
