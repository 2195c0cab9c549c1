#line = affine_map<(i) -> (i)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>

// CAME (Luo et al. 2023) for matrices, as in the authors' code: the second moment, and
// the instability of the update, which is its squared distance from the momentum, are kept as means
// over rows and columns.
func.func @came(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %exp_avg: tensor<?x?xf32> {tandem.role = #tandem.role<state "exp_avg", moment = first>},
    %exp_avg_sq_row: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq_row", moment = second, domain = nonneg, per = row>},
    %exp_avg_sq_col: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_sq_col", moment = second, domain = nonneg, per = column>},
    %exp_avg_res_row: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_res_row", moment = second, domain = nonneg, per = row>},
    %exp_avg_res_col: tensor<?xf32> {tandem.role = #tandem.role<state "exp_avg_res_col", moment = second, domain = nonneg, per = column>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 2.0e-4>},
    %beta1: f64 {tandem.role = #tandem.role<hyper "beta1", domain = unit, default = 0.9>},
    %beta2: f64 {tandem.role = #tandem.role<hyper "beta2", domain = unit, default = 0.999>},
    %beta3: f64 {tandem.role = #tandem.role<hyper "beta3", domain = unit, default = 0.9999>},
    %eps1: f64 {tandem.role = #tandem.role<hyper "eps1", domain = nonneg, default = 1.0e-30>},
    %eps2: f64 {tandem.role = #tandem.role<hyper "eps2", domain = nonneg, default = 1.0e-16>},
    %clip_threshold: f64 {tandem.role = #tandem.role<hyper "clip_threshold", domain = nonneg, default = 1.0>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omb1 = arith.subf %one, %beta1 : f64
  %omb2 = arith.subf %one, %beta2 : f64
  %omb3 = arith.subf %one, %beta3 : f64
  %nlr = arith.negf %lr : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %loss : f64
  %b1 = arith.truncf %beta1 : f64 to f32
  %c1 = arith.truncf %omb1 : f64 to f32
  %b2 = arith.truncf %beta2 : f64 to f32
  %c2 = arith.truncf %omb2 : f64 to f32
  %b3 = arith.truncf %beta3 : f64 to f32
  %c3 = arith.truncf %omb3 : f64 to f32
  %least_sq = arith.truncf %eps1 : f64 to f32
  %least_res = arith.truncf %eps2 : f64 to f32
  %threshold = arith.truncf %clip_threshold : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %unit = arith.constant 1.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1_index = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1_index : tensor<?x?xf32>
  %num_rows_int = arith.index_cast %rows : index to i64
  %num_columns_int = arith.index_cast %columns : index to i64
  %num_rows = arith.sitofp %num_rows_int : i64 to f32
  %num_columns = arith.sitofp %num_columns_int : i64 to f32
  %num_elements = arith.mulf %num_rows, %num_columns : f32
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_column = tensor.empty(%columns) : tensor<?xf32>
  %by_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %row_none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %col_none = linalg.fill ins(%zero : f32) outs(%by_column : tensor<?xf32>) -> tensor<?xf32>

  // Divide the gradient by the root of the second moment that its means define.
  %grad_sq = arith.mulf %grad, %grad : tensor<?x?xf32>
  %sq_row_sum = linalg.reduce { arith.addf } ins(%grad_sq : tensor<?x?xf32>) outs(%row_none : tensor<?xf32>) dimensions = [1]
  %sq_col_sum = linalg.reduce { arith.addf } ins(%grad_sq : tensor<?x?xf32>) outs(%col_none : tensor<?xf32>) dimensions = [0]
  %new_sq_row = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%sq_row_sum : tensor<?xf32>) outs(%exp_avg_sq_row : tensor<?xf32>) {
  ^bb0(%s: f32, %v: f32):
    %mean = arith.divf %s, %num_columns : f32
    %raised = arith.addf %mean, %least_sq : f32
    %old = arith.mulf %b2, %v : f32
    %add = arith.mulf %c2, %raised : f32
    %new = arith.addf %old, %add : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %new_sq_col = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%sq_col_sum : tensor<?xf32>) outs(%exp_avg_sq_col : tensor<?xf32>) {
  ^bb0(%s: f32, %v: f32):
    %mean = arith.divf %s, %num_rows : f32
    %raised = arith.addf %mean, %least_sq : f32
    %old = arith.mulf %b2, %v : f32
    %add = arith.mulf %c2, %raised : f32
    %new = arith.addf %old, %add : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %sq_sum = linalg.reduce { arith.addf } ins(%new_sq_row : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %sq_total = tensor.extract %sq_sum[] : tensor<f32>
  %sq_mean = arith.divf %sq_total, %num_rows : f32
  %sq_row_means = tensor.splat %sq_mean[%rows] : tensor<?xf32>
  %sq_row_part = arith.divf %new_sq_row, %sq_row_means : tensor<?xf32>
  %sq_row_root = math.sqrt %sq_row_part : tensor<?xf32>
  %sq_col_root = math.sqrt %new_sq_col : tensor<?xf32>
  %update = linalg.generic {
      indexing_maps = [#matrix, #row, #column, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad, %sq_row_root, %sq_col_root : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%by_element : tensor<?x?xf32>) {
  ^bb0(%g: f32, %r: f32, %c: f32, %out: f32):
    %root = arith.mulf %r, %c : f32
    %u = arith.divf %g, %root : f32
    linalg.yield %u : f32
  } -> tensor<?x?xf32>

  // A large update is clipped.
  %update_sq = arith.mulf %update, %update : tensor<?x?xf32>
  %update_sum = linalg.reduce { arith.addf } ins(%update_sq : tensor<?x?xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]
  %update_total = tensor.extract %update_sum[] : tensor<f32>
  %update_ms = arith.divf %update_total, %num_elements : f32
  %update_rms = math.sqrt %update_ms : f32
  %excess = arith.divf %update_rms, %threshold : f32
  %is_within = arith.cmpf olt, %excess, %unit : f32
  %clip = arith.select %is_within, %unit, %excess : f32
  %part = arith.divf %unit, %clip : f32
  %new_exp_avg, %instability = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%update : tensor<?x?xf32>)
      outs(%exp_avg, %by_element : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%long: f32, %m: f32, %out: f32):
    %u = arith.mulf %part, %long : f32
    %old = arith.mulf %b1, %m : f32
    %add = arith.mulf %c1, %u : f32
    %m_new = arith.addf %old, %add : f32
    %apart = arith.subf %u, %m_new : f32
    %res = arith.mulf %apart, %apart : f32
    linalg.yield %m_new, %res : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)

  // The momentum is divided by the root of the instability.
  %res_row_sum = linalg.reduce { arith.addf } ins(%instability : tensor<?x?xf32>) outs(%row_none : tensor<?xf32>) dimensions = [1]
  %res_col_sum = linalg.reduce { arith.addf } ins(%instability : tensor<?x?xf32>) outs(%col_none : tensor<?xf32>) dimensions = [0]
  %new_res_row = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%res_row_sum : tensor<?xf32>) outs(%exp_avg_res_row : tensor<?xf32>) {
  ^bb0(%s: f32, %v: f32):
    %mean = arith.divf %s, %num_columns : f32
    %raised = arith.addf %mean, %least_res : f32
    %old = arith.mulf %b3, %v : f32
    %add = arith.mulf %c3, %raised : f32
    %new = arith.addf %old, %add : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %new_res_col = linalg.generic {indexing_maps = [#line, #line], iterator_types = ["parallel"]}
      ins(%res_col_sum : tensor<?xf32>) outs(%exp_avg_res_col : tensor<?xf32>) {
  ^bb0(%s: f32, %v: f32):
    %mean = arith.divf %s, %num_rows : f32
    %raised = arith.addf %mean, %least_res : f32
    %old = arith.mulf %b3, %v : f32
    %add = arith.mulf %c3, %raised : f32
    %new = arith.addf %old, %add : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  %res_sum = linalg.reduce { arith.addf } ins(%new_res_row : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %res_total = tensor.extract %res_sum[] : tensor<f32>
  %res_mean = arith.divf %res_total, %num_rows : f32
  %res_row_means = tensor.splat %res_mean[%rows] : tensor<?xf32>
  %res_row_part = arith.divf %new_res_row, %res_row_means : tensor<?xf32>
  %res_row_root = math.sqrt %res_row_part : tensor<?xf32>
  %res_col_root = math.sqrt %new_res_col : tensor<?xf32>
  %new_param = linalg.generic {
      indexing_maps = [#matrix, #row, #column, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%new_exp_avg, %res_row_root, %res_col_root : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%param : tensor<?x?xf32>) {
  ^bb0(%m: f32, %r: f32, %c: f32, %th: f32):
    %root = arith.mulf %r, %c : f32
    %u = arith.divf %m, %root : f32
    %delta = arith.mulf %neg_lr, %u : f32
    %decayed = arith.mulf %keep, %th : f32
    %th_new = arith.addf %decayed, %delta : f32
    linalg.yield %th_new : f32
  } -> tensor<?x?xf32>
  return %new_param, %new_exp_avg, %new_sq_row, %new_sq_col, %new_res_row, %new_res_col
      : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
