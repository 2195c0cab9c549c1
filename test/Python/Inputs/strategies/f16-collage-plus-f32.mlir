// The storage of f16-collage-plus, computed in f32.
tandem.strategy @"f16-collage-plus-f32" compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<f16 x 2>
  tandem.assign grad = #tandem.float<f16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.expansion<f16 x 2>
  tandem.assign state = #tandem.float<f16>
}
