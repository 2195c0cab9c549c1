// master-weights without a byte twice: the f32 weight is split in the visible bf16 and
// the 16 bits that remain of it; states are f32.
tandem.strategy @"remainder" compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}
