// Initial texts of tandem-fuzz: kernels at several stages.

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#v = #tandem.role<state "v">
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
  tandem.store_plane %x, %v[0] : f32, !f32
  tandem.store_plane %z, %p[0] : f32, !f32
  tandem.yield
}

// -----

!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">
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

!history = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 4>>
#p = #tandem.role<param "p">
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
  %code = tandem.load_plane %p[0] : !scaled -> i8
  %wide = arith.extui %code : i8 to i32
  tandem.store_plane %wide, %p[1] : i32, !scaled
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!codes = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = 32, scale = f16>>
!mx = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64, scale = f8E8M0FNU, recipe = pow2>>
!stochastic = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, group = 32, scale = f32>>
!coded = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.root>>
!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.softsign, group = tensor, scale = f32, recipe = pow2, history = 8, margin = 1>>
!given = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f32, recipe = given>>
!residual = !tandem.stored<tensor<?xf32>, #tandem.residual<bf16, i16>>
tandem.kernel @codes compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !codes):
  %0 = tandem.load %p : !codes -> f32
  tandem.store %0, %p : f32, !codes
  tandem.yield
}
tandem.kernel @mx compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !mx):
  %0 = tandem.load %p : !mx -> f32
  tandem.store %0, %p : f32, !mx
  tandem.yield
}
tandem.kernel @delayed compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !delayed):
  %0 = tandem.load %p : !delayed -> f32
  tandem.store %0, %p : f32, !delayed
  tandem.yield
}
tandem.kernel @given compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !given):
  %0 = tandem.load %p : !given -> f32
  tandem.store %0, %p : f32, !given
  tandem.saturation %p : !given
  tandem.yield
}
tandem.kernel @residual compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !residual):
  %0 = tandem.load %p : !residual -> f32
  tandem.store %0, %p : f32, !residual
  tandem.yield
}
tandem.kernel @stochastic compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !stochastic):
  %0 = tandem.load %p : !stochastic -> f32
  tandem.store %0, %p : f32, !stochastic
  tandem.yield
}
tandem.kernel @coded compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !coded):
  %0 = tandem.load %p : !coded -> f32
  tandem.store %0, %p : f32, !coded
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#b = #tandem.role<hyper "b">
#t = #tandem.role<step "t">
#c = #tandem.role<hyper "c">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!master = !tandem.stored<tensor<?xf32>, #tandem.master<bf16>>
tandem.step @scale compute(<f32, f32>) tensors [#p, #g] scalars [#b, #t, #c] prologue {
^bb0(%b: f64, %t: i64, %c: f64):
  %0 = arith.truncf %c : f64 to f32
  %1 = math.fpowi %b, %t : f64, i64
  %2 = arith.truncf %1 : f64 to f32
  tandem.yield %0, %2 : f32, f32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !master, %g: !bf16, %b: f32, %c: f32):
    %0 = tandem.load_plane %p[1] : !master -> vector<8xf32>
    %1 = tandem.load_plane %g[0] : !bf16 -> vector<8xi16>
    %2 = vector.broadcast %b : f32 to vector<8xf32>
    %3 = arith.mulf %0, %2 : vector<8xf32>
    tandem.store_plane %1, %p[0] : vector<8xi16>, !master
    tandem.store_plane %3, %p[1] : vector<8xf32>, !master
    tandem.yield
  }
}
tandem.step @random compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> i32
    %1 = arith.trunci %0 : i32 to i16
    tandem.store_plane %1, %p[0] : i16, !bf16
    tandem.yield
  }
}
tandem.step @metric compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%p: !bf16):
    %0 = tandem.load_plane %p[0] : !bf16 -> vector<2xi16>
    %1 = arith.uitofp %0 : vector<2xi16> to vector<2xf64>
    tandem.metric %1[0] : vector<2xf64>
    tandem.yield
  }
}
tandem.step @flag compute(<f32, f32>) tensors [#g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%g: !bf16):
    %0 = tandem.load_plane %g[0] : !bf16 -> vector<2xi16>
    %1 = arith.constant dense<7> : vector<2xi16>
    %2 = arith.cmpi sgt, %0, %1 : vector<2xi16>
    tandem.set_flag %2[3] : vector<2xi1>
    tandem.yield
  }
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
tandem.step @sums compute(<f32, f32>) reductions(2) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !m):
    %x = tandem.load_plane %p[0] : !m -> vector<4xf32>
    %bits = arith.bitcast %x : vector<4xf32> to vector<4xi32>
    tandem.partial sum %x[0] over row : vector<4xf32>
    tandem.partial max %bits[1] over column : vector<4xi32>
    tandem.yield
  }
}
!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>
tandem.step @blocks compute(<f32, f32>) reductions(1) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(8) body {
  ^bb0(%p: !b):
    %x = tandem.load_plane %p[0] : !b -> vector<8xi8>
    %y = arith.extui %x : vector<8xi8> to vector<8xi32>
    tandem.partial max %y[0] over block : vector<8xi32>
    tandem.yield
  }
  tandem.launch main width(8) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : i32
    %1 = arith.trunci %0 : i32 to i8
    %2 = vector.broadcast %1 : i8 to vector<8xi8>
    tandem.store_plane %2, %p[0] : vector<8xi8>, !b
    tandem.yield
  }
  tandem.launch epilogue per(block) width(8) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : vector<8xi32>
    tandem.store_plane %0, %p[1] : vector<8xi32>, !b
    tandem.yield
  }
}

// -----

// This kernel computes in f16, in which the library only stores.
!half = !tandem.stored<tensor<?xf32>, #tandem.float<f16>>
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<f16 x 2>>
!kahan = !tandem.stored<tensor<?xf32>, #tandem.kahan<f16>>
#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#v = #tandem.role<state "v", moment = second, domain = nonneg>
#b = #tandem.role<hyper "b", domain = unit>
#e = #tandem.role<hyper "e", domain = epsilon>
tandem.kernel @half compute(<component, f16>) tensors [#p, #g, #v] scalars [#b, #e] prologue {
^bb0(%b: f64, %e: f64):
  %one = arith.constant 1.0 : f64
  %rest = arith.subf %one, %b : f64
  %0 = arith.truncf %b : f64 to f32
  %1 = arith.truncf %rest : f64 to f32
  %2 = arith.truncf %e : f64 to f32
  tandem.yield %0, %1, %2 : f32, f32, f32
} body {
^bb0(%p: !kahan, %g: !half, %v: !pair, %b: f32, %rest: f32, %e: f32):
  %th = tandem.load %p : !kahan -> f32
  %gr = tandem.load %g : !half -> f32
  %old = tandem.load %v : !pair -> f32
  %square = arith.mulf %gr, %gr : f32
  %add = arith.mulf %rest, %square : f32
  %new = tandem.ema %old by %b plus %add : f32
  %root = math.sqrt %new : f32
  %divisor = arith.addf %root, %e : f32
  %ratio = arith.divf %gr, %divisor : f32
  %sum = tandem.accumulate %th, %ratio : f32
  tandem.store %sum, %p : f32, !kahan
  tandem.store %new, %v : f32, !pair
  tandem.yield
}
tandem.kernel @draw compute(<f32, f32>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f16, stochastic>>, %g: !half):
  %th = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f16, stochastic>> -> f32
  %gr = tandem.load %g : !half -> f32
  %sum = arith.addf %th, %gr : f32
  tandem.store %sum, %p : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f16, stochastic>>
  tandem.yield
}
