// RUN: tandem-opt %s -tandem-recognize-updates -split-input-file -verify-diagnostics

// These are rules of all graphs, which each pass over graphs checks.

// expected-error @+1 {{argument #1 has no tandem.role; every argument of a graph needs one}}
func.func @missing_role(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                        %g: tensor<?xf32>) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{two arguments are named "p"; role names must be unique}}
func.func @duplicate_name(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                          %g: tensor<?xf32> {tandem.role = #tandem.role<grad "p">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{a graph has at most one step argument, got 2}}
func.func @two_steps(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                     %t: i64 {tandem.role = #tandem.role<step "t">},
                     %u: i64 {tandem.role = #tandem.role<step "u">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{a graph has at most one seed argument, got 3}}
func.func @three_seeds(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                       %s: i64 {tandem.role = #tandem.role<seed "s">},
                       %t: i64 {tandem.role = #tandem.role<seed "t">},
                       %u: i64 {tandem.role = #tandem.role<seed "u">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{a graph needs a param or state to update}}
func.func @nothing_to_update(%g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">}) {
  return
}

// -----

// expected-error @+1 {{a graph has one block; express control flow with arith.select}}
func.func @control_flow(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  cf.br ^bb1
^bb1:
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{a graph returns the new value of each param, state and output in argument order: expected 2 results, got 1}}
func.func @result_count(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                        %m: tensor<?xf32> {tandem.role = #tandem.role<state "m">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}

// -----

// expected-error @+1 {{the new value of "m" must be 'tensor<4xf32>' like the argument, got 'tensor<8xf32>'}}
func.func @result_type(%p: tensor<8xf32> {tandem.role = #tandem.role<param "p">},
                       %m: tensor<4xf32> {tandem.role = #tandem.role<state "m">}) -> (tensor<8xf32>, tensor<8xf32>) {
  return %p, %p : tensor<8xf32>, tensor<8xf32>
}

// -----

// expected-error @+1 {{reads output "y", which is there to be written; what is read is an input, a param or a state}}
func.func @reads_output(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">},
                        %y: tensor<?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?xf32> {
  %0 = arith.addf %x, %y : tensor<?xf32>
  return %0 : tensor<?xf32>
}
