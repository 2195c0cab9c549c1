// collage-light in f16, for GPUs without bf16: weights as f16 expansions.
tandem.strategy @"f16-collage-light" compute(<component, f16>) {
  tandem.assign param = #tandem.expansion<f16 x 2>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f16>
}
