// coat with scales in bf16, as in the paper.
tandem.strategy @"coat-bf16-scales" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 28672.0>, group = 128, scale = bf16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = bf16>
}
