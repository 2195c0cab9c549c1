// RUN: tandem-opt %s -tandem-analyze-ranges=report -verify-diagnostics | FileCheck %s
// RUN: tandem-opt %s -pass-pipeline="builtin.module(tandem.kernel(tandem-analyze-ranges{report}))" -verify-diagnostics | FileCheck %s
// RUN: tandem-opt %s -tandem-analyze-ranges -tandem-split-phases -tandem-emulate-floats=formats=bf16 | FileCheck %s -check-prefix=LANES
// RUN: tandem-opt %s -tandem-split-phases -tandem-emulate-floats=formats=f8E5M2 | FileCheck %s -check-prefix=LANES8

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f8 = !tandem.stored<tensor<?xf32>, #tandem.float<f8E5M2>>
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// |a| >= 2 >= |b|, and no sum exceeds 130: three operations remain.
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

// A value that the prologue yields has the range from there, also if the
// analysis starts at the kernel.
// CHECK-LABEL: tandem.kernel @uniform
// CHECK:         ^bb0(%{{.+}}: !{{.+}}, %[[A:.+]]: f32):
// CHECK:         %[[B:.+]] = arith.minimumf %{{.+}}, %{{.+}} : f32
// CHECK-NEXT:    %[[X:.+]] = arith.addf %[[A]], %[[B]] : f32
// CHECK-NEXT:    %[[REST:.+]] = arith.subf %[[A]], %[[X]] : f32
// CHECK-NEXT:    %[[Y:.+]] = arith.addf %[[REST]], %[[B]] : f32
// CHECK-NEXT:    tandem.store_plane %[[Y]]
tandem.kernel @uniform compute(<f32, f32>) tensors [#p] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f64):
  %two = arith.constant 2.0 : f32
  %most = arith.constant 128.0 : f32
  %0 = arith.truncf %lr : f64 to f32
  %1 = arith.maximumf %0, %two : f32
  %2 = arith.minimumf %1, %most : f32
  tandem.yield %2 : f32
} body {
^bb0(%p: !f32, %a: f32):
  %two = arith.constant 2.0 : f32
  %minus_two = arith.constant -2.0 : f32
  %0 = tandem.load_plane %p[0] : !f32 -> f32
  %1 = arith.maximumf %0, %minus_two : f32
  %b = arith.minimumf %1, %two : f32
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

// Without an upper bound, the sum may overflow: TwoSum's error is NaN then, and
// the shorter sequence's infinite. Without a lower bound, no order is known.
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

// In bf16 as well, only the sum is rounded in lanes.
// CHECK-LABEL: tandem.kernel @lanes
// CHECK:         %[[X:.+]] = arith.addf %[[A:.+]], %[[B:.+]] : bf16
// CHECK-NEXT:    %[[REST:.+]] = arith.subf %[[A]], %[[X]] : bf16
// CHECK-NEXT:    %[[Y:.+]] = arith.addf %[[REST]], %[[B]] : bf16
// CHECK-NEXT:    tandem.store_plane %[[Y]]
// LANES-LABEL: tandem.step @lanes
// LANES:         arith.addf %[[A:.+]], %[[B:.+]] : f32
// LANES:         %[[X:.+]] = arith.andi
// LANES:         %[[REST:.+]] = arith.subf %[[A]], %{{.+}} : f32
// LANES-NEXT:    arith.addf %[[REST]], %[[B]] : f32
// LANES-NOT:     arith.andi
// LANES:         tandem.store_plane
tandem.kernel @lanes compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16):
  %two = arith.constant 2.0 : bf16
  %minus_two = arith.constant -2.0 : bf16
  %most = arith.constant 128.0 : bf16
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %1 = tandem.load_plane %q[0] : !bf16 -> bf16
  %2 = arith.maximumf %0, %two : bf16
  %a = arith.minimumf %2, %most : bf16
  %3 = arith.maximumf %1, %minus_two : bf16
  %b = arith.minimumf %3, %two : bf16
  %x = arith.addf %a, %b : bf16
  %second = arith.subf %x, %a : bf16
  %first = arith.subf %x, %second : bf16
  %da = arith.subf %a, %first : bf16
  %db = arith.subf %b, %second : bf16
  // expected-remark@below {{two_sum is proved, and shortened: the first operand is the larger one}}
  %y = arith.addf %da, %db : bf16
  tandem.store_plane %y, %p[0] : bf16, !bf16
  tandem.yield
}

// There is no proof that the error of an f32 Fast2Sum is small, so nothing is
// shortened by it.
// CHECK-LABEL: tandem.kernel @no_lemma
// CHECK-COUNT-3: arith.addf
tandem.kernel @no_lemma compute(<f32, f32>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %q: !f32):
  %minus_two = arith.constant -2.0 : f32
  %two = arith.constant 2.0 : f32
  %0 = tandem.load_plane %p[0] : !f32 -> f32
  %1 = tandem.load_plane %q[0] : !f32 -> f32
  %2 = arith.maximumf %0, %minus_two : f32
  %c = arith.minimumf %2, %two : f32
  %3 = arith.maximumf %1, %minus_two : f32
  %d = arith.minimumf %3, %two : f32
  %a = arith.addf %c, %d : f32
  %part = arith.subf %a, %c : f32
  // expected-remark@below {{fast_two_sum is granted}}
  %b = arith.subf %d, %part : f32
  %x = arith.addf %a, %b : f32
  %second = arith.subf %x, %a : f32
  %first = arith.subf %x, %second : f32
  %da = arith.subf %a, %first : f32
  %db = arith.subf %b, %second : f32
  // expected-remark@below {{two_sum is guarded: there is no lemma about this format, but the second operand is made of errors}}
  %y = arith.addf %da, %db : f32
  tandem.store_plane %y, %p[0] : f32, !f32
  tandem.yield
}

// A Fast2Sum is never shortened; its difference is rounded unless it is proved
// to be a bf16.
// LANES-LABEL: tandem.step @granted
// LANES:         arith.addf %{{.+}}, %{{.+}} : f32
// LANES:         arith.andi
// LANES:         arith.subf %{{.+}}, %{{.+}} : f32
// LANES:         arith.andi
// LANES:         arith.subf %{{.+}}, %{{.+}} : f32
// LANES-NOT:     arith.andi
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

// a is a whole bf16 number, and b is below 1/2 by a root and a constant: a may
// be zero, but it is always a multiple of b's ulp.
// LANES-LABEL: tandem.step @multiple
// LANES:         arith.addf %{{.+}}, %{{.+}} : f32
// LANES:         arith.andi
// LANES:         %[[Z:.+]] = arith.subf %{{.+}}, %{{.+}} : f32
// LANES-NEXT:    arith.subf %{{.+}}, %[[Z]] : f32
// LANES-NOT:     arith.andi
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

// The second sum of a grow after another Fast2Sum: the addend of u consists of
// the errors of u and of a sum that u depends on.
// LANES-LABEL: tandem.step @trail
// LANES-COUNT-12: arith.andi
// LANES:         %[[Z:.+]] = arith.subf
// LANES-NEXT:    arith.subf %{{.+}}, %[[Z]] : f32
// LANES-NOT:     arith.andi
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

// The same holds in an 8-bit format.
// LANES8-LABEL: tandem.step @trail_bytes
// LANES8-COUNT-5: scaled.encode_float f8E5M2, %
// LANES8:         %[[S:.+]] = arith.addf
// LANES8-NEXT:    %[[CODE:.+]] = scaled.encode_float f8E5M2, %[[S]]
// LANES8-NEXT:    %[[ROUNDED:.+]] = scaled.decode_float f8E5M2, %[[CODE]]
// LANES8-NEXT:    %[[Z:.+]] = arith.subf %[[ROUNDED]], %{{.+}} : f32
// LANES8-NEXT:    arith.subf %{{.+}}, %[[Z]] : f32
tandem.kernel @trail_bytes compute(<f32, f32>) tensors [#p, #p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f8, %q: !f8, %r: !f8):
  %a = tandem.load_plane %p[0] : !f8 -> f8E5M2
  %b = tandem.load_plane %q[0] : !f8 -> f8E5M2
  %c = tandem.load_plane %r[0] : !f8 -> f8E5M2
  %x = arith.addf %a, %b : f8E5M2
  %z = arith.subf %x, %a : f8E5M2
  // expected-remark@below {{fast_two_sum is granted}}
  %y = arith.subf %b, %z : f8E5M2
  %u = arith.addf %x, %c : f8E5M2
  %zu = arith.subf %u, %x : f8E5M2
  // expected-remark@below {{fast_two_sum is granted}}
  %v = arith.subf %c, %zu : f8E5M2
  %w = arith.addf %y, %v : f8E5M2
  %s = arith.addf %u, %w : f8E5M2
  %zs = arith.subf %s, %u : f8E5M2
  // expected-remark@below {{fast_two_sum is proved: the second operand is made of errors of sums that lead to the first}}
  %e = arith.subf %w, %zs : f8E5M2
  tandem.store_plane %s, %p[0] : f8E5M2, !f8
  tandem.store_plane %e, %q[0] : f8E5M2, !f8
  tandem.yield
}

// Both factors are at least 1, so the error is a multiple of 2^-14. Otherwise,
// it may be below the smallest number and is rounded.
// LANES-LABEL: tandem.step @products
// LANES:         %[[ERROR:.+]] = math.fma
// LANES-NEXT:    arith.bitcast %[[ERROR]]
// LANES-NEXT:    arith.constant 16 : i32
// LANES-NEXT:    arith.shrui
// LANES-NEXT:    arith.trunci
// LANES-NEXT:    tandem.store_plane
// LANES:         math.fma
// LANES:         arith.andi
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

// A number in two parts: the second is at most half an ulp of the first, or zero.
tandem.kernel @parts compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %q: !bf16):
  %zero = arith.constant 0.0 : f32
  %x = tandem.load_plane %p[0] : !f32 -> f32
  %isFinite = arith.cmpf ogt, %x, %zero : f32
  %hi = arith.truncf %x : f32 to bf16
  %back = arith.extf %hi : bf16 to f32
  %rest = arith.subf %x, %back : f32
  %part = arith.select %isFinite, %rest, %zero : f32
  %lo = arith.truncf %part : f32 to bf16
  %s = arith.addf %hi, %lo : bf16
  %z = arith.subf %s, %hi : bf16
  // expected-remark@below {{fast_two_sum is proved: the second operand is made of errors of sums that lead to the first}}
  %e = arith.subf %lo, %z : bf16
  tandem.store_plane %e, %q[0] : bf16, !bf16
  tandem.yield
}

// A value that may also be something else is not a second part.
tandem.kernel @no_parts compute(<component, bf16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %q: !bf16):
  %zero = arith.constant 0.0 : f32
  %x = tandem.load_plane %p[0] : !f32 -> f32
  %isFinite = arith.cmpf ogt, %x, %zero : f32
  %hi = arith.truncf %x : f32 to bf16
  %back = arith.extf %hi : bf16 to f32
  %rest = arith.subf %x, %back : f32
  %part = arith.select %isFinite, %rest, %x : f32
  %lo = arith.truncf %part : f32 to bf16
  %s = arith.addf %hi, %lo : bf16
  %z = arith.subf %s, %hi : bf16
  // expected-remark@below {{fast_two_sum is granted}}
  %e = arith.subf %lo, %z : bf16
  tandem.store_plane %e, %q[0] : bf16, !bf16
  tandem.yield
}
