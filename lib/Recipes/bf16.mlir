// Keeps the tensors that autocast keeps, in bf16. An input that already is bf16 is not kept
// twice. Values with an entry for each row or column stay f32.
tandem.strategy @bf16 compute(<f32, f32>) {
  tandem.assign saved per(row) = #tandem.float<f32>
  tandem.assign output per(row) = #tandem.float<f32>
  tandem.assign output per(column) = #tandem.float<f32>
  tandem.assign input per(row) = #tandem.float<f32>
  tandem.assign input per(column) = #tandem.float<f32>
  tandem.assign input = #tandem.float<bf16>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved = #tandem.float<bf16>
}
