#id = affine_map<(i) -> (i)>

// Lion (Chen et al. 2023): the sign of an interpolated momentum. sign(+-0) is +-0
// and sign(NaN) is NaN.
func.func @lion(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-4>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.99>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %nlr = arith.negf %lr : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %unit = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %new_param, %new_exp_avg = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %exp_avg : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %m: f32):
    %c_old = arith.mulf %b1, %m : f32
    %c_add = arith.mulf %c1, %g : f32
    %c = arith.addf %c_old, %c_add : f32
    %is_signed = arith.cmpf one, %c, %zero : f32
    %unit_sign = math.copysign %unit, %c : f32
    %sign = arith.select %is_signed, %unit_sign, %c : f32
    %decay = arith.mulf %wd, %th : f32
    %update = arith.addf %sign, %decay : f32
    %delta = arith.mulf %neg_lr, %update : f32
    %th_new = arith.addf %th, %delta : f32
    %m_old = arith.mulf %b2, %m : f32
    %m_add = arith.mulf %c2, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    linalg.yield %th_new, %m_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg : tensor<?xf32>, tensor<?xf32>
}
