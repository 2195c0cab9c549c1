// RUN: tandem-opt %s -split-input-file -verify-diagnostics

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

tandem.step @launch_c1_tensors compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op has 1 tensor roles, but its body has only 0 arguments}}
  tandem.launch main body {
    tandem.yield
  }
}

// -----

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

tandem.step @launch_c1_uniforms compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op body arguments after the tensors must be what the prologue yields}}
  tandem.launch main body {
  ^bb0(%p: !f32, %lr: f32):
    tandem.yield
  }
}

// -----

tandem.step @launch_c2 compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op width must be a power of two up to 256, got 6}}
  tandem.launch main width(6) body {
    tandem.yield
  }
}

// -----

tandem.step @launch_c3_partial compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1.0 : f32
    // expected-error @+1 {{'tandem.partial' op names reduction 1 of a step with reductions(1)}}
    tandem.partial sum %0[1] over tensor : f32
    tandem.yield
  }
}

// -----

tandem.step @launch_c3_total compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    // expected-error @+1 {{'tandem.reduction_result' op names reduction 0 of a step with reductions(0)}}
    %0 = tandem.reduction_result[0] : f32
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @launch_c3_load_total compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !m):
    // expected-error @+1 {{'tandem.load_reduction_result' op names reduction 1 of a step with reductions(1)}}
    %0 = tandem.load_reduction_result[1] over row : f32
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @launch_c4_main compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op a main launch does not run per row; a main launch runs per element, a reduction per element, row or column, an epilogue per row, column, block or tensor}}
  tandem.launch main per(row) body {
  ^bb0(%p: !m):
    tandem.yield
  }
}

// -----

tandem.step @launch_c4_epilogue compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
  // expected-error @+1 {{'tandem.launch' op an epilogue does not run per element}}
  tandem.launch epilogue body {
    tandem.yield
  }
}

// -----

tandem.step @launch_c4_flat compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op runs per row in a step of flat tensors; give a tensor two dimensions}}
  tandem.launch reduction per(row) body {
    tandem.yield
  }
  tandem.launch main body {
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @launch_c5_first compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op is fused with the launch before it, but only launches over a matrix's elements are; leave out 'fused_with_previous'}}
  tandem.launch main fused_with_previous body {
  ^bb0(%p: !m):
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @launch_c5_rows compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction per(row) body {
  ^bb0(%p: !m):
    tandem.yield
  }
  // expected-error @+1 {{only launches over a matrix's elements are; leave out 'fused_with_previous'}}
  tandem.launch main fused_with_previous body {
  ^bb0(%p: !m):
    tandem.yield
  }
}

// -----

tandem.step @launch_c6_reduce compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1.0 : f32
    // expected-error @+1 {{'tandem.reduce' op over a tensor exists only after a launch; in a tandem.launch it is a tandem.partial}}
    %1 = tandem.reduce sum %0 over tensor : f32
    tandem.yield
  }
}

// -----

tandem.step @launch_c6_group compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
    %0 = arith.constant 1 : i32
    // expected-error @+1 {{'tandem.reduce' op a group of 4 is smaller than the kernel's width of 8; widen to at most the group}}
    %1 = tandem.reduce max %0 group(4) : i32
    tandem.yield
  }
}

// -----

// expected-error @+1 {{'tandem.launch' op expects parent op 'tandem.step'}}
tandem.launch main body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.step' op has 0 main launches; a step has one}}
tandem.step @step_c1_none compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
}

// -----

// expected-error @+1 {{'tandem.step' op has 2 main launches; a step has one}}
tandem.step @step_c1_two compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
  tandem.launch main body {
    tandem.yield
  }
}

// -----

tandem.step @step_c1_late compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
  // expected-error @+1 {{'tandem.launch' op a reduction comes too late; a step has its reductions first, then the main launch, then the epilogues}}
  tandem.launch reduction body {
    tandem.yield
  }
}

// -----

tandem.step @step_c1_other compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'arith.constant' op does not belong in a step, which holds tandem.launch}}
  %0 = arith.constant 1.0 : f32
}

// -----

// expected-error @+1 {{'tandem.step' op has 1 scalar roles, but its prologue has 0 arguments}}
tandem.step @step_c2 compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
}

// -----

// expected-error @+1 {{'tandem.step' op a uniform value must be f32, bf16, f16, f8E4M3FN, f8E5M2 or i32, got 'f64'}}
tandem.step @step_c3 compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f64):
  tandem.yield %lr : f64
} launches {
  tandem.launch main body {
  ^bb0(%lr: f64):
    tandem.yield
  }
}

// -----

// expected-error @+1 {{'tandem.step' op its prologue must end with tandem.yield}}
tandem.step @prologue compute(<f32, f32>) tensors [] scalars [] prologue {
  %0 = arith.constant 1.0 : f32
} launches {
  tandem.launch main body {
    tandem.yield
  }
}

// -----

tandem.step @body compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op its body must end with tandem.yield}}
  tandem.launch main body {
    llvm.unreachable
  }
}

// -----

// expected-error @+1 {{'tandem.step' op has reductions(2147483647), and a kernel has at most 4096}}
tandem.step @step_c4_many compute(<f32, f32>) reductions(2147483647) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
}

// -----

// expected-error @+1 {{'tandem.step' op has reductions(-1), and a kernel has at most 4096}}
tandem.step @step_c4_negative compute(<f32, f32>) reductions(-1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
}

// -----

tandem.step @step_c4_unknown compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    // expected-error @+1 {{'tandem.reduction_result' op reads reduction 0, which no earlier launch makes}}
    %0 = tandem.reduction_result[0] : f32
    tandem.partial sum %0[0] over tensor : f32
    tandem.yield
  }
}

// -----

tandem.step @step_c4_twice compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1.0 : f32
    tandem.partial sum %0[0] over tensor : f32
    // expected-error @+1 {{'tandem.partial' op makes reduction 0, as another operation does}}
    tandem.partial sum %0[0] over tensor : f32
    tandem.yield
  }
}

// -----

// expected-error @+1 {{'tandem.step' op has reductions(1), but no launch makes reduction 0}}
tandem.step @step_c4_never compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    tandem.yield
  }
}

// -----

tandem.step @partial_c1_max compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1.0 : f32
    // expected-error @+1 {{'tandem.partial' op compares i32 within a group, a block or a launch, got 'f32'; -tandem-split-phases makes i32 of f32}}
    tandem.partial max %0[0] over tensor : f32
    tandem.yield
  }
}

// -----

tandem.step @partial_c1_sum compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1 : i32
    // expected-error @+1 {{'tandem.partial' op sums up f32, got 'i32'}}
    tandem.partial sum %0[0] over tensor : i32
    tandem.yield
  }
}

// -----

tandem.step @partial_c2 compute(<f32, f32>) reductions(1) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
    %0 = arith.constant 1 : i32
    // expected-error @+1 {{'tandem.partial' op ends with the launch; a group's reduction is a tandem.reduce}}
    tandem.partial max %0[0] over group : i32
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @partial_c3 compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !m):
    %0 = arith.constant 1.0 : f32
    // expected-error @+1 {{'tandem.partial' op over tensor of a matrix's elements; reduce its rows first}}
    tandem.partial sum %0[0] over tensor : f32
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @partial_c3_of_rows compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction per(row) body {
  ^bb0(%p: !m):
    %0 = arith.constant 1.0 : f32
    // expected-error @+1 {{'tandem.partial' op over row outside of a matrix's elements}}
    tandem.partial sum %0[0] over row : f32
    tandem.yield
  }
  tandem.launch main body {
  ^bb0(%p: !m):
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @load_total_c1 compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !m):
    // expected-error @+1 {{'tandem.load_reduction_result' op reads a row's, column's or block's result; that of a tensor is a tandem.reduction_result}}
    %0 = tandem.load_reduction_result[0] over tensor : f32
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
tandem.step @load_total_c2 compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction per(row) body {
  ^bb0(%p: !m):
    // expected-error @+1 {{'tandem.load_reduction_result' op over column in a launch per row}}
    %0 = tandem.load_reduction_result[0] over column : f32
    tandem.yield
  }
  tandem.launch main body {
  ^bb0(%p: !m):
    tandem.yield
  }
}
