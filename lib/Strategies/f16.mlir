// Everything in f16, uncompensated.
tandem.strategy @"f16" compute(<component, f16>) {
  tandem.assign param = #tandem.float<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f16>
}
