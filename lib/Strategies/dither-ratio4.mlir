// Tandem's own: moments of four bits each, for graphs that store the ratio m / sqrt(v), such as
// adamw_ratio. A parameter takes 5.1875 bytes with its gradient.
tandem.strategy @"dither-ratio4" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.mulaw<unsigned, dither, bits = 4>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.linear<bits = 4, dither>, group = 32, scale = bf16>
}
