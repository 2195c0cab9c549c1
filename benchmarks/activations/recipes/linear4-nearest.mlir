// linear4 with codes rounded to nearest.
tandem.strategy @"linear4-nearest" compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.linear<bits = 4>, group = 16, scale = bf16>
}
