// Tandem's own: integers from -7 to 7, dithered, with a bf16 scale for each 16 elements of a token.
// Activations are less spread than f4E2M1FN's numbers. Each takes 5 bits with its share of the scale.
tandem.strategy @linear4 compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.linear<bits = 4, dither>, group = 16, scale = bf16>
}
