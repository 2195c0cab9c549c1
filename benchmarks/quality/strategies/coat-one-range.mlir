// coat with the second moment stretched down to the subnormal numbers, as in the paper.
tandem.strategy @"coat-one-range" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
