// bf16 weights with f32 master weights and states: option D of Collage, the usual mixed
// precision.
tandem.strategy @"master-weights" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<f32>
}
