// stochastic-softsign-root with the second moment of residual-softsign-e5m2.
tandem.strategy @"stochastic-softsign-e5m2" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, rounding = stochastic>, group = 128, scale = f32>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E5M2, range = 939524096.0>, group = 32, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f32>
}
