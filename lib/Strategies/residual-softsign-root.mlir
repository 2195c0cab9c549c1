// Tandem's own, 6 bytes: residual-softsign-f16 with an 8-bit second moment, whose square
// root is an integer.
tandem.strategy @"residual-softsign-root" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
