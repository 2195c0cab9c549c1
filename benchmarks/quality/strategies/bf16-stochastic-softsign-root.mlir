// A stochastic bf16 weight, a bf16 gradient, and the moments of residual-softsign-root.
tandem.strategy @"bf16-stochastic-softsign-root" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, stochastic>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f32>
}
