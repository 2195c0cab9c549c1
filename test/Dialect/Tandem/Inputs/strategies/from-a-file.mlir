tandem.strategy @"from-a-file" compute(<component, f16>) {
  tandem.assign param = #tandem.kahan<f16>
  tandem.assign state moment(second) = #tandem.expansion<f16 x 2>
  tandem.assign state = #tandem.float<f16>
  tandem.assign grad = #tandem.float<f16>
}
