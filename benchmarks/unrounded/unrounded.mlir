// The planes of collage-plus as plain bf16 tensors, computed in f32: with the
// graph beside this file, collage-plus without its roundings.
tandem.strategy @"unrounded" compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
