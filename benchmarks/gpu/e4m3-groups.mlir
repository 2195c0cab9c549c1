// Moments in E4M3 with an f32 scale for 128 of them: what an 8-bit optimizer written in
// Triton does with the formats of the hardware.
tandem.strategy @"e4m3-groups" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>
}
