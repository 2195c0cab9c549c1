// residual-softsign-root with a second moment of f8E5M2, expanded over its normal numbers
// so that nothing becomes zero.
tandem.strategy @"residual-softsign-e5m2" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E5M2, range = 939524096.0>, group = 32, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f32>
}
