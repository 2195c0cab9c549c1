// f32 weights, from which a step also writes MXFP8 codes.
tandem.strategy @"mxfp8-operand" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f32>
  tandem.assign output consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f8E8M0FNU, recipe = mx_floor>
}
