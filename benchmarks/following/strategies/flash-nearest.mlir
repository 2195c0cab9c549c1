// flash as it was before its states were dithered, and as FlashOptim has it.
tandem.strategy @"flash-nearest" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root, group = 32, scale = f16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f16>
}
