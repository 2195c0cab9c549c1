// nvfp4 as Transformer Engine makes it: codes and scales are rounded to nearest.
tandem.strategy @"nvfp4-nearest" compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.minifloat<exponent = 2, mantissa = 1, specials = none>, group = 16, scale = f8E4M3FN, tensor_scale = true>
}
