tandem.strategy @another compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
}
