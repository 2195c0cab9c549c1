// Tandem's own, 4 bytes: dither-ratio4 with the weight and the gradient of dither-softsign-root, so that all is
// stored in codes. A parameter takes 4.25 bytes with its gradient.
tandem.strategy @"coded-ratio4" compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, rounding = dither>, group = 128, scale = f32>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.mulaw<unsigned, dither, bits = 4>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.linear<bits = 4, dither>, group = 32, scale = bf16>
}
