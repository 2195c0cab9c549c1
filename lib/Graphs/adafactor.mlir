#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>

// Adafactor (Shazeer and Stern 2018, Algorithms 4 and 5) for matrices, as
// in torch.optim.Adafactor: the second moment is kept as means over the rows and
// columns of the squared gradient. `rho` is the relative step size
// min(lr, 1/sqrt(t)), `mixing` is 1 - beta2 = t^-0.8.
func.func @adafactor(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %row_var: tensor<?xf32> {tandem.role = #tandem.role<state "row_var", moment = second, domain = nonneg, per = row>},
    %col_var: tensor<?xf32> {tandem.role = #tandem.role<state "col_var", moment = second, domain = nonneg, per = column>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 0.01>},
    %rho: f64 {tandem.role = #tandem.role<hyper "rho", domain = nonneg, default = 0.01>},
    %mixing: f64 {tandem.role = #tandem.role<hyper "mixing", domain = nonneg, default = 1.0>},
    %eps1: f64 {tandem.role = #tandem.role<hyper "eps1", domain = nonneg, default = 1.1920928955078125e-07>},
    %eps2: f64 {tandem.role = #tandem.role<hyper "eps2", domain = nonneg, default = 1.0e-3>},
    %d: f64 {tandem.role = #tandem.role<hyper "d", domain = nonneg, default = 1.0>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>})
    -> (tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %omm = arith.subf %one, %mixing : f64
  %least = arith.mulf %eps1, %eps1 : f64
  %loss = arith.mulf %lr, %weight_decay : f64
  %kept = arith.subf %one, %loss : f64
  %nrho = arith.negf %rho : f64
  %beta = arith.truncf %omm : f64 to f32
  %mix = arith.truncf %mixing : f64 to f32
  %min_mean = arith.truncf %eps1 : f64 to f32
  %min_var = arith.truncf %least : f64 to f32
  %min_rms = arith.truncf %eps2 : f64 to f32
  %threshold = arith.truncf %d : f64 to f32
  %keep = arith.truncf %kept : f64 to f32
  %neg_rho = arith.truncf %nrho : f64 to f32
  %unit = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = tensor.dim %param, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %param, %c1 : tensor<?x?xf32>
  %num_rows_int = arith.index_cast %rows : index to i64
  %num_columns_int = arith.index_cast %columns : index to i64
  %num_rows = arith.sitofp %num_rows_int : i64 to f32
  %num_columns = arith.sitofp %num_columns_int : i64 to f32
  %num_elements = arith.mulf %num_rows, %num_columns : f32
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %by_column = tensor.empty(%columns) : tensor<?xf32>
  %by_element = tensor.empty(%rows, %columns) : tensor<?x?xf32>

  // Compute the means of the squared gradient over each row and column.
  %grad_sq = arith.mulf %grad, %grad : tensor<?x?xf32>
  %row_none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %col_none = linalg.fill ins(%zero : f32) outs(%by_column : tensor<?xf32>) -> tensor<?xf32>
  %row_sum = linalg.reduce { arith.addf } ins(%grad_sq : tensor<?x?xf32>) outs(%row_none : tensor<?xf32>) dimensions = [1]
  %col_sum = linalg.reduce { arith.addf } ins(%grad_sq : tensor<?x?xf32>) outs(%col_none : tensor<?xf32>) dimensions = [0]
  %row_count = tensor.splat %num_columns[%rows] : tensor<?xf32>
  %col_count = tensor.splat %num_rows[%columns] : tensor<?xf32>
  %row_mean = arith.divf %row_sum, %row_count : tensor<?xf32>
  %col_mean = arith.divf %col_sum, %col_count : tensor<?xf32>
  %row_beta = tensor.splat %beta[%rows] : tensor<?xf32>
  %col_beta = tensor.splat %beta[%columns] : tensor<?xf32>
  %row_mix = tensor.splat %mix[%rows] : tensor<?xf32>
  %col_mix = tensor.splat %mix[%columns] : tensor<?xf32>
  %row_old = arith.mulf %row_beta, %row_var : tensor<?xf32>
  %col_old = arith.mulf %col_beta, %col_var : tensor<?xf32>
  %row_add = arith.mulf %row_mix, %row_mean : tensor<?xf32>
  %col_add = arith.mulf %col_mix, %col_mean : tensor<?xf32>
  %new_row_var = arith.addf %row_old, %row_add : tensor<?xf32>
  %new_col_var = arith.addf %col_old, %col_add : tensor<?xf32>

  // Their product, divided by the mean of the rows, approximates the second moment.
  %var_sum = linalg.reduce { arith.addf } ins(%new_row_var : tensor<?xf32>) outs(%none : tensor<f32>) dimensions = [0]
  %var_total = tensor.extract %var_sum[] : tensor<f32>
  %var_mean = arith.divf %var_total, %num_rows : f32
  %is_small = arith.cmpf olt, %var_mean, %min_mean : f32
  %mean = arith.select %is_small, %min_mean, %var_mean : f32
  %row_means = tensor.splat %mean[%rows] : tensor<?xf32>
  %row_factor = arith.divf %new_row_var, %row_means : tensor<?xf32>
  %update = linalg.generic {
      indexing_maps = [#matrix, #row, #column, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%grad, %row_factor, %new_col_var : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%by_element : tensor<?x?xf32>) {
  ^bb0(%g: f32, %r: f32, %c: f32, %out: f32):
    %product = arith.mulf %r, %c : f32
    %is_tiny = arith.cmpf olt, %product, %min_var : f32
    %v = arith.select %is_tiny, %min_var, %product : f32
    %root = math.sqrt %v : f32
    %u = arith.divf %g, %root : f32
    linalg.yield %u : f32
  } -> tensor<?x?xf32>

  // The step is relative to the weights' RMS, and a large update is clipped.
  %param_sq = arith.mulf %param, %param : tensor<?x?xf32>
  %update_sq = arith.mulf %update, %update : tensor<?x?xf32>
  %param_sum = linalg.reduce { arith.addf } ins(%param_sq : tensor<?x?xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]
  %update_sum = linalg.reduce { arith.addf } ins(%update_sq : tensor<?x?xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]
  %param_total = tensor.extract %param_sum[] : tensor<f32>
  %update_total = tensor.extract %update_sum[] : tensor<f32>
  %param_ms = arith.divf %param_total, %num_elements : f32
  %update_ms = arith.divf %update_total, %num_elements : f32
  %param_rms = math.sqrt %param_ms : f32
  %update_rms = math.sqrt %update_ms : f32
  %is_low = arith.cmpf olt, %param_rms, %min_rms : f32
  %size = arith.select %is_low, %min_rms, %param_rms : f32
  %excess = arith.divf %update_rms, %threshold : f32
  %is_within = arith.cmpf olt, %excess, %unit : f32
  %clip = arith.select %is_within, %unit, %excess : f32
  %step = arith.mulf %neg_rho, %size : f32
  %rate = arith.divf %step, %clip : f32
  %rates = tensor.splat %rate[%rows, %columns] : tensor<?x?xf32>
  %keeps = tensor.splat %keep[%rows, %columns] : tensor<?x?xf32>
  %delta = arith.mulf %rates, %update : tensor<?x?xf32>
  %decayed = arith.mulf %keeps, %param : tensor<?x?xf32>
  %new_param = arith.addf %decayed, %delta : tensor<?x?xf32>
  return %new_param, %new_row_var, %new_col_var : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>
}
