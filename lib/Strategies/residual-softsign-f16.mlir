// 7 bytes: a bf16 weight with 8 bits of what it leaves, gradient and first moment as
// companded integers, and a second moment in f16 beside a scale, which loses no decay.
tandem.strategy @"residual-softsign-f16" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.float<f16>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign, group = 32, scale = f32>
}
