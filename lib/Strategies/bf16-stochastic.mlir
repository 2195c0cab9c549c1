// bf16 weights, rounded stochastically (Zamirai et al. 2020), and bf16 states, rounded
// to nearest; computed in f32.
tandem.strategy @"bf16-stochastic" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, stochastic>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.float<bf16>
}
