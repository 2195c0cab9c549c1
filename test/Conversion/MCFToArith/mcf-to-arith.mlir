// RUN: tandem-opt %s -convert-mcf-to-arith | FileCheck %s

// Each sequence follows the operation's description line by line.

// CHECK-LABEL: func.func @fast_two_sum(
// CHECK-SAME:      %[[A:.+]]: bf16, %[[B:.+]]: bf16) -> (bf16, bf16)
// CHECK-NEXT:    %[[X:.+]] = arith.addf %[[A]], %[[B]] : bf16
// CHECK-NEXT:    %[[B1:.+]] = arith.subf %[[X]], %[[A]] : bf16
// CHECK-NEXT:    %[[Y:.+]] = arith.subf %[[B]], %[[B1]] : bf16
// CHECK-NEXT:    return %[[X]], %[[Y]]
func.func @fast_two_sum(%a: bf16, %b: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.fast_two_sum %a, %b granted : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// Without the grant, the operation is a two_sum.
// CHECK-LABEL: func.func @fast_two_sum_not_granted(
// CHECK-COUNT-6: arith.{{addf|subf}}
// CHECK-NEXT:    return
func.func @fast_two_sum_not_granted(%a: bf16, %b: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.fast_two_sum %a, %b : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @two_sum(
// CHECK-SAME:      %[[A:.+]]: f16, %[[B:.+]]: f16)
// CHECK-NEXT:    %[[X:.+]] = arith.addf %[[A]], %[[B]] : f16
// CHECK-NEXT:    %[[B1:.+]] = arith.subf %[[X]], %[[A]] : f16
// CHECK-NEXT:    %[[A1:.+]] = arith.subf %[[X]], %[[B1]] : f16
// CHECK-DAG:     %[[DA:.+]] = arith.subf %[[A]], %[[A1]] : f16
// CHECK-DAG:     %[[DB:.+]] = arith.subf %[[B]], %[[B1]] : f16
// CHECK-NEXT:    %[[Y:.+]] = arith.addf %[[DA]], %[[DB]] : f16
// CHECK-NEXT:    return %[[X]], %[[Y]]
func.func @two_sum(%a: f16, %b: f16) -> !mcf.expansion<f16 x 2> {
  %0 = mcf.two_sum %a, %b : !mcf.expansion<f16 x 2>
  return %0 : !mcf.expansion<f16 x 2>
}

// CHECK-LABEL: func.func @two_prod(
// CHECK-SAME:      %[[A:.+]]: f32, %[[B:.+]]: f32)
// CHECK-NEXT:    %[[X:.+]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:    %[[N:.+]] = arith.negf %[[X]] : f32
// CHECK-NEXT:    %[[Y:.+]] = math.fma %[[A]], %[[B]], %[[N]] : f32
// CHECK-NEXT:    return %[[X]], %[[Y]]
func.func @two_prod(%a: f32, %b: f32) -> !mcf.expansion<f32 x 2> {
  %0 = mcf.two_prod %a, %b : !mcf.expansion<f32 x 2>
  return %0 : !mcf.expansion<f32 x 2>
}

// Half of bf16's 8 bits: 2^4 + 1.
// CHECK-LABEL: func.func @split(
// CHECK-SAME:      %[[A:.+]]: bf16)
// CHECK-NEXT:    %[[FACTOR:.+]] = arith.constant 1.700000e+01 : bf16
// CHECK-NEXT:    %[[C:.+]] = arith.mulf %[[FACTOR]], %[[A]] : bf16
// CHECK-NEXT:    %[[D:.+]] = arith.subf %[[C]], %[[A]] : bf16
// CHECK-NEXT:    %[[HI:.+]] = arith.subf %[[C]], %[[D]] : bf16
// CHECK-NEXT:    %[[LO:.+]] = arith.subf %[[A]], %[[HI]] : bf16
// CHECK-NEXT:    return %[[HI]], %[[LO]]
func.func @split(%a: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.split %a : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// The larger half of an odd precision: f16's 11 bits give 2^6 + 1, f8E4M3FN's 4
// bits 2^2 + 1.
// CHECK-LABEL: func.func @split_factors(
// CHECK:         arith.constant 6.500000e+01 : f16
// CHECK:         arith.constant 4.097000e+03 : f32
// CHECK:         arith.constant 5.000000e+00 : f8E4M3FN
// CHECK:         arith.constant 5.000000e+00 : f8E5M2
func.func @split_factors(%a: f16, %b: f32, %c: f8E4M3FN, %d: f8E5M2) {
  %0 = mcf.split %a : !mcf.expansion<f16 x 2>
  %1 = mcf.split %b : !mcf.expansion<f32 x 2>
  %2 = mcf.split %c : !mcf.expansion<f8E4M3FN x 2>
  %3 = mcf.split %d : !mcf.expansion<f8E5M2 x 2>
  return
}

// y = l*l' - (((x - h*h') - l*h') - h*l')
// CHECK-LABEL: func.func @two_prod_dekker(
// CHECK-SAME:      %[[A:.+]]: bf16, %[[B:.+]]: bf16)
// CHECK:         %[[D:.+]] = arith.subf %{{.+}}, %[[A]] : bf16
// CHECK:         %[[H:.+]] = arith.subf %{{.+}}, %[[D]] : bf16
// CHECK:         %[[L:.+]] = arith.subf %[[A]], %[[H]] : bf16
// CHECK:         %[[D1:.+]] = arith.subf %{{.+}}, %[[B]] : bf16
// CHECK:         %[[H1:.+]] = arith.subf %{{.+}}, %[[D1]] : bf16
// CHECK:         %[[L1:.+]] = arith.subf %[[B]], %[[H1]] : bf16
// CHECK:         %[[X:.+]] = arith.mulf %[[A]], %[[B]] : bf16
// CHECK-NEXT:    %[[HH:.+]] = arith.mulf %[[H]], %[[H1]] : bf16
// CHECK-NEXT:    %[[E1:.+]] = arith.subf %[[X]], %[[HH]] : bf16
// CHECK-NEXT:    %[[LH:.+]] = arith.mulf %[[L]], %[[H1]] : bf16
// CHECK-NEXT:    %[[E2:.+]] = arith.subf %[[E1]], %[[LH]] : bf16
// CHECK-NEXT:    %[[HL:.+]] = arith.mulf %[[H]], %[[L1]] : bf16
// CHECK-NEXT:    %[[E3:.+]] = arith.subf %[[E2]], %[[HL]] : bf16
// CHECK-NEXT:    %[[LL:.+]] = arith.mulf %[[L]], %[[L1]] : bf16
// CHECK-NEXT:    %[[Y:.+]] = arith.subf %[[LL]], %[[E3]] : bf16
// CHECK-NEXT:    return %[[X]], %[[Y]]
func.func @two_prod_dekker(%a: bf16, %b: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.two_prod_dekker %a, %b : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// (u, v) = fast_two_sum(x, a); (u, v) = fast_two_sum(u, y + v)
// CHECK-LABEL: func.func @grow(
// CHECK-SAME:      %[[X:.+]]: bf16, %[[Y:.+]]: bf16, %[[A:.+]]: bf16)
// CHECK-NEXT:    %[[U:.+]] = arith.addf %[[X]], %[[A]] : bf16
// CHECK-NEXT:    %[[T:.+]] = arith.subf %[[U]], %[[X]] : bf16
// CHECK-NEXT:    %[[V:.+]] = arith.subf %[[A]], %[[T]] : bf16
// CHECK-NEXT:    %[[W:.+]] = arith.addf %[[Y]], %[[V]] : bf16
// CHECK-NEXT:    %[[U1:.+]] = arith.addf %[[U]], %[[W]] : bf16
// CHECK-NEXT:    %[[T1:.+]] = arith.subf %[[U1]], %[[U]] : bf16
// CHECK-NEXT:    %[[V1:.+]] = arith.subf %[[W]], %[[T1]] : bf16
// CHECK-NEXT:    return %[[U1]], %[[V1]]
func.func @grow(%s: !mcf.expansion<bf16 x 2>, %a: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.grow %s, %a : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// d = a + y; x' = x + d; y' = d - (x' - x)
// CHECK-LABEL: func.func @kahan(
// CHECK-SAME:      %[[X:.+]]: bf16, %[[Y:.+]]: bf16, %[[A:.+]]: bf16)
// CHECK-NEXT:    %[[D:.+]] = arith.addf %[[A]], %[[Y]] : bf16
// CHECK-NEXT:    %[[X1:.+]] = arith.addf %[[X]], %[[D]] : bf16
// CHECK-NEXT:    %[[T:.+]] = arith.subf %[[X1]], %[[X]] : bf16
// CHECK-NEXT:    %[[Y1:.+]] = arith.subf %[[D]], %[[T]] : bf16
// CHECK-NEXT:    return %[[X1]], %[[Y1]]
func.func @kahan(%s: !mcf.expansion<bf16 x 2>, %a: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.kahan %s, %a : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// (x, e) = two_prod(a1, v); e = a2*v + e (no fma); fast_two_sum(x, e)
// CHECK-LABEL: func.func @scale(
// CHECK-SAME:      %[[A1:.+]]: bf16, %[[A2:.+]]: bf16, %[[V:.+]]: bf16)
// CHECK:         %[[X:.+]] = arith.mulf %[[A1]], %[[V]] : bf16
// CHECK:         %[[E:.+]] = math.fma %[[A1]], %[[V]], %{{.+}} : bf16
// CHECK-NEXT:    %[[P:.+]] = arith.mulf %[[A2]], %[[V]] : bf16
// CHECK-NEXT:    %[[E1:.+]] = arith.addf %[[P]], %[[E]] : bf16
// CHECK-NEXT:    %[[X1:.+]] = arith.addf %[[X]], %[[E1]] : bf16
// CHECK-NEXT:    %[[T:.+]] = arith.subf %[[X1]], %[[X]] : bf16
// CHECK-NEXT:    %[[E2:.+]] = arith.subf %[[E1]], %[[T]] : bf16
// CHECK-NEXT:    return %[[X1]], %[[E2]]
func.func @scale(%s: !mcf.expansion<bf16 x 2>, %v: bf16) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.scale %s, %v : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// (x, e) = two_prod(a1, b1); e = e + ((a1*b2) + (a2*b1)); fast_two_sum(x, e)
// CHECK-LABEL: func.func @mul(
// CHECK-SAME:      %[[A1:.+]]: bf16, %[[A2:.+]]: bf16, %[[B1:.+]]: bf16, %[[B2:.+]]: bf16)
// CHECK:         %[[X:.+]] = arith.mulf %[[A1]], %[[B1]] : bf16
// CHECK:         %[[E:.+]] = math.fma %[[A1]], %[[B1]], %{{.+}} : bf16
// CHECK-DAG:     %[[C:.+]] = arith.mulf %[[A1]], %[[B2]] : bf16
// CHECK-DAG:     %[[D:.+]] = arith.mulf %[[A2]], %[[B1]] : bf16
// CHECK:         %[[CROSS:.+]] = arith.addf %[[C]], %[[D]] : bf16
// CHECK-NEXT:    %[[E1:.+]] = arith.addf %[[E]], %[[CROSS]] : bf16
// CHECK-NEXT:    %[[X1:.+]] = arith.addf %[[X]], %[[E1]] : bf16
// CHECK-NEXT:    %[[T:.+]] = arith.subf %[[X1]], %[[X]] : bf16
// CHECK-NEXT:    %[[E2:.+]] = arith.subf %[[E1]], %[[T]] : bf16
// CHECK-NEXT:    return %[[X1]], %[[E2]]
func.func @mul(%s: !mcf.expansion<bf16 x 2>, %t: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.mul %s, %t : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @neg(
// CHECK-SAME:      %[[A:.+]]: f16, %[[B:.+]]: f16, %[[C:.+]]: f16)
// CHECK-DAG:     %[[X:.+]] = arith.negf %[[A]] : f16
// CHECK-DAG:     %[[Y:.+]] = arith.negf %[[B]] : f16
// CHECK-DAG:     %[[Z:.+]] = arith.negf %[[C]] : f16
// CHECK:         return %[[X]], %[[Y]], %[[Z]]
func.func @neg(%s: !mcf.expansion<f16 x 3>) -> !mcf.expansion<f16 x 3> {
  %0 = mcf.neg %s : !mcf.expansion<f16 x 3>
  return %0 : !mcf.expansion<f16 x 3>
}

// A low component is zero if the preceding one is not finite.
// CHECK-LABEL: func.func @from_float(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK-DAG:     %[[INFINITY:.+]] = arith.constant 0x7F800000 : f32
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[HI:.+]] = arith.truncf %[[X]] : f32 to bf16
// CHECK-NEXT:    %[[BACK:.+]] = arith.extf %[[HI]] : bf16 to f32
// CHECK-NEXT:    %[[MAGNITUDE:.+]] = math.absf %[[BACK]] : f32
// CHECK-NEXT:    %[[FINITE:.+]] = arith.cmpf olt, %[[MAGNITUDE]], %[[INFINITY]] : f32
// CHECK-NEXT:    %[[REST:.+]] = arith.subf %[[X]], %[[BACK]] : f32
// CHECK-NEXT:    %[[CHOSEN:.+]] = arith.select %[[FINITE]], %[[REST]], %[[ZERO]] : f32
// CHECK-NEXT:    %[[LO:.+]] = arith.truncf %[[CHOSEN]] : f32 to bf16
// CHECK:         return %[[HI]], %[[LO]]
func.func @from_float(%x: f32) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.from_float %x : f32 -> !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// Components are added smallest first.
// CHECK-LABEL: func.func @to_float(
// CHECK-SAME:      %[[A:.+]]: bf16, %[[B:.+]]: bf16, %[[C:.+]]: bf16)
// CHECK-DAG:     %[[WA:.+]] = arith.extf %[[A]] : bf16 to f64
// CHECK-DAG:     %[[WB:.+]] = arith.extf %[[B]] : bf16 to f64
// CHECK-DAG:     %[[WC:.+]] = arith.extf %[[C]] : bf16 to f64
// CHECK-DAG:     %[[LOW:.+]] = arith.addf %[[WB]], %[[WC]] : f64
// CHECK:         %[[SUM:.+]] = arith.addf %[[WA]], %[[LOW]] : f64
// CHECK:         return %[[SUM]]
func.func @to_float(%s: !mcf.expansion<bf16 x 3>) -> f64 {
  %0 = mcf.to_float %s : !mcf.expansion<bf16 x 3> -> f64
  return %0 : f64
}

// Functions, calls and loops with expansions use components instead; vectors of
// expansions become vectors.
// CHECK-LABEL: func.func @structure(
// CHECK-SAME:      %[[X:.+]]: vector<8xbf16>, %[[Y:.+]]: vector<8xbf16>, %[[A:.+]]: vector<8xbf16>
// CHECK:         %[[LOOP:.+]]:2 = scf.for {{.+}} iter_args(%[[U:.+]] = %[[X]], %[[V:.+]] = %[[Y]]) -> (vector<8xbf16>, vector<8xbf16>)
// CHECK:           %[[CALL:.+]]:2 = func.call @callee(%[[U]], %[[V]], %[[A]])
// CHECK:           scf.yield %[[CALL]]#0, %[[CALL]]#1
// CHECK:         return %[[LOOP]]#0, %[[LOOP]]#1
func.func @structure(%s: vector<8x!mcf.expansion<bf16 x 2>>, %a: vector<8xbf16>, %n: index)
    -> vector<8x!mcf.expansion<bf16 x 2>> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %s) -> vector<8x!mcf.expansion<bf16 x 2>> {
    %1 = func.call @callee(%t, %a) : (vector<8x!mcf.expansion<bf16 x 2>>, vector<8xbf16>) -> vector<8x!mcf.expansion<bf16 x 2>>
    scf.yield %1 : vector<8x!mcf.expansion<bf16 x 2>>
  }
  return %0 : vector<8x!mcf.expansion<bf16 x 2>>
}
// CHECK: func.func private @callee(vector<8xbf16>, vector<8xbf16>, vector<8xbf16>) -> (vector<8xbf16>, vector<8xbf16>)
func.func private @callee(vector<8x!mcf.expansion<bf16 x 2>>, vector<8xbf16>) -> vector<8x!mcf.expansion<bf16 x 2>>
