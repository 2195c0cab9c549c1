// The storage of collage-light, computed in f32: a step rounds each plane once.
tandem.strategy @"collage-light-f32" compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state = #tandem.float<bf16>
}
