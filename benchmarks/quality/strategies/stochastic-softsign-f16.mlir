// The weight of stochastic-softsign-root, the second moment of residual-softsign-f16.
tandem.strategy @"stochastic-softsign-f16" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, rounding = stochastic>, group = 128, scale = f32>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f32>
}
