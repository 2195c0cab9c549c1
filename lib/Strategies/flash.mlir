// FlashOptim (Gonzalez Ortiz et al. 2026): a bf16 weight with 8 bits of what it leaves,
// moments as companded integers with an f16 scale for 32 of them.
tandem.strategy @flash compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root, group = 32, scale = f16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f16>
}
