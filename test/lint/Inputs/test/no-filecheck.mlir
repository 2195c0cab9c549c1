// RUN: tandem-opt %s

// CHECK-LABEL: func.func @f
