// f16 weights with f32 master weights and states.
tandem.strategy @"f16-master-weights" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f32>
}
