// adam8bit with moments rounded to nearest, as in bitsandbytes.
tandem.strategy @"adam8bit-nearest-moments" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.dynamic<signed>, group = 256, scale = f32>
}
