// RUN: tandem-opt %s -split-input-file

// expected-error @+1 {{never asked for}}
