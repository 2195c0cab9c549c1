// The storage of collage-plus, computed in f32: a step rounds the first moment once,
// where collage-plus rounds it three times, so that weights stay closer to float64's.
tandem.strategy @"collage-plus-f32" compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.expansion<bf16 x 2>
  tandem.assign state = #tandem.float<bf16>
}
