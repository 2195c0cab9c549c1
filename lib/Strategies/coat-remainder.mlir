// coat with two bytes fewer: the f32 weight is split into the visible bf16 weight and the
// 16 bits that remain.
tandem.strategy @"coat-remainder" compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 28672.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
