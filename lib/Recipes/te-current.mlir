// Transformer Engine's current scaling: the kept inputs of linear layers as f8E4M3FN with a
// scale for the tensor, computed from its largest magnitude; the rest as bf16.
tandem.strategy @"te-current" compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
  tandem.assign saved = #tandem.float<bf16>
}
