// RUN: tandem-opt %s -tandem-split-phases -split-input-file -verify-diagnostics | FileCheck %s
// RUN: tandem-opt %s -tandem-split-phases -tandem-split-phases -split-input-file -verify-diagnostics | FileCheck %s

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#v = #tandem.role<state "v">

// A norm of the model, a norm of each tensor that depends on it, and the
// update: each phase recomputes the values that it needs.
// CHECK:       tandem.step @norms compute(<f32, f32>) reductions(2) tensors
// CHECK:       tandem.launch reduction body
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored<{{.+}}>, %[[V:[^:]+]]:
// CHECK-NEXT:    %[[X:.+]] = tandem.load_plane %[[P]][0]
// CHECK-NEXT:    %[[XX:.+]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK-NEXT:    tandem.partial sum %[[XX]][0] over model : f32
// CHECK-NEXT:    tandem.yield

// CHECK:       tandem.launch reduction body
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored<{{.+}}>, %[[V:[^:]+]]:
// CHECK-NEXT:    %[[X:.+]] = tandem.load_plane %[[P]][0]
// CHECK-NEXT:    %[[NORM:.+]] = tandem.reduction_result[0] : f32
// CHECK-NEXT:    %[[Y:.+]] = arith.divf %[[X]], %[[NORM]] : f32
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[Y]] : f32 to i32
// CHECK-NEXT:    tandem.partial max %[[BITS]][1] over tensor : i32
// CHECK-NEXT:    tandem.yield

// CHECK:       tandem.launch main body
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored<{{.+}}>, %[[V:[^:]+]]:
// CHECK-NEXT:    %[[X:.+]] = tandem.load_plane %[[P]][0]
// CHECK-NEXT:    %[[NORM:.+]] = tandem.reduction_result[0] : f32
// CHECK-NEXT:    %[[Y:.+]] = arith.divf %[[X]], %[[NORM]] : f32
// CHECK-NEXT:    %[[AMAX:.+]] = tandem.reduction_result[1] : i32
// CHECK-NEXT:    %[[SCALE:.+]] = arith.bitcast %[[AMAX]] : i32 to f32
// CHECK-NEXT:    %[[Z:.+]] = arith.mulf %[[Y]], %[[SCALE]] : f32
// CHECK-NEXT:    tandem.store_plane %[[X]], %[[V]][0]
// CHECK-NEXT:    tandem.store_plane %[[Z]], %[[P]][0]
// CHECK-NEXT:    tandem.yield
tandem.kernel @norms compute(<f32, f32>) tensors [#p, #v] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32, %v: !f32):
  %x = tandem.load_plane %p[0] : !f32 -> f32
  %xx = arith.mulf %x, %x : f32
  %norm = tandem.reduce sum %xx over model : f32
  %y = arith.divf %x, %norm : f32
  %bits = arith.bitcast %y : f32 to i32
  %amax = tandem.reduce max %bits over tensor : i32
  %scale = arith.bitcast %amax : i32 to f32
  %z = arith.mulf %y, %scale : f32
  // A state without reductions is also written last: earlier phases read it.
  tandem.store_plane %x, %v[0] : f32, !f32
  tandem.store_plane %z, %p[0] : f32, !f32
  tandem.yield
}

// -----

!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">

// The old scale is read until the last phase ends. A reduction that only the
// epilogue uses is computed in the last phase itself.
// CHECK-NOT:   tandem.launch reduction
// CHECK:       tandem.step @delayed compute(<f32, f32>) reductions(1) tensors
// CHECK:       tandem.launch main body
// CHECK:         %[[CODE:.+]] = tandem.load_plane %{{.+}}[0]
// CHECK:         %[[SCALE:.+]] = tandem.load_plane %{{.+}}[1]
// CHECK:         tandem.partial max %{{.+}}[0] over tensor : i32
// CHECK:         tandem.store_plane %{{.+}}, %{{.+}}[0] : i8
// CHECK-NOT:     tandem.store_plane
// CHECK:       tandem.launch epilogue per(tensor) body
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored
// CHECK-NEXT:    %[[AMAX:.+]] = tandem.reduction_result[0] : i32
// CHECK-NEXT:    tandem.store_plane %[[AMAX]], %[[P]][1] : i32
// CHECK-NEXT:    tandem.yield
tandem.kernel @delayed compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !scaled):
  %code = tandem.load_plane %p[0] : !scaled -> i8
  %scale = tandem.load_plane %p[1] : !scaled -> i32
  %wide = arith.extui %code : i8 to i32
  %sum = arith.addi %wide, %scale : i32
  %amax = tandem.reduce max %sum over tensor : i32
  tandem.store_plane %code, %p[0] : i8, !scaled
  tandem.store_plane %amax, %p[1] : i32, !scaled
  tandem.yield
}

// -----

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

// Numbers are compared as integers in the same order, with NaN last.
// CHECK:       tandem.step @largest compute(<f32, f32>) reductions(1) tensors
// CHECK:       tandem.launch reduction body
// CHECK:         %[[X:.+]] = tandem.load_plane
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[X]] : f32 to i32
// CHECK:         %[[NEGATIVE:.+]] = arith.cmpi slt, %[[BITS]], %{{.+}} : i32
// CHECK:         %[[FLIPS:.+]] = arith.select %[[NEGATIVE]], %{{.+}}, %{{.+}} : i32
// CHECK:         %[[NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]] : f32
// CHECK:         %[[ORDER:.+]] = arith.xori %[[BITS]], %[[FLIPS]] : i32
// CHECK:         %[[KEY:.+]] = arith.select %[[NAN]], %{{.+}}, %[[ORDER]] : i32
// CHECK:         tandem.partial max %[[KEY]][0] over tensor : i32
// CHECK:       tandem.launch main body
// CHECK:         %[[TOTAL:.+]] = tandem.reduction_result[0] : i32
// CHECK-NOT:     : f32{{$}}
// CHECK:         tandem.store_plane %{{.+}}, %{{.+}}[0] : f32
tandem.kernel @largest compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f32):
  %x = tandem.load_plane %p[0] : !f32 -> f32
  %largest = tandem.reduce max %x over tensor : f32
  tandem.store_plane %largest, %p[0] : f32, !f32
  tandem.yield
}

// -----

!history = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 4>>
#p = #tandem.role<param "p">

// A history is written in the epilogue: no phase waits for its reduction.
// CHECK-NOT:   tandem.launch reduction
// CHECK:       tandem.step @history compute(<f32, f32>) reductions(1) tensors
// CHECK:       tandem.launch main body
// CHECK-NOT:     tandem.load_history
// CHECK:         tandem.partial max %{{.+}}[0] over tensor : i32
// CHECK-NOT:     tandem.push_history
// CHECK:       tandem.launch epilogue per(tensor) body
// CHECK:       ^bb0(%[[P:.+]]: !tandem.stored
// CHECK-NEXT:    %[[AMAX:.+]] = tandem.reduction_result[0] : i32
// CHECK-NEXT:    %[[REST:.+]] = tandem.load_history %[[P]][3]
// CHECK-NEXT:    %[[MOST:.+]] = arith.maxui %[[AMAX]], %[[REST]] : i32
// CHECK-NEXT:    tandem.store_plane %[[MOST]], %[[P]][2] : i32
// CHECK-NEXT:    tandem.push_history %[[AMAX]], %[[P]][3]
// CHECK-NEXT:    tandem.yield
tandem.kernel @history compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !history):
  %code = tandem.load_plane %p[0] : !history -> i8
  %wide = arith.extui %code : i8 to i32
  %amax = tandem.reduce max %wide over tensor : i32
  %rest = tandem.load_history %p[3] : !history
  %most = arith.maxui %amax, %rest : i32
  tandem.store_plane %code, %p[0] : i8, !history
  tandem.store_plane %most, %p[2] : i32, !history
  tandem.push_history %amax, %p[3] : !history
  tandem.yield
}

// -----

!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">

tandem.kernel @differs compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !scaled):
  // expected-error @+1 {{differs between the elements of a tensor, but an entry that all of them share depends on it}}
  %code = tandem.load_plane %p[0] : !scaled -> i8
  %wide = arith.extui %code : i8 to i32
  tandem.store_plane %wide, %p[1] : i32, !scaled
  tandem.yield
}
