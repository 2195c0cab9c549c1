// RUN: tandem-opt %s -tandem-apply-strategy=strategy=mine -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign state = #tandem.float<f32>
}

// expected-error @+1 {{strategy 'mine' has no rule for the param "p"; add a tandem.assign that matches it}}
func.func @no_rule(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#m = #tandem.role<state "m", moment = first>

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign state moment(second) = #tandem.float<f32>
  tandem.assign state named("n") = #tandem.float<f32>
}

// expected-error @+1 {{strategy 'mine' has no rule for the state "m"; add a tandem.assign that matches it}}
func.func @no_matching_rule(%m: tensor<?xf32> {tandem.role = #m}) -> tensor<?xf32> {
  return %m : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.kahan<bf16>
}

// expected-error @+1 {{strategy 'mine' stores "p" as #tandem.kahan<bf16>, which cannot be computed under the f32 policy of 'f32'}}
func.func @kahan_under_f32(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.master<bf16>
}

// expected-error @+1 {{stores "p" as #tandem.master<bf16>, which cannot be computed under the component policy of 'bf16'}}
func.func @master_under_component(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.remainder
}

// expected-error @+1 {{stores "p" as #tandem.remainder, which cannot be computed under the component policy of 'bf16'}}
func.func @remainder_under_component(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<component, f16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
}

// expected-error @+1 {{stores "p" as #tandem.expansion<bf16 x 2>, which cannot be computed under the component policy of 'f16'}}
func.func @expansion_of_another_format(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.expansion<f32 x 2>
}

// expected-error @+1 {{stores "p" as #tandem.expansion<f32 x 2>, which cannot be computed under the f32 policy of 'f32'}}
func.func @expansion_of_f32(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.float<bf16, stochastic>
}

// expected-error @+1 {{stores "p" as #tandem.float<bf16, stochastic>, which cannot be computed under the component policy of 'bf16'}}
func.func @stochastic_under_component(%p: tensor<?xf32> {tandem.role = #p}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">
!stored = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.float<bf16>
}

// expected-error @+1 {{argument "p" already has a storage}}
func.func @applied_twice(%p: !stored {tandem.role = #p}) -> !stored {
  return %p : !stored
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.float<bf16>
}

// expected-error @+1 {{expected 1 results, got 2}}
func.func @no_graph(%p: tensor<?xf32> {tandem.role = #p}) -> (tensor<?xf32>, tensor<?xf32>) {
  return %p, %p : tensor<?xf32>, tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.float<f32>
  tandem.assign state = #tandem.scaled<#scaled.root, group = 32x32, scale = f32>
}

// expected-error @+1 {{strategy 'mine' stores "r" as #tandem.scaled<#scaled.root, group = 32x32, scale = f32>, but it is a vector with an entry per row, which has no rows or blocks; use group = tensor or a number}}
func.func @blocks_of_a_vector(%p: tensor<?x?xf32> {tandem.role = #p}, %r: tensor<?xf32> {tandem.role = #r}) -> (tensor<?x?xf32>, tensor<?xf32>) {
  return %p, %r : tensor<?x?xf32>, tensor<?xf32>
}

// -----

#p = #tandem.role<param "p">

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign param = #tandem.scaled<#scaled.root, group = tensor, scale = f32, transposed = true>
}

// expected-error @+1 {{strategy 'mine' stores the param "p" as #tandem.scaled<#scaled.root, group = tensor, scale = f32, transposed = true>, but matrix products take transposed copies only of a layer's tensors; leave out transposed = true}}
func.func @transposed_param(%p: tensor<?x?xf32> {tandem.role = #p}) -> tensor<?x?xf32> {
  return %p : tensor<?x?xf32>
}

// -----

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign output = #tandem.float<f32>
  tandem.assign input = #tandem.scaled<#scaled.root, group = tensor, scale = f32, transposed = true>
}

// expected-error @+1 {{but it is a vector with an entry per row, which has no transpose; leave out transposed = true}}
func.func @transposed_vector(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
                             %r: tensor<?xf32> {tandem.role = #tandem.role<input "r", per = row>},
                             %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?x?xf32> {
  return %x : tensor<?x?xf32>
}

// -----

tandem.strategy @mine compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
}

// expected-error @+1 {{plane 'w.lo' is one of both "w" and "w.lo"; give one of them another name}}
func.func @planes_of_one_name(%w: tensor<?xf32> {tandem.role = #tandem.role<param "w">},
                              %g: tensor<?xf32> {tandem.role = #tandem.role<grad "w.lo">}) -> tensor<?xf32> {
  %new = arith.addf %w, %g : tensor<?xf32>
  return %new : tensor<?xf32>
}

// -----

// An average of weights is not stored as other states are, and there is no param like which it
// could be.

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign state = #tandem.float<f32>
}

// expected-error @+1 {{strategy 'mine' has no rule for the state "ema"; add a tandem.assign that matches it}}
func.func @average(%e: tensor<?xf32> {tandem.role = #tandem.role<state "ema", moment = average>}) -> tensor<?xf32> {
  return %e : tensor<?xf32>
}
