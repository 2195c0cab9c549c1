// f32 weights split in a visible bf16 and 16 remaining bits; f32 states.
tandem.strategy @"remainder" compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}
