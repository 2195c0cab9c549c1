// COAT (Xi et al. 2025, section 5): f8E4M3FN, with a scale for each 16 elements of a token in
// non-linear layers, and with one for the tensor in linear layers.
tandem.strategy @coat compute(<f32, f32>) {
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
