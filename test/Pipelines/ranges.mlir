// Range analysis proves this in Collage's AdamW: the second sum in the growth
// of the second moment. It assumes nothing about the planes, which may hold any
// bits. Remarks are at the graph's operations.
// RUN: tandem-opt %tandem_src_root/lib/Graphs/adamw.mlir -tandem-to-kernel=strategy=collage-plus -tandem-analyze-ranges=report 2>&1 >/dev/null | FileCheck %s

// CHECK:     adamw.mlir:48:14: remark: mcf.mul: two_prod is kept: the error may be below the smallest positive number
// CHECK:     adamw.mlir:48:14: remark: mcf.mul: fast_two_sum is granted: nothing is known of the operands' order
// CHECK:     adamw.mlir:48:14: remark: mcf.grow: fast_two_sum is granted: nothing is known of the operands' order
// CHECK:     adamw.mlir:48:14: remark: mcf.grow: fast_two_sum is proved: the second operand is made of errors of sums that lead to the first
// CHECK:     adamw.mlir:57:15: remark: mcf.grow: fast_two_sum is granted: nothing is known of the operands' order
// CHECK:     adamw.mlir:57:15: remark: mcf.grow: fast_two_sum is granted: nothing is known of the operands' order
// CHECK-NOT: remark
