// COAT's FP8 precision flow for matrix products of 8-bit floats on a GPU. It is coat-flow, but the
// inputs of linear layers, forward and backward, are also stored transposed, since such products
// sum along the rows of both factors.
tandem.strategy @"coat-fp8" compute(<f32, f32>) {
  tandem.assign output consumer(linear) flow(activation) per(element) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
  tandem.assign output consumer(linear) flow(gradient) per(element) = #tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32, transposed = true>
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
  tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
}
