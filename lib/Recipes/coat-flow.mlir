// COAT's FP8 precision flow (Xi et al. 2025, section 5.2). The inputs of linear layers
// have 8 bits and a scale for the tensor, f8E4M3FN forward and f8E5M2 backward, and the layers keep
// these. The residual stream stays in the model's type. The tensors that non-linear layers keep
// have a scale for each 16 elements of a token.
tandem.strategy @"coat-flow" compute(<f32, f32>) {
  tandem.assign output consumer(linear) flow(activation) per(element) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
  tandem.assign output consumer(linear) flow(gradient) per(element) = #tandem.scaled<#scaled.float<f8E5M2>, group = tensor, scale = f32>
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
  tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
}
