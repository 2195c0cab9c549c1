// A stochastic bf16 weight, a bf16 gradient, and the moments of residual-softsign.
tandem.strategy @"bf16-stochastic-softsign" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, stochastic>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E5M2, range = 939524096.0>, group = 32, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 64, scale = f32>
}
