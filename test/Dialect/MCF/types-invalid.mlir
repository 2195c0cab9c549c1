// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{an expansion has 2 or 3 components, got 4}}
func.func private @expansion_c1_count(!mcf.expansion<bf16 x 4>)

// -----

// expected-error @+1 {{an expansion has 2 or 3 components, got 1}}
func.func private @expansion_c1_single(!mcf.expansion<bf16>)

// -----

// expected-error @+1 {{an expansion has 2 or 3 components, got 4}}
func.func private @expansion_c1_list(!mcf.expansion<f16, f16, f16, f16>)

// -----

// expected-error @+1 {{a component is bf16, f16, f32, f8E4M3FN or f8E5M2, got 'f64'}}
func.func private @expansion_c2(!mcf.expansion<f64 x 2>)

// -----

// expected-error @+1 {{a component is bf16, f16, f32, f8E4M3FN or f8E5M2, got 'i8'}}
func.func private @expansion_c2_mixed(!mcf.expansion<bf16, i8>)

// -----

// expected-error @+1 {{a mixed expansion is a bf16, f16 or f32 followed by one f8E4M3FN or f8E5M2}}
func.func private @expansion_c3_wide(!mcf.expansion<bf16, f16>)

// -----

// expected-error @+1 {{a mixed expansion is a bf16, f16 or f32 followed by one f8E4M3FN or f8E5M2}}
func.func private @expansion_c3_narrow(!mcf.expansion<f8E4M3FN, f8E5M2>)

// -----

// expected-error @+1 {{a mixed expansion is a bf16, f16 or f32 followed by one f8E4M3FN or f8E5M2}}
func.func private @expansion_c3_three(!mcf.expansion<bf16, f8E5M2, f8E5M2>)
