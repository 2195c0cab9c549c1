// Collage-light (Yu et al. 2024), option B: weights as bf16 expansions, computed in
// bf16.
tandem.strategy @"collage-light" compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
