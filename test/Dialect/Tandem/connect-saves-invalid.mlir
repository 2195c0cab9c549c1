// RUN: tandem-opt %s -tandem-connect-saves -split-input-file -verify-diagnostics

func.func @names(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  %0 = arith.mulf %x, %x : tensor<?xf32>
  tandem.save %x as "x" : tensor<?xf32>
  // expected-error @+1 {{'tandem.save' op saves another tensor as "x"; give each a name of its own}}
  tandem.save %0 as "x" : tensor<?xf32>
  return
}

// -----

func.func @entries(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x", per = row>}) {
  tandem.save %x as "x" per(row) : tensor<?xf32>
  // expected-error @+1 {{'tandem.save' op has an entry per column, but "x", which is the same tensor, per row}}
  tandem.save %x as "y" per(column) : tensor<?xf32>
  return
}

// -----

// expected-error @+1 {{restores what a forward pass has saved; name that graph, of the same module: tandem.forward = @name}}
func.func @no_forward(%dx: tensor<?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?xf32> {
  %x = tandem.restore "x" : tensor<?xf32>
  return %x : tensor<?xf32>
}

// -----

// expected-error @+1 {{restores what a forward pass has saved; name that graph, of the same module: tandem.forward = @name}}
func.func @unknown_forward(%dx: tensor<?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?xf32>
    attributes {tandem.forward = @unknown} {
  %x = tandem.restore "x" : tensor<?xf32>
  return %x : tensor<?xf32>
}

// -----

func.func @forward(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  tandem.save %x as "x" : tensor<?xf32>
  return
}

func.func @unknown_name(%dx: tensor<?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?xf32>
    attributes {tandem.forward = @forward} {
  // expected-error @+1 {{'tandem.restore' op finds no tensor that is saved as "y"; saved are 'x'}}
  %y = tandem.restore "y" : tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

func.func @forward(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  tandem.save %x as "x" : tensor<?xf32>
  return
}

func.func @type(%dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?x?xf32>
    attributes {tandem.forward = @forward} {
  // expected-error @+1 {{'tandem.restore' op must be 'tensor<?xf32>' as it is saved, got 'tensor<?x?xf32>'}}
  %x = tandem.restore "x" : tensor<?x?xf32>
  return %x : tensor<?x?xf32>
}

// -----

func.func @forward(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  tandem.save %x as "x" : tensor<?xf32>
  return
}

// expected-error @+1 {{does not restore "x.saved", which @forward saves; restore it, or do not save it}}
func.func @unrestored(%dy: tensor<?xf32> {tandem.role = #tandem.role<input "dy">},
                      %dx: tensor<?xf32> {tandem.role = #tandem.role<output "dx">}) -> tensor<?xf32>
    attributes {tandem.forward = @forward} {
  return %dy : tensor<?xf32>
}

// -----

// expected-error @+1 {{'tandem.keep_outputs' op finds no output of @forward for a linear layer; give a role consumer = linear}}
tandem.keep_outputs @forward

func.func @forward(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">},
                   %y: tensor<?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}
