// bf16-kahan in f16.
tandem.strategy @"f16-kahan" compute(<component, f16>) {
  tandem.assign param = #tandem.kahan<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f16>
}
