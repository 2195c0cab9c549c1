// RUN: tandem-opt %s -tandem-analyze-ranges=report -verify-diagnostics | FileCheck %s

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// |a| >= 2 >= |b|, and no sum is beyond 130: three operations are left.
// CHECK-LABEL: tandem.kernel @shortened
// CHECK:         %[[A:.+]] = arith.minimumf %{{.+}}, %{{.+}} : f32
// CHECK:         %[[B:.+]] = arith.minimumf %{{.+}}, %{{.+}} : f32
// CHECK-NEXT:    %[[X:.+]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT:    %[[REST:.+]] = arith.subf %[[A]], %[[X]] : f32
// CHECK-NEXT:    %[[Y:.+]] = arith.addf %[[REST]], %[[B]] : f32
// CHECK-NEXT:    tandem.store_plane %[[Y]]
tandem.kernel @shortened compute(<f32, f32>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %q: !f32):
  %two = arith.constant 2.0 : f32
  %minus_two = arith.constant -2.0 : f32
  %most = arith.constant 128.0 : f32
  %0 = tandem.load_plane %p[0] : !f32 -> f32
  %1 = tandem.load_plane %q[0] : !f32 -> f32
  %2 = arith.maximumf %0, %two : f32
  %a = arith.minimumf %2, %most : f32
  %3 = arith.maximumf %1, %minus_two : f32
  %b = arith.minimumf %3, %two : f32
  %x = arith.addf %a, %b : f32
  %second = arith.subf %x, %a : f32
  %first = arith.subf %x, %second : f32
  %da = arith.subf %a, %first : f32
  %db = arith.subf %b, %second : f32
  // expected-remark@below {{two_sum is proved, and shortened: the first operand is the larger one}}
  %y = arith.addf %da, %db : f32
  tandem.store_plane %y, %p[0] : f32, !f32
  tandem.yield
}

// Without an upper bound the sum may overflow: TwoSum's error is NaN then, that of
// the shorter sequence infinite. Without a lower one no order is known.
// CHECK-LABEL: tandem.kernel @guarded
// CHECK-COUNT-3: arith.addf
// CHECK:         arith.addf
tandem.kernel @guarded compute(<f32, f32>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %q: !f32):
  %two = arith.constant 0x7F000000 : f32
  %0 = tandem.load_plane %p[0] : !f32 -> f32
  %b = tandem.load_plane %q[0] : !f32 -> f32
  %a = arith.maximumf %0, %two : f32
  %1 = math.absf %b : f32
  %small = arith.minimumf %1, %two : f32
  %x = arith.addf %a, %small : f32
  %second = arith.subf %x, %a : f32
  %first = arith.subf %x, %second : f32
  %da = arith.subf %a, %first : f32
  %db = arith.subf %small, %second : f32
  // expected-remark@below {{two_sum is guarded: the sum may overflow, but the first operand is the larger one}}
  %y = arith.addf %da, %db : f32
  %x2 = arith.addf %0, %b : f32
  %second2 = arith.subf %x2, %0 : f32
  %first2 = arith.subf %x2, %second2 : f32
  %da2 = arith.subf %0, %first2 : f32
  %db2 = arith.subf %b, %second2 : f32
  // expected-remark@below {{two_sum is guarded: nothing is known of the operands' order}}
  %y2 = arith.addf %da2, %db2 : f32
  tandem.store_plane %y, %p[0] : f32, !f32
  tandem.store_plane %y2, %q[0] : f32, !f32
  tandem.yield
}

// A Fast2Sum is what it is, whatever is known; the difference in it is rounded
// unless it is proved to be a bf16.
tandem.kernel @granted compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16):
  %a = tandem.load_plane %p[0] : !bf16 -> bf16
  %b = tandem.load_plane %q[0] : !bf16 -> bf16
  %x = arith.addf %a, %b : bf16
  %z = arith.subf %x, %a : bf16
  // expected-remark@below {{fast_two_sum is granted: nothing is known of the operands' order}}
  %y = arith.subf %b, %z : bf16
  tandem.store_plane %y, %p[0] : bf16, !bf16
  tandem.yield
}

// a is a whole number of bf16, b below 1/2 by a root and a constant: a may be
// zero, but is always a multiple of b's ulp.
tandem.kernel @multiple compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16):
  %half = arith.constant 0.5 : bf16
  %0 = tandem.load_plane %p[0] : !bf16 -> i16
  %1 = arith.trunci %0 : i16 to i8
  %a = arith.sitofp %1 : i8 to bf16
  %2 = tandem.load_plane %q[0] : !bf16 -> bf16
  %3 = math.sqrt %2 : bf16
  %b = arith.minimumf %3, %half : bf16
  %x = arith.addf %a, %b : bf16
  %z = arith.subf %x, %a : bf16
  // expected-remark@below {{fast_two_sum is proved: the first operand is a multiple of the second one's ulp}}
  %y = arith.subf %b, %z : bf16
  tandem.store_plane %y, %p[0] : bf16, !bf16
  tandem.yield
}

// The second sum of a grow behind another Fast2Sum: what is added to u is made of
// the errors of u and of a sum that went into u.
tandem.kernel @trail compute(<component, bf16>) tensors [#p, #p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16, %r: !bf16):
  %a = tandem.load_plane %p[0] : !bf16 -> bf16
  %b = tandem.load_plane %q[0] : !bf16 -> bf16
  %c = tandem.load_plane %r[0] : !bf16 -> bf16
  %x = arith.addf %a, %b : bf16
  %z = arith.subf %x, %a : bf16
  // expected-remark@below {{fast_two_sum is granted}}
  %y = arith.subf %b, %z : bf16
  %u = arith.addf %x, %c : bf16
  %zu = arith.subf %u, %x : bf16
  // expected-remark@below {{fast_two_sum is granted}}
  %v = arith.subf %c, %zu : bf16
  %w = arith.addf %y, %v : bf16
  %s = arith.addf %u, %w : bf16
  %zs = arith.subf %s, %u : bf16
  // expected-remark@below {{fast_two_sum is proved: the second operand is made of errors of sums that lead to the first}}
  %e = arith.subf %w, %zs : bf16
  tandem.store_plane %s, %p[0] : bf16, !bf16
  tandem.store_plane %e, %q[0] : bf16, !bf16
  tandem.yield
}

// Both factors are at least 1: the error is a multiple of 2^-14. Without that it
// may be below the smallest number, and is rounded.
tandem.kernel @products compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16):
  %one = arith.constant 1.0 : bf16
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %a = arith.maximumf %0, %one : bf16
  %x = arith.mulf %a, %a : bf16
  %n = arith.negf %x : bf16
  // expected-remark@below {{two_prod is proved: the product is a multiple of the smallest positive number}}
  %e = math.fma %a, %a, %n : bf16
  tandem.store_plane %e, %p[0] : bf16, !bf16
  %x2 = arith.mulf %0, %a : bf16
  %n2 = arith.negf %x2 : bf16
  // expected-remark@below {{two_prod is kept: the error may be below the smallest positive number}}
  %e2 = math.fma %0, %a, %n2 : bf16
  tandem.store_plane %e2, %q[0] : bf16, !bf16
  tandem.yield
}
