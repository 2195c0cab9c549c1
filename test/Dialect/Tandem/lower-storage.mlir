// RUN: tandem-opt %s -tandem-lower-storage | FileCheck %s

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!f8 = !tandem.stored<tensor<?xf32>, #tandem.float<f8E4M3FN>>
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16, stochastic>>
!f16 = !tandem.stored<tensor<?xf32>, #tandem.float<f16, stochastic>>
!master = !tandem.stored<tensor<?xf32>, #tandem.master<bf16>>
!working = !tandem.stored<tensor<?xf32>, #tandem.working<bf16,
  #tandem.scaled<#scaled.float<f8E4M3FN>, group = 128, scale = f32>>>
!remainder = !tandem.stored<tensor<?xf32>, #tandem.remainder>
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
!kahan = !tandem.stored<tensor<?xf32>, #tandem.kahan<bf16>>

// A NaN, whose magnitude exceeds the largest one that is not, is stored as one
// pattern.
// CHECK-LABEL: tandem.kernel @float
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-NEXT:    %[[STORED:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> f8E4M3FN
// CHECK-NEXT:    %[[X:.+]] = arith.extf %[[STORED]] : f8E4M3FN to f32
// CHECK-NEXT:    %[[ROUNDED:.+]] = arith.truncf %[[X]] : f32 to f8E4M3FN
// CHECK-NEXT:    %[[CODE:.+]] = arith.bitcast %[[ROUNDED]] : f8E4M3FN to i8
// CHECK-NEXT:    %[[MASK:.+]] = arith.constant 127 : i8
// CHECK-NEXT:    %[[MAGNITUDE:.+]] = arith.andi %[[CODE]], %[[MASK]]
// CHECK-NEXT:    %[[LARGEST:.+]] = arith.constant 126 : i8
// CHECK-NEXT:    %[[IS_NAN:.+]] = arith.cmpi ugt, %[[MAGNITUDE]], %[[LARGEST]]
// CHECK-NEXT:    %[[NAN:.+]] = arith.constant 127 : i8
// CHECK-NEXT:    %[[BITS:.+]] = arith.select %[[IS_NAN]], %[[NAN]], %[[CODE]]
// CHECK-NEXT:    tandem.store_plane %[[BITS]], %[[P]][0] : i8
// CHECK-NEXT:    tandem.yield
tandem.kernel @float compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f8):
  %0 = tandem.load %p : !f8 -> f32
  tandem.store %0, %p : f32, !f8
  tandem.yield
}

// If the visible plane differs from the rounded master, it is the
// value.
// CHECK-LABEL: tandem.kernel @master
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[VISIBLE:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> bf16
// CHECK-DAG:     %[[MASTER:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> f32
// CHECK-DAG:     %[[SHOWN:.+]] = arith.extf %[[VISIBLE]] : bf16 to f32
// CHECK-DAG:     %[[NARROW:.+]] = arith.truncf %[[MASTER]] : f32 to bf16
// CHECK-DAG:     %[[ROUNDED:.+]] = arith.extf %[[NARROW]] : bf16 to f32
// CHECK:         %[[SAME:.+]] = arith.cmpf oeq, %[[SHOWN]], %[[ROUNDED]]
// CHECK:         %[[X:.+]] = arith.select %[[SAME]], %[[MASTER]], %[[SHOWN]]
// CHECK:         arith.truncf %[[X]] : f32 to bf16
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i16
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][1] : i32
tandem.kernel @master compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !master):
  %0 = tandem.load %p : !master -> f32
  tandem.store %0, %p : f32, !master
  tandem.yield
}

// ((hi - (lo >> 15)) << 16) | lo, and (u + 0x8000) >> 16 with u's low half; NaN
// is 0x7FFF0000. A zero hi with a lo that would borrow is zero.
// CHECK-LABEL: tandem.kernel @remainder
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[HI:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> bf16
// CHECK-DAG:     %[[LO:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i16
// CHECK-DAG:     %[[LOW:.+]] = arith.extui %[[LO]] : i16 to i32
// CHECK-DAG:     %[[CODE:.+]] = arith.bitcast %[[HI]] : bf16 to i16
// CHECK-DAG:     %[[HIGH:.+]] = arith.extui %[[CODE]] : i16 to i32
// CHECK:         %[[CARRY:.+]] = arith.shrui %[[LOW]], %{{.+}} : i32
// CHECK:         %[[FLOOR:.+]] = arith.subi %[[HIGH]], %[[CARRY]]
// CHECK:         %[[UPPER:.+]] = arith.shli %[[FLOOR]], %{{.+}} : i32
// CHECK:         %[[WORD:.+]] = arith.ori %[[UPPER]], %[[LOW]]
// CHECK-DAG:     %[[MAGNITUDE:.+]] = arith.shli %[[HIGH]], %{{.+}} : i32
// CHECK-DAG:     %[[EXACT:.+]] = arith.xori %[[CARRY]], %{{.+}} : i32
// CHECK:         %[[REST:.+]] = arith.ori %[[MAGNITUDE]], %[[EXACT]]
// CHECK:         %[[WRITTEN:.+]] = arith.cmpi eq, %[[REST]], %{{.+}} : i32
// CHECK:         %[[BITS:.+]] = arith.select %[[WRITTEN]], %{{.+}}, %[[WORD]]
// CHECK:         %[[X:.+]] = arith.bitcast %[[BITS]] : i32 to f32
// CHECK:         %[[U:.+]] = arith.bitcast %[[X]] : f32 to i32
// CHECK:         %[[NAN:.+]] = arith.constant 2147418112 : i32
// CHECK:         %[[CANONICAL:.+]] = arith.select %{{.+}}, %[[NAN]], %[[U]]
// CHECK:         %[[HALF:.+]] = arith.constant 32768 : i32
// CHECK:         %[[UP:.+]] = arith.addi %[[CANONICAL]], %[[HALF]]
// CHECK:         %[[SHIFTED:.+]] = arith.shrui %[[UP]], %{{.+}} : i32
// CHECK-DAG:     %[[NEW_HI:.+]] = arith.trunci %[[SHIFTED]] : i32 to i16
// CHECK-DAG:     %[[NEW_LO:.+]] = arith.trunci %[[CANONICAL]] : i32 to i16
// CHECK:         tandem.store_plane %[[NEW_HI]], %[[P]][0] : i16
// CHECK:         tandem.store_plane %[[NEW_LO]], %[[P]][1] : i16
tandem.kernel @remainder compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !remainder):
  %0 = tandem.load %p : !remainder -> f32
  tandem.store %0, %p : f32, !remainder
  tandem.yield
}

// The copy and the codes are read, and the copy is written as the decoded new
// codes.
// CHECK-LABEL: tandem.kernel @working
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[COPY:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> bf16
// CHECK-DAG:     %[[CODE:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i8
// CHECK-DAG:     %[[SCALE:.+]] = tandem.load_plane %[[P]][2] {{.+}} -> i32
// CHECK:         %[[DECODED:.+]] = scaled.dequantize
// CHECK:         %[[SHOWN:.+]] = arith.extf %[[COPY]] : bf16 to f32
// CHECK:         %[[SAME:.+]] = arith.cmpf oeq, %[[SHOWN]], %{{.+}}
// CHECK:         %[[X:.+]] = arith.select %[[SAME]], %[[DECODED]], %[[SHOWN]]
// CHECK:         scaled.quantize {{.+}}, %[[X]] by
// CHECK:         %[[NEW:.+]] = scaled.dequantize
// CHECK:         arith.truncf %[[NEW]] : f32 to bf16
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i16
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][1] : i8
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][2] : i32
tandem.kernel @working compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !working):
  %0 = tandem.load %p : !working -> f32
  tandem.store %0, %p : f32, !working
  tandem.yield
}

// CHECK-LABEL: tandem.kernel @expansion_in_f32
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[HI:.+]] = tandem.load_plane %[[P]][0]
// CHECK-DAG:     %[[LO:.+]] = tandem.load_plane %[[P]][1]
// CHECK:         %[[S:.+]] = mcf.pack %[[HI]], %[[LO]]
// CHECK:         %[[X:.+]] = mcf.to_float %[[S]] {{.+}} -> f32
// CHECK:         %[[T:.+]] = mcf.from_float %[[X]] : f32
// CHECK:         %[[C:.+]]:2 = mcf.components %[[T]]
// CHECK-DAG:     %[[HI_BITS:.+]] = arith.bitcast %[[C]]#0 : bf16 to i16
// CHECK-DAG:     %[[LO_BITS:.+]] = arith.bitcast %[[C]]#1 : bf16 to i16
// CHECK-DAG:     %[[NEW_HI:.+]] = arith.select %{{.+}}, %{{.+}}, %[[HI_BITS]]
// CHECK-DAG:     %[[NEW_LO:.+]] = arith.select %{{.+}}, %{{.+}}, %[[LO_BITS]]
// CHECK:         tandem.store_plane %[[NEW_HI]], %[[P]][0] : i16
// CHECK:         tandem.store_plane %[[NEW_LO]], %[[P]][1] : i16
tandem.kernel @expansion_in_f32 compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load %p : !pair -> f32
  tandem.store %0, %p : f32, !pair
  tandem.yield
}

// Under the component policy, there is no intermediate rounding.
// CHECK-LABEL: tandem.kernel @kahan
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-NOT:     float
// CHECK-DAG:     %[[HI:.+]] = tandem.load_plane %[[P]][0]
// CHECK-DAG:     %[[LO:.+]] = tandem.load_plane %[[P]][1]
// CHECK:         %[[S:.+]] = mcf.pack %[[HI]], %[[LO]]
// CHECK:         mcf.components %[[S]]
tandem.kernel @kahan compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !kahan):
  %0 = tandem.load %p : !kahan -> !mcf.expansion<bf16 x 2>
  tandem.store %0, %p : !mcf.expansion<bf16 x 2>, !kahan
  tandem.yield
}

// Random bits require a seed and the step: the kernel gets the missing ones.
// CHECK-LABEL: tandem.kernel @stochastic
// CHECK-SAME:      scalars [#tandem.role<step "t">, #tandem.role<seed "seed">] prologue {
// CHECK-NEXT:  ^bb0(%[[T:.+]]: i64, %[[SEED:.+]]: i64):
// CHECK-DAG:     %[[LOW:.+]] = arith.trunci %[[SEED]] : i64 to i32
// CHECK-DAG:     %[[REST:.+]] = arith.shrui %[[SEED]], %{{.+}} : i64
// CHECK-DAG:     %[[HIGH:.+]] = arith.trunci %[[REST]] : i64 to i32
// CHECK-DAG:     %[[STEP:.+]] = arith.trunci %[[T]] : i64 to i32
// CHECK:         tandem.yield %[[LOW]], %[[HIGH]], %[[STEP]] : i32, i32, i32
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[KEY0:.+]]: i32, %[[KEY1:.+]]: i32, %[[COUNT:.+]]: i32):
// CHECK:         %[[RANDOM:.+]] = tandem.random_bits %[[P]] seed(%[[KEY0]], %[[KEY1]]) step(%[[COUNT]]) : {{.+}} -> i32
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %{{.+}} : f32 to i32
// CHECK-NEXT:    %[[SUM:.+]] = arith.addi %[[BITS]], %[[RANDOM]]
// CHECK:         arith.shrui %[[SUM]]
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i16
tandem.kernel @stochastic compute(<f32, f32>) tensors [#p] scalars [#tandem.role<step "t">] prologue {
^bb0(%t: i64):
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load %p : !bf16 -> f32
  tandem.store %0, %p : f32, !bf16
  tandem.yield
}

// A kernel that has both scalars uses them for all of its stores.
// CHECK-LABEL: tandem.kernel @two_draws
// CHECK-SAME:      scalars [#tandem.role<seed "s">, #tandem.role<step "t">] prologue {
// CHECK:         tandem.yield %{{[^,]+}}, %{{[^,]+}}, %{{[^,]+}} : i32, i32, i32
// CHECK:         tandem.store_plane %{{.+}}[0] : i16
// CHECK:         tandem.store_plane %{{.+}}[0] : i16
tandem.kernel @two_draws compute(<f32, f32>) tensors [#p, #tandem.role<state "m">]
    scalars [#tandem.role<seed "s">, #tandem.role<step "t">] prologue {
^bb0(%s: i64, %t: i64):
  tandem.yield
} body {
^bb0(%p: !f16, %m: !bf16):
  %0 = tandem.load %p : !f16 -> f32
  tandem.store %0, %p : f32, !f16
  tandem.store %0, %m : f32, !bf16
  tandem.yield
}

// The change of a pair is the sum of its parts' changes; the metrics sum D *
// D_eff, D * D, lost updates and updates.
// CHECK-LABEL: tandem.kernel @descent
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[HI:.+]] = tandem.load_plane %[[P]][0]
// CHECK-DAG:     %[[LO:.+]] = tandem.load_plane %[[P]][1]
// CHECK:         %[[D:.+]] = arith.constant 2.500000e-01 : f64
// CHECK-DAG:     %[[HI64:.+]] = arith.extf %[[HI]] : bf16 to f64
// CHECK-DAG:     %[[LO64:.+]] = arith.extf %[[LO]] : bf16 to f64
// CHECK-DAG:     %[[DHI:.+]] = arith.subf %{{.+}}, %[[HI64]] : f64
// CHECK-DAG:     %[[DLO:.+]] = arith.subf %{{.+}}, %[[LO64]] : f64
// CHECK:         %[[CHANGE:.+]] = arith.addf %[[DHI]], %[[DLO]] : f64
// CHECK:         %[[ASKED:.+]] = arith.cmpf une, %[[D]], %{{.+}} : f64
// CHECK:         %[[LOST:.+]] = arith.cmpf oeq, %[[CHANGE]], %{{.+}} : f64
// CHECK-DAG:     %[[DOT:.+]] = arith.mulf %[[D]], %[[CHANGE]] : f64
// CHECK-DAG:     %[[SQUARE:.+]] = arith.mulf %[[D]], %[[D]] : f64
// CHECK-DAG:     %[[BOTH:.+]] = arith.andi %[[ASKED]], %[[LOST]] : i1
// CHECK-DAG:     %[[IS_LOST:.+]] = arith.select %[[BOTH]]
// CHECK-DAG:     %[[IS_ASKED:.+]] = arith.select %[[ASKED]]
// CHECK:         tandem.metric %[[DOT]][0] : f64
// CHECK:         tandem.metric %[[SQUARE]][1] : f64
// CHECK:         tandem.metric %[[IS_LOST]][2] : f64
// CHECK:         tandem.metric %[[IS_ASKED]][3] : f64
// CHECK-NOT:     tandem.measure_update
tandem.kernel @descent compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load %p : !pair -> f32
  tandem.store %0, %p : f32, !pair
  %d = arith.constant 0.25 : f64
  tandem.measure_update %d, %p : f64, !pair
  tandem.yield
}

// A NaN that a kernel stores directly to a plane becomes canonical.
// CHECK-LABEL: tandem.kernel @own_store
// CHECK:         %[[CODE:.+]] = arith.bitcast %{{.+}} : bf16 to i16
// CHECK:         %[[NAN:.+]] = arith.cmpi ugt
// CHECK:         %[[STORED:.+]] = arith.select %[[NAN]], %{{.+}}, %[[CODE]] : i16
// CHECK-NEXT:    tandem.store_plane %[[STORED]], %{{.+}}[0] : i16
tandem.kernel @own_store compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load_plane %p[1] : !pair -> bf16
  tandem.store_plane %0, %p[0] : bf16, !pair
  tandem.yield
}

// The params of a kernel share the sums: an element adds the contributions of all.
// CHECK-LABEL: tandem.kernel @descents
// CHECK:         %[[P2:.+]] = arith.mulf %{{.+}} : f64
// CHECK:         %[[Q2:.+]] = arith.mulf %{{.+}} : f64
// CHECK:         arith.addf
// CHECK-COUNT-4: tandem.metric
// CHECK-NOT:     tandem.metric
tandem.kernel @descents compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<param "q">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %q: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>):
  %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> f32
  %1 = tandem.load %q : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> f32
  %2 = arith.addf %0, %1 : f32
  tandem.store %2, %p : f32, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  tandem.store %2, %q : f32, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  %3 = arith.extf %1 : f32 to f64
  %4 = arith.extf %0 : f32 to f64
  tandem.measure_update %3, %p : f64, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  tandem.measure_update %4, %q : f64, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  tandem.yield
}
