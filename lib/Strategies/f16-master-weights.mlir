// master-weights in f16, the usual mixed precision of GPUs without bf16.
tandem.strategy @"f16-master-weights" compute(<f32, f32>) {
  tandem.assign param = #tandem.master<f16>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state = #tandem.float<f32>
}
