// flash with groups of 128.
tandem.strategy @"flash-wide-groups" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root, group = 128, scale = f16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 128, scale = f16>
}
