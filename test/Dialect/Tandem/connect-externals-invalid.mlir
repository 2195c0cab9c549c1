// RUN: tandem-opt %s -split-input-file -verify-diagnostics -tandem-connect-externals

func.func @names(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  // expected-error @+1 {{'tandem.external' op sends ["x"] and receives [], but it has 1 operands and 1 results; give each of them a name, and have at least one of each}}
  %y = tandem.external "f"(%p) sends ["x"] receives [] format(f32) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

func.func @format(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  // expected-error @+1 {{'tandem.external' op exchanges bf16, f16 or f32 with the host, not 'f64'}}
  %y = tandem.external "f"(%p) sends ["x"] receives ["y"] format(f64) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

func.func @twice(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %y = tandem.external "f"(%p) sends ["x"] receives ["y"] format(f32) : (tensor<?xf32>) -> tensor<?xf32>
  // expected-error @+1 {{'tandem.external' op has the name of another step of the graph; the host tells them apart by their names}}
  %z = tandem.external "f"(%y) sends ["a"] receives ["b"] format(f32) : (tensor<?xf32>) -> tensor<?xf32>
  return %z : tensor<?xf32>
}

// -----

// expected-error @+1 {{two arguments are named "p"; role names must be unique}}
func.func @taken(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %y = tandem.external "f"(%p) sends ["p"] receives ["y"] format(f32) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// expected-error @+1 {{argument #0 has no tandem.role; every argument of a graph needs one}}
func.func @no_graph(%p: tensor<?xf32>) -> tensor<?xf32> {
  %y = tandem.external "f"(%p) sends ["x"] receives ["y"] format(f32) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// expected-error @+1 {{the sent "x" needs external = "<name>" and format = <type>}}
func.func private @needs(tensor<?xf32> {tandem.role = #tandem.role<sent "x", external = "f">})

// -----

// expected-error @+1 {{the state "x" has no external and no format, which belong to what is sent or received}}
func.func private @has(tensor<?xf32> {tandem.role = #tandem.role<state "x", format = f32>})

// -----

tandem.strategy @rules compute(<f32, f32>) {
  // expected-error @+1 {{'tandem.assign' op exchanges tensors with the host as bf16, f16 or f32 to nearest, got #tandem.float<bf16, dither>}}
  tandem.assign sent = #tandem.float<bf16, dither>
}
