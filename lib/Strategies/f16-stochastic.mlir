// f16 states rounded to nearest, weights rounded stochastically; computed in f32.
tandem.strategy @"f16-stochastic" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f16, stochastic>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.float<f16>
}
