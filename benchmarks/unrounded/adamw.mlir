#id = affine_map<(i) -> (i)>

// The operations of AdamW under collage-plus, spelled out in f32: the same
// sequence of mul, fma, grow and the rest, but nothing is rounded to bf16 until
// the stores. Its time bounds from below what collage-plus can take.
func.func @unrounded(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %param_lo: tensor<?xf32> {tandem.role = #tandem.role<state "param_lo">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second>},
    %exp_avg_sq_lo: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq_lo", moment = second>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-3>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %beta2_hi: f64 {tandem.role = #tandem.role<hyper "beta2_hi", default = 1.0>},
    %eps: f64 {tandem.role = #tandem.role<hyper "eps", domain = epsilon, default = 1.0e-8>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.01>},
    %step: i64 {tandem.role = #tandem.role<step "step">})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %p1 = math.fpowi %beta1, %step : f64, i64
  %p2 = math.fpowi %beta2, %step : f64, i64
  %d1 = arith.subf %one, %p1 : f64
  %d2 = arith.subf %one, %p2 : f64
  %i1 = arith.divf %one, %d1 : f64
  %i2 = arith.divf %one, %d2 : f64
  %nlr = arith.negf %lr : f64
  %beta2_lo = arith.subf %beta2, %beta2_hi : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2_hi : f64 to f32
  %db2 = arith.truncf %beta2_lo : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %r1 = arith.truncf %i1 : f64 to f32
  %r2 = arith.truncf %i2 : f64 to f32
  %e = arith.truncf %eps : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %new:5 = linalg.generic {
      indexing_maps = [#id, #id, #id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %param_lo, %exp_avg, %exp_avg_sq, %exp_avg_sq_lo
           : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %dth: f32, %m: f32, %v: f32, %dv: f32):
    %m_old = arith.mulf %b1, %m : f32
    %m_add = arith.mulf %c1, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    %gg = arith.mulf %g, %g : f32
    %a = arith.mulf %c2, %gg : f32

    // (x, e) = mul((b2, db2), (v, dv))
    %x0 = arith.mulf %b2, %v : f32
    %nx0 = arith.negf %x0 : f32
    %e0 = math.fma %b2, %v, %nx0 : f32
    %cross0 = arith.mulf %b2, %dv : f32
    %cross1 = arith.mulf %db2, %v : f32
    %cross = arith.addf %cross0, %cross1 : f32
    %e1 = arith.addf %e0, %cross : f32
    %x1 = arith.addf %x0, %e1 : f32
    %x1r = arith.subf %x1, %x0 : f32
    %e2 = arith.subf %e1, %x1r : f32

    // (v', dv') = grow((x, e), a)
    %vu = arith.addf %x1, %a : f32
    %vur = arith.subf %vu, %x1 : f32
    %ve = arith.subf %a, %vur : f32
    %vs = arith.addf %e2, %ve : f32
    %v_new = arith.addf %vu, %vs : f32
    %vnr = arith.subf %v_new, %vu : f32
    %dv_new = arith.subf %vs, %vnr : f32

    %m_hat = arith.mulf %m_new, %r1 : f32
    %v_hat = arith.mulf %v_new, %r2 : f32
    %root = math.sqrt %v_hat : f32
    %denom = arith.addf %root, %e : f32
    %ratio = arith.divf %m_hat, %denom : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %ratio, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32

    // (th', dth') = grow((th, dth), delta)
    %tu = arith.addf %th, %delta : f32
    %tur = arith.subf %tu, %th : f32
    %te = arith.subf %delta, %tur : f32
    %ts = arith.addf %dth, %te : f32
    %th_new = arith.addf %tu, %ts : f32
    %tnr = arith.subf %th_new, %tu : f32
    %dth_new = arith.subf %ts, %tnr : f32
    linalg.yield %th_new, %dth_new, %m_new, %v_new, %dv_new : f32, f32, f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new#0, %new#1, %new#2, %new#3, %new#4
      : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
