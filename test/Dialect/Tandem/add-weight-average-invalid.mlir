// RUN: tandem-opt %s -tandem-add-weight-average -split-input-file -verify-diagnostics

// expected-error @below {{graph 'layer' has no param, so that there are no weights to average; leave the weight average out}}
func.func @layer(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">},
                 %y: tensor<?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// expected-error @below {{two arguments are named "ema"; role names must be unique}}
func.func @taken(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                 %ema: tensor<?xf32> {tandem.role = #tandem.role<state "ema">})
    -> (tensor<?xf32>, tensor<?xf32>) {
  return %param, %ema : tensor<?xf32>, tensor<?xf32>
}
