// Microscaling formats (OCP 2023): f8E4M3FN, with an f8E8M0FNU scale for each 32 elements of a token.
tandem.strategy @mxfp8 compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f8E8M0FNU, recipe = mx_floor>
}
