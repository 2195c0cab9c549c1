// coat with moments rounded to nearest, as in the paper.
tandem.strategy @"coat-nearest" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 229376.0>, group = 128, scale = f32>
}
