// RUN: tandem-opt %s | FileCheck %s

// CHECK-LABEL: func.func @f
