// Tandem's own, 8 bytes: flash with a scaled E5M10 second moment, as in
// residual-softsign-f16, and gradients as PyTorch makes them.
tandem.strategy @"flash-f16" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.minifloat<exponent = 5, mantissa = 10, specials = ieee, rounding = dither, exponents = [0, 15]>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
