// coat with Collage's weights of two bf16 components (Yu et al. 2024).
tandem.strategy @"coat-expansion" compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 28672.0>, group = 128, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.expanded<#scaled.float<f8E4M3FN, dither>, range = 229376.0>, group = 128, scale = f32>
}
