// Tandem's own, 5 bytes: residual-softsign-root with an E5M10 weight that is scaled
// and dithered.
tandem.strategy @"dither-softsign-root" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, rounding = dither>, group = 128, scale = f32>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
