// 8-bit Adam as in bitsandbytes (Dettmers et al. 2022): adam8bit with moments and bf16
// weights rounded to nearest.
tandem.strategy @"adam8bit-published" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.dynamic<signed>, group = 256, scale = f32>
}
