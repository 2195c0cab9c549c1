// Tandem's own, for speed on GPUs: adam8bit with mu-law codes in groups of 32, so that
// a step takes less than half the instructions.
tandem.strategy @"dither-mulaw" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.mulaw<unsigned, dither>, group = 32, scale = f32, recipe = pow2>
  tandem.assign state = #tandem.scaled<#scaled.mulaw<signed, dither>, group = 32, scale = f32>
}
