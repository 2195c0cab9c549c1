// Collage-plus (Yu et al. 2024), option C: weights and second moments as bf16
// expansions, computed in bf16 as in the paper.
tandem.strategy @"collage-plus" compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.expansion<bf16 x 2>
  tandem.assign state = #tandem.float<bf16>
}
