// A mixed expansion for the weight, COAT's moments with the better range for each.
tandem.strategy @"mixed-coat" compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<bf16, f8E5M2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 128, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = 128, scale = bf16>
}
