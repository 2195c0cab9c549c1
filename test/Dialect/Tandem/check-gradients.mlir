// RUN: tandem-opt %s -tandem-check-gradients | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#h = #tandem.role<grad "h">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f8 = !tandem.stored<tensor<?xf32>, #tandem.float<f8E4M3FN>>

// A gradient with a magnitude above the largest finite one raises flag 0; other
// tensors raise no flags.
// CHECK-LABEL: tandem.kernel @check
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[G:.+]]: !tandem{{.+}}, %[[H:.+]]: !tandem
// CHECK-NEXT:    tandem.load_plane %[[P]][0] {{.+}} -> f32
// CHECK-NEXT:    %[[CODE:.+]] = tandem.load_plane %[[G]][0] {{.+}} -> i16
// CHECK-NEXT:    %[[MASK:.+]] = arith.constant 32767 : i16
// CHECK-NEXT:    %[[MAGNITUDE:.+]] = arith.andi %[[CODE]], %[[MASK]]
// CHECK-NEXT:    %[[LARGEST:.+]] = arith.constant 32639 : i16
// CHECK-NEXT:    %[[IS_SPECIAL:.+]] = arith.cmpi sgt, %[[MAGNITUDE]], %[[LARGEST]]
// CHECK-NEXT:    tandem.set_flag %[[IS_SPECIAL]][0] : i1
// CHECK-NEXT:    %[[X:.+]] = arith.bitcast %[[CODE]] : i16 to bf16
// CHECK-NEXT:    arith.extf %[[X]] : bf16 to f32
// E4M3FN has a NaN and no infinity.
// CHECK-NEXT:    tandem.load_plane %[[H]][0] {{.+}} -> i8
// CHECK-NEXT:    arith.constant 127 : i8
// CHECK:         arith.constant 126 : i8
// CHECK:         tandem.set_flag %{{.+}}[0] : i1
// A plane that is loaded as bits is still loaded as bits.
// CHECK:         %[[RAW:.+]] = tandem.load_plane %[[H]][0] {{.+}} -> i8
// CHECK-NEXT:    arith.constant 127 : i8
// CHECK-NEXT:    arith.andi %[[RAW]],
// CHECK:         tandem.set_flag %{{.+}}[0] : i1
// CHECK:         tandem.metric
// CHECK:         tandem.store_plane
// CHECK-NOT:     tandem.set_flag
tandem.kernel @check compute(<f32, f32>) tensors [#p, #g, #h] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %g: !bf16, %h: !f8):
  %0 = tandem.load_plane %p[0] : !f32 -> f32
  %1 = tandem.load_plane %g[0] : !bf16 -> bf16
  %2 = arith.extf %1 : bf16 to f32
  %3 = tandem.load_plane %h[0] : !f8 -> f8E4M3FN
  %4 = arith.extf %3 : f8E4M3FN to f32
  %raw = tandem.load_plane %h[0] : !f8 -> i8
  %number = arith.uitofp %raw : i8 to f64
  tandem.metric %number[0] : f64
  %5 = arith.addf %2, %4 : f32
  %6 = arith.addf %5, %0 : f32
  tandem.store_plane %6, %p[0] : f32, !f32
  tandem.yield
}
