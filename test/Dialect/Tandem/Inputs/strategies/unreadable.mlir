tandem.strategy @unreadable compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<f8E4M3FN, group = 32, scale = f32>
}
