#id = affine_map<(i) -> (i)>

// Adafactor (Shazeer and Stern 2018, Algorithm 5) for vectors and scalars, as
// in torch.optim.Adafactor: the second moment is kept for each element. `rho` and
// `mixing` are as in adafactor.
func.func @adafactor_vector(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %variance: tensor<?xf32> {tandem.role = #tandem.role<state "variance", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 0.01>},
    %rho: f64 {tandem.role = #tandem.role<hyper "rho", domain = nonneg, default = 0.01>},
    %mixing: f64 {tandem.role = #tandem.role<hyper "mixing", domain = nonneg, default = 1.0>},
    %eps1: f64 {tandem.role = #tandem.role<hyper "eps1", domain = nonneg, default = 1.1920928955078125e-07>},
    %eps2: f64 {tandem.role = #tandem.role<hyper "eps2", domain = nonneg, default = 1.0e-3>},
    %d: f64 {tandem.role = #tandem.role<hyper "d", domain = nonneg, default = 1.0>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omm = arith.subf %one, %mixing : f64
  %least = arith.mulf %eps1, %eps1 : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %loss : f64
  %nrho = arith.negf %rho : f64
  %beta = arith.truncf %omm : f64 to f32
  %mix = arith.truncf %mixing : f64 to f32
  %min_var = arith.truncf %least : f64 to f32
  %min_rms = arith.truncf %eps2 : f64 to f32
  %threshold = arith.truncf %d : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_rho = arith.truncf %nrho : f64 to f32
  %unit = arith.constant 1.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %num_elements_int = arith.index_cast %size : index to i64
  %num_elements = arith.sitofp %num_elements_int : i64 to f32
  %empty = tensor.empty(%size) : tensor<?xf32>
  %update, %new_variance = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%empty, %variance : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %out: f32, %v: f32):
    %v_old = arith.mulf %beta, %v : f32
    %gg = arith.mulf %g, %g : f32
    %v_add = arith.mulf %mix, %gg : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %is_tiny = arith.cmpf olt, %v_new, %min_var : f32
    %v_least = arith.select %is_tiny, %min_var, %v_new : f32
    %root = math.sqrt %v_least : f32
    %u = arith.divf %g, %root : f32
    linalg.yield %u, %v_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)

  // The step is relative to the weights' RMS, and a large update is clipped.
  %param_sq = arith.mulf %param, %param : tensor<?xf32>
  %update_sq = arith.mulf %update, %update : tensor<?xf32>
  %param_sum = linalg.reduce { arith.addf } ins(%param_sq : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %update_sum = linalg.reduce { arith.addf } ins(%update_sq : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %param_total = tensor.extract %param_sum[] : tensor<f32>
  %update_total = tensor.extract %update_sum[] : tensor<f32>
  %param_ms = arith.divf %param_total, %num_elements : f32
  %update_ms = arith.divf %update_total, %num_elements : f32
  %param_rms = math.sqrt %param_ms : f32
  %update_rms = math.sqrt %update_ms : f32
  %is_low = arith.cmpf olt, %param_rms, %min_rms : f32
  %scale = arith.select %is_low, %min_rms, %param_rms : f32
  %excess = arith.divf %update_rms, %threshold : f32
  %is_within = arith.cmpf olt, %excess, %unit : f32
  %clip = arith.select %is_within, %unit, %excess : f32
  %step = arith.mulf %neg_rho, %scale : f32
  %rate = arith.divf %step, %clip : f32
  %rates = tensor.splat %rate[%size] : tensor<?xf32>
  %keeps = tensor.splat %keep[%size] : tensor<?xf32>
  %delta = arith.mulf %rates, %update : tensor<?xf32>
  %decayed = arith.mulf %keeps, %param : tensor<?xf32>
  %new_param = arith.addf %decayed, %delta : tensor<?xf32>
  return %new_param, %new_variance : tensor<?xf32>, tensor<?xf32>
}
