// Everything in bf16, uncompensated: option A of Collage (Yu et al. 2024), and what
// torch.optim does with bf16 parameters except that each operation is rounded.
tandem.strategy @"bf16" compute(<component, bf16>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
