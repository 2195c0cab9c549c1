// FlashOptim (Gonzalez Ortiz et al. 2026): a bf16 weight with an 8-bit residual, and
// moments as companded integers with a scale for each 32. Unlike in FlashOptim, moments
// and residuals are dithered and scales are f32, so that moments follow their averages.
tandem.strategy @flash compute(<f32, f32>) {
  tandem.assign param = #tandem.residual<bf16, i8, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state per(row) = #tandem.float<f32>
  tandem.assign state per(column) = #tandem.float<f32>
  tandem.assign state moment(second) = #tandem.scaled<#scaled.root<dither>, group = 32, scale = f32>
  tandem.assign state = #tandem.scaled<#scaled.softsign<dither>, group = 32, scale = f32>
}
