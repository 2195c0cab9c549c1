#id = affine_map<(i) -> (i)>

// Cautious Lion (Liang et al. 2024), with decay before the update: elements whose sign is
// not that of the gradient do not move, and the others move farther, by the reciprocal of their share
// in the tensor, which counts as a thousandth at least. sign(+-0) is +-0 and sign(NaN) is NaN.
func.func @lion_cautious(
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
  %lr_wd = arith.mulf %lr, %weight_decay : f64
  %keep = arith.subf %one, %lr_wd : f64
  %w = arith.truncf %keep : f64 to f32
  %unit = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 1.0e-3 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %num_elements_int = arith.index_cast %size : index to i64
  %num_elements = arith.sitofp %num_elements_int : i64 to f32
  %empty = tensor.empty(%size) : tensor<?xf32>
  %update, %agrees, %new_exp_avg = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%empty, %empty, %exp_avg : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %u_out: f32, %a_out: f32, %m: f32):
    %c_old = arith.mulf %b1, %m : f32
    %c_add = arith.mulf %c1, %g : f32
    %c = arith.addf %c_old, %c_add : f32
    %is_signed = arith.cmpf one, %c, %zero : f32
    %unit_sign = math.copysign %unit, %c : f32
    %sign = arith.select %is_signed, %unit_sign, %c : f32
    %product = arith.mulf %sign, %g : f32
    %is_along = arith.cmpf ogt, %product, %zero : f32
    %u = arith.select %is_along, %sign, %zero : f32
    %agree = arith.select %is_along, %unit, %zero : f32
    %m_old = arith.mulf %b2, %m : f32
    %m_add = arith.mulf %c2, %g : f32
    %m_new = arith.addf %m_old, %m_add : f32
    linalg.yield %u, %agree, %m_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  %agree_sum = linalg.reduce { arith.addf } ins(%agrees : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %agree_total = tensor.extract %agree_sum[] : tensor<f32>
  %mean = arith.divf %agree_total, %num_elements : f32
  %is_low = arith.cmpf olt, %mean, %least : f32
  %share = arith.select %is_low, %least, %mean : f32
  %rate = arith.divf %neg_lr, %share : f32
  %rates = tensor.splat %rate[%size] : tensor<?xf32>
  %keeps = tensor.splat %w[%size] : tensor<?xf32>
  %delta = arith.mulf %rates, %update : tensor<?xf32>
  %shrunk = arith.mulf %keeps, %param : tensor<?xf32>
  %new_param = arith.addf %shrunk, %delta : tensor<?xf32>
  return %new_param, %new_exp_avg : tensor<?xf32>, tensor<?xf32>
}
