// Tandem's own: dither-mulaw with an 8-bit residual of the bf16 weight, as in flash.
tandem.strategy @"residual-mulaw" compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.mulaw<unsigned, dither>, group = 32, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.mulaw<signed, dither>, group = 32, scale = f32>
}
