// coat for models whose weights and gradients are f32.
tandem.strategy @"coat-fp32" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 28672.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
