// RUN: tandem-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @pack_of_components(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<bf16 x 2>)
// CHECK-NEXT:    return %[[S]]
func.func @pack_of_components(%s: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %c:2 = mcf.components %s : !mcf.expansion<bf16 x 2>
  %t = mcf.pack %c#0, %c#1 : !mcf.expansion<bf16 x 2>
  return %t : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @components_of_pack(
// CHECK-SAME:      %[[A:.+]]: f32, %[[B:.+]]: f32, %[[C:.+]]: f32)
// CHECK-NEXT:    return %[[C]], %[[A]]
func.func @components_of_pack(%a: f32, %b: f32, %c: f32) -> (f32, f32) {
  %s = mcf.pack %a, %b, %c : !mcf.expansion<f32 x 3>
  %x:3 = mcf.components %s : !mcf.expansion<f32 x 3>
  return %x#2, %x#0 : f32, f32
}

// Swapped components are a different number.
// CHECK-LABEL: func.func @swapped_components(
// CHECK:         %[[C:.+]]:2 = mcf.components
// CHECK:         %[[S:.+]] = mcf.pack %[[C]]#1, %[[C]]#0
// CHECK:         return %[[S]]
func.func @swapped_components(%s: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %c:2 = mcf.components %s : !mcf.expansion<bf16 x 2>
  %t = mcf.pack %c#1, %c#0 : !mcf.expansion<bf16 x 2>
  return %t : !mcf.expansion<bf16 x 2>
}

// Part of a longer expansion is not that expansion.
// CHECK-LABEL: func.func @fewer_components(
// CHECK:         %[[C:.+]]:3 = mcf.components
// CHECK:         %[[S:.+]] = mcf.pack %[[C]]#0, %[[C]]#1 : !mcf.expansion<bf16 x 2>
// CHECK:         return %[[S]]
func.func @fewer_components(%s: !mcf.expansion<bf16 x 3>) -> !mcf.expansion<bf16 x 2> {
  %c:3 = mcf.components %s : !mcf.expansion<bf16 x 3>
  %t = mcf.pack %c#0, %c#1 : !mcf.expansion<bf16 x 2>
  return %t : !mcf.expansion<bf16 x 2>
}

// x + 0 is not x for x = -0, and two negations are kept, since no operation
// folds values.
// CHECK-LABEL: func.func @values_do_not_fold(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<bf16 x 2>)
// CHECK:         %[[ZERO:.+]] = arith.constant 0.000000e+00 : bf16
// CHECK:         %[[T:.+]] = mcf.grow %[[S]], %[[ZERO]]
// CHECK:         %[[U:.+]] = mcf.neg %[[T]]
// CHECK:         %[[V:.+]] = mcf.neg %[[U]]
// CHECK:         return %[[V]]
func.func @values_do_not_fold(%s: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %zero = arith.constant 0.0 : bf16
  %t = mcf.grow %s, %zero : !mcf.expansion<bf16 x 2>
  %u = mcf.neg %t : !mcf.expansion<bf16 x 2>
  %v = mcf.neg %u : !mcf.expansion<bf16 x 2>
  return %v : !mcf.expansion<bf16 x 2>
}
