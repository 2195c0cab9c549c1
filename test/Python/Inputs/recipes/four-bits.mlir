// MXFP4 for non-linear layers and 4-bit integers for linear ones: bytes that hold two codes.
tandem.strategy @"four-bits" compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved consumer(linear) = #tandem.scaled<#scaled.linear<bits = 4>, group = row, scale = f32>
  tandem.assign saved = #tandem.scaled<#scaled.minifloat<exponent = 2, mantissa = 1, specials = none>, group = 32, scale = f8E8M0FNU, recipe = mx_floor>
}
