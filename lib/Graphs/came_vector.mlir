#id = affine_map<(i) -> (i)>

// CAME (Luo et al. 2023) for vectors and scalars, as in the authors' code: the second moment is kept
// for each element, and there is no instability.
func.func @came_vector(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 2.0e-4>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %eps1: f64 {tandem.role = #tandem.role<hyper "eps1", domain = nonneg, default = 1.0e-30>},
    %clip_threshold: f64 {tandem.role = #tandem.role<hyper "clip_threshold", domain = nonneg, default = 1.0>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %nlr = arith.negf %lr : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %loss : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %least_sq = arith.truncf %eps1 : f64 to f32
  %threshold = arith.truncf %clip_threshold : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %unit = arith.constant 1.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %num_elements_int = arith.index_cast %size : index to i64
  %num_elements = arith.sitofp %num_elements_int : i64 to f32
  %empty = tensor.empty(%size) : tensor<?xf32>
  %update, %new_exp_avg_sq = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%empty, %exp_avg_sq : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %out: f32, %v: f32):
    %v_old = arith.mulf %b2, %v : f32
    %gg = arith.mulf %g, %g : f32
    %raised = arith.addf %gg, %least_sq : f32
    %v_add = arith.mulf %c2, %raised : f32
    %v_new = arith.addf %v_old, %v_add : f32
    %root = math.sqrt %v_new : f32
    %u = arith.divf %g, %root : f32
    linalg.yield %u, %v_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)

  // A large update is clipped.
  %update_sq = arith.mulf %update, %update : tensor<?xf32>
  %update_sum = linalg.reduce { arith.addf } ins(%update_sq : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %update_total = tensor.extract %update_sum[] : tensor<f32>
  %update_ms = arith.divf %update_total, %num_elements : f32
  %update_rms = math.sqrt %update_ms : f32
  %excess = arith.divf %update_rms, %threshold : f32
  %is_within = arith.cmpf olt, %excess, %unit : f32
  %clip = arith.select %is_within, %unit, %excess : f32
  %part = arith.divf %unit, %clip : f32
  %new_param, %new_exp_avg = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%update : tensor<?xf32>)
      outs(%param, %exp_avg : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%long: f32, %th: f32, %m: f32):
    %u = arith.mulf %part, %long : f32
    %old = arith.mulf %b1, %m : f32
    %add = arith.mulf %c1, %u : f32
    %m_new = arith.addf %old, %add : f32
    %delta = arith.mulf %neg_lr, %m_new : f32
    %decayed = arith.mulf %keep, %th : f32
    %th_new = arith.addf %decayed, %delta : f32
    linalg.yield %th_new, %m_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_exp_avg, %new_exp_avg_sq : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
