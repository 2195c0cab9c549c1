// collage-plus in f16, for GPUs without bf16: weights and second moments as f16
// expansions, with f16's range.
tandem.strategy @"f16-collage-plus" compute(<component, f16>) {
  tandem.assign param = #tandem.expansion<f16 x 2>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state moment(second) = #tandem.expansion<f16 x 2>
  tandem.assign state = #tandem.float<f16>
}
