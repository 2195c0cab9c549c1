// This strategy takes precedence over the built-in one of the same name.
tandem.strategy @bf16 compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign state = #tandem.float<f32>
  tandem.assign grad = #tandem.float<f8E5M2>
}
