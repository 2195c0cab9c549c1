// RUN: tandem-opt %s -tandem-split-phases -split-input-file | FileCheck %s

// An operand whose scale is that of the whole tensor needs a launch of its own. The launch before
// it finds the largest magnitude and writes the param, and the operand's launch reads the param.

!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#o = #tandem.role<output "operand", consumer = linear>

// CHECK-LABEL: tandem.step @operand
tandem.kernel @operand compute(<f32, f32>) tensors [#p, #g, #o] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain, %g: !plain, %o: !codes):
  // CHECK:       tandem.launch reduction body
  // CHECK-NEXT:    ^bb0(%[[P:[^:]+]]: {{.+}}, %[[G:[^:]+]]: {{.+}}, %{{.+}}: {{.+}}):
  // CHECK-DAG:     %[[OLD:.+]] = tandem.load_plane %[[P]][0]
  // CHECK-DAG:     %[[GRAD:.+]] = tandem.load_plane %[[G]][0]
  // CHECK:         %[[SUM:.+]] = arith.addf %[[OLD]], %[[GRAD]] : bf16
  // CHECK:         %[[NEW:.+]] = arith.bitcast %[[SUM]] : bf16 to i16
  // CHECK:         tandem.store_plane %[[NEW]], %[[P]][0]
  // CHECK:         tandem.partial max
  // CHECK-NOT:     tandem.store_plane
  // CHECK:       tandem.launch main body
  // CHECK-NEXT:    ^bb0(%[[P:[^:]+]]: {{.+}}, %{{.+}}: {{.+}}, %[[O:[^:]+]]: {{.+}}):
  // CHECK:         %[[NEW:.+]] = tandem.load_plane %[[P]][0] : {{.+}} -> i16
  // CHECK-NOT:     tandem.load_plane
  // CHECK:         %[[WIDE:.+]] = arith.extui %[[NEW]] : i16 to i32
  // CHECK:         %[[MOST:.+]] = tandem.reduction_result[0]
  // CHECK:         %[[REST:.+]] = arith.subi %[[MOST]], %[[WIDE]]
  // CHECK:         %[[CODE:.+]] = arith.trunci %[[REST]] : i32 to i8
  // CHECK:         tandem.store_plane %[[CODE]], %[[O]][0]
  %old = tandem.load_plane %p[0] : !plain -> bf16
  %grad = tandem.load_plane %g[0] : !plain -> bf16
  %sum = arith.addf %old, %grad : bf16
  %new = arith.bitcast %sum : bf16 to i16
  tandem.store_plane %new, %p[0] : i16, !plain
  %wide = arith.extui %new : i16 to i32
  %most = tandem.reduce max %wide over tensor : i32
  %rest = arith.subi %most, %wide : i32
  %code = arith.trunci %rest : i32 to i8
  tandem.store_plane %code, %o[0] : i8, !codes
  tandem.yield
}

// -----

// If the operand depends on what the update overwrites, all is written in the last launch.

!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">
#o = #tandem.role<output "operand", consumer = linear>

// CHECK-LABEL: tandem.step @of_old
tandem.kernel @of_old compute(<f32, f32>) tensors [#p, #o] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain, %o: !codes):
  // CHECK:       tandem.launch reduction body
  // CHECK-NOT:     tandem.store_plane
  // CHECK:       tandem.launch main body
  // CHECK:         tandem.store_plane {{.+}}#tandem.float<bf16>
  // CHECK:         tandem.store_plane {{.+}}#tandem.scaled
  %old = tandem.load_plane %p[0] : !plain -> i16
  %one = arith.constant 1 : i16
  %new = arith.addi %old, %one : i16
  tandem.store_plane %new, %p[0] : i16, !plain
  %wide = arith.extui %old : i16 to i32
  %most = tandem.reduce max %wide over tensor : i32
  %rest = arith.subi %most, %wide : i32
  %code = arith.trunci %rest : i32 to i8
  tandem.store_plane %code, %o[0] : i8, !codes
  tandem.yield
}

// -----

// So it is if another output, which needs no reduction, depends on it.

!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">
#q = #tandem.role<output "old">
#o = #tandem.role<output "operand", consumer = linear>

// CHECK-LABEL: tandem.step @beside_old
tandem.kernel @beside_old compute(<f32, f32>) tensors [#p, #q, #o] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain, %q: !plain, %o: !codes):
  // CHECK:       tandem.launch reduction body
  // CHECK-NOT:     tandem.store_plane
  // CHECK:       tandem.launch main body
  // CHECK-COUNT-3: tandem.store_plane
  %old = tandem.load_plane %p[0] : !plain -> i16
  %one = arith.constant 1 : i16
  %new = arith.addi %old, %one : i16
  tandem.store_plane %new, %p[0] : i16, !plain
  tandem.store_plane %old, %q[0] : i16, !plain
  %wide = arith.extui %new : i16 to i32
  %most = tandem.reduce max %wide over tensor : i32
  %rest = arith.subi %most, %wide : i32
  %code = arith.trunci %rest : i32 to i8
  tandem.store_plane %code, %o[0] : i8, !codes
  tandem.yield
}
