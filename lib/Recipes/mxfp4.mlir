// Microscaling formats (OCP 2023) in four bits: f4E2M1FN, with an f8E8M0FNU scale for each 32 elements of
// a token that is large enough for all of them. Numbers are dithered, so that gradients of linear layers have no
// bias.
tandem.strategy @mxfp4 compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(opaque) = #tandem.float<bf16>
  tandem.assign saved = #tandem.scaled<#scaled.minifloat<exponent = 2, mantissa = 1, specials = none, rounding = dither>, group = 32, scale = f8E8M0FNU, recipe = pow2>
}
