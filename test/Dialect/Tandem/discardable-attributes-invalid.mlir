// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// These are tandem attributes on operations and results of other dialects.

// expected-error @+1 {{'func.func' op has 'tandem.frward', which is not an operation's attribute of tandem; those are tandem.forward, tandem.kept, tandem.compute, tandem.scope}}
func.func private @unknown() attributes {tandem.frward = @f}

// -----

// expected-error @+1 {{tandem.compute, tandem.scope, and tandem.role is an argument's}}
func.func private @role() attributes {tandem.role = #tandem.role<param "w">}

// -----

// expected-error @+1 {{result 1 has 'tandem.role', but results have no attributes of tandem; leave it out}}
func.func private @result() -> (f32, tensor<?xf32> {tandem.role = #tandem.role<param "w">})

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.forward' must be the forward pass's symbol, as in @name, got "f"}}
func.func private @forward_value() attributes {tandem.forward = "f"}

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.forward' must be the forward pass's symbol, as in @name, got @m::@f}}
func.func private @forward_nested() attributes {tandem.forward = @m::@f}

// -----

// expected-error @+1 {{'builtin.module' op has 'tandem.forward', which belongs on a function; leave it out}}
module attributes {tandem.forward = @f} {}

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.kept' must be a dictionary of #tandem.role<saved ...>, got ["x"]}}
func.func private @kept_value() attributes {tandem.kept = ["x"]}

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.kept' must be a dictionary of #tandem.role<saved ...>, got {x = "x.saved"}}}
func.func private @kept_entry() attributes {tandem.kept = {x = "x.saved"}}

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.kept' must be a dictionary of #tandem.role<saved ...>, got {x = #tandem.role<input "x">}}}
func.func private @kept_role() attributes {tandem.kept = {x = #tandem.role<input "x">}}

// -----

func.func @kept_owner(%x: f32) -> f32 {
  // expected-error @+1 {{'arith.negf' op has 'tandem.kept', which belongs on a function; leave it out}}
  %0 = arith.negf %x {tandem.kept = {}} : f32
  return %0 : f32
}

// -----

// expected-error @+1 {{'func.func' op attribute 'tandem.compute' must be a #tandem.compute, got f32}}
func.func private @compute_value() attributes {tandem.compute = f32}

// -----

func.func @compute_owner(%x: f32) -> f32 {
  // expected-error @+1 {{'arith.negf' op has 'tandem.compute', which belongs on a function; leave it out}}
  %0 = arith.negf %x {tandem.compute = #tandem.compute<f32, f32>} : f32
  return %0 : f32
}

// -----

func.func @scope_value(%x: tensor<?xf32>, %zero: tensor<f32>) {
  // expected-error @+1 {{'linalg.reduce' op attribute 'tandem.scope' must be "tensor" or "model", got "row"}}
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0] {tandem.scope = "row"}
  return
}

// -----

func.func @scope_type(%x: tensor<?xf32>, %zero: tensor<f32>) {
  // expected-error @+1 {{'linalg.reduce' op attribute 'tandem.scope' must be "tensor" or "model", got 1 : i64}}
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<?xf32>) outs(%zero : tensor<f32>)
      dimensions = [0] {tandem.scope = 1}
  return
}

// -----

// expected-error @+1 {{'func.func' op has 'tandem.scope', which belongs on a linalg.reduce; leave it out}}
func.func private @scope_owner() attributes {tandem.scope = "model"}
