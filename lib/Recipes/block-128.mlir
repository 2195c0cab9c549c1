// DeepSeek-V3 (2024, section 3.3): f8E4M3FN, with an f32 scale for each 128 elements of a token.
tandem.strategy @"block-128" compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>
}
