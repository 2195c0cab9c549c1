// Tandem's own, 7 bytes: a bf16 weight with an 8-bit residual, gradient and first moment
// as companded integers, and a scaled E5M10 second moment. A second
// moment that is not zero is at least about 2^-16 of its group's largest, the square of
// the first moment's smallest code.
tandem.strategy @"residual-softsign-f16" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.scaled<#scaled.softsign, group = 64, scale = bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, specials = ieee, rounding = dither, exponents = [0, 15]>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
