// Tandem's own: dither-ratio4 with an 8-bit residual of the bf16 weight, as in flash, in 6.1875 bytes a
// parameter with its gradient.
tandem.strategy @"residual-ratio4" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.mulaw<unsigned, dither, bits = 4>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.linear<bits = 4, dither>, group = 32, scale = bf16>
}
