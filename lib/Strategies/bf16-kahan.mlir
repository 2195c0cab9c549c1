// bf16 with Kahan summation of the weights (Zamirai et al. 2020), computed in bf16.
tandem.strategy @"bf16-kahan" compute(<component, bf16>) {
  tandem.assign param = #tandem.kahan<bf16>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign state = #tandem.float<bf16>
}
