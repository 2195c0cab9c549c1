// Transformers' eager modules in bf16: their RMSNorm computes in f32, and autograd keeps that.
tandem.strategy @eager compute(<f32, f32>) {
  tandem.assign saved named("attention_norm") = #tandem.float<f32>
  tandem.assign saved named("mlp_norm") = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign saved = #tandem.float<bf16>
}
