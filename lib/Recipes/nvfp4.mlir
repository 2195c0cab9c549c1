// NVIDIA's four bits (NVFP4): f4E2M1FN, with an f8E4M3FN scale for each 16 elements of a token, in multiples of an
// f32 for the tensor. Scales are large enough for all elements, and numbers are dithered, so that gradients of linear
// layers have no bias.
tandem.strategy @nvfp4 compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.minifloat<exponent = 2, mantissa = 1, specials = none, rounding = dither>, group = 16, scale = f8E4M3FN, tensor_scale = true>
}
