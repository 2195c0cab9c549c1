// Everything in bf16, uncompensated: Collage's option A.
tandem.strategy @"bf16" compute(<component, bf16>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
