// master-weights without redundant bytes: the f32 weight is split into the visible bf16
// weight and the 16 bits that remain; states are f32.
tandem.strategy @"remainder" compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}
