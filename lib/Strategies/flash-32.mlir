// flash with a 16-bit residual of the bf16 weight (FlashOptim's 32-bit weights).
tandem.strategy @"flash-32" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
