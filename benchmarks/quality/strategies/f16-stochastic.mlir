// bf16-stochastic in f16.
tandem.strategy @"f16-stochastic" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f16, stochastic>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.float<f16>
}
