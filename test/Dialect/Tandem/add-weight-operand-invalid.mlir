// RUN: tandem-opt %s -tandem-add-weight-operand -split-input-file -verify-diagnostics

// expected-error @below {{graph 'layer' has no param, so that there is no weight to write as an operand; leave the weight operand out}}
func.func @layer(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">},
                 %y: tensor<?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @below {{two arguments are named "operand"; role names must be unique}}
func.func @taken(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                 %state: tensor<?xf32> {tandem.role = #tandem.role<state "operand">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  return %param, %state : tensor<?xf32>, tensor<?xf32>
}

// -----

func.func @other(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                 %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
                 %copy: tensor<?xf32> {tandem.role = #tandem.role<output "copy">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  // expected-error @below {{'tandem.visible' op is of a value that the graph does not return as the new one of "param"}}
  %0 = tandem.visible %grad of %param : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  return %param, %0 : tensor<?xf32>, tensor<?xf32>
}
