// 8-bit optimizers (Dettmers et al. 2022, as in bitsandbytes): moments are 8-bit
// codes, evenly spaced within each decade, with an f32 scale for each 256. Unlike in
// bitsandbytes, they and bf16 weights are dithered, so that moments follow their averages.
tandem.strategy @adam8bit compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.dynamic<unsigned, dither>, group = 256, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.dynamic<signed, dither>, group = 256, scale = f32>
}
