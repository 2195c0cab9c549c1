#id = affine_map<(i) -> (i)>

// Rprop (Riedmiller and Braun 1993) as torch.optim.Rprop: each element has a step size of its own,
// which grows by etaplus where the gradient keeps its sign and shrinks by etaminus where it
// changes. A step size of 0 is one that has not begun; it begins as lr. The new one is written as
// a change of the old one, so that storages of several components follow it.
func.func @rprop(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %previous: tensor<?xf32> {tandem.role = #tandem.role<state "previous", moment = first>},
    %step_size: tensor<?xf32> {tandem.role = #tandem.role<state "step_size", moment = second, domain = nonneg>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-2>},
    %etaminus: f64 {tandem.role = #tandem.role<hyper "etaminus", domain = nonneg, default = 0.5>},
    %etaplus: f64 {tandem.role = #tandem.role<hyper "etaplus", domain = nonneg, default = 1.2>},
    %least: f64 {tandem.role = #tandem.role<hyper "least", domain = nonneg, default = 1.0e-6>},
    %most: f64 {tandem.role = #tandem.role<hyper "most", domain = nonneg, default = 50.0>})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %start = arith.truncf %lr : f64 to f32
  %minus = arith.truncf %etaminus : f64 to f32
  %plus = arith.truncf %etaplus : f64 to f32
  %lower = arith.truncf %least : f64 to f32
  %upper = arith.truncf %most : f64 to f32
  %zero = arith.constant 0.0 : f32
  %unit = arith.constant 1.0 : f32
  %new_param, %new_previous, %new_step_size = linalg.generic {
      indexing_maps = [#id, #id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %previous, %step_size : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %p: f32, %s: f32):
    %is_new = arith.cmpf oeq, %s, %zero : f32
    %before = arith.select %is_new, %start, %s : f32
    %product = arith.mulf %g, %p : f32
    %turns = arith.cmpf olt, %product, %zero : f32
    %continues = arith.cmpf ogt, %product, %zero : f32
    %growth = arith.select %continues, %plus, %unit : f32
    %factor = arith.select %turns, %minus, %growth : f32
    %scaled = arith.mulf %factor, %before : f32
    %is_low = arith.cmpf olt, %scaled, %lower : f32
    %raised = arith.select %is_low, %lower, %scaled : f32
    %is_high = arith.cmpf ogt, %raised, %upper : f32
    %bounded = arith.select %is_high, %upper, %raised : f32
    %change = arith.subf %bounded, %s : f32
    %s_new = arith.addf %s, %change : f32
    %g_new = arith.select %turns, %zero, %g : f32
    %back = arith.negf %g_new : f32
    %is_signed = arith.cmpf one, %back, %zero : f32
    %unit_sign = math.copysign %unit, %back : f32
    %sign = arith.select %is_signed, %unit_sign, %back : f32
    %delta = arith.mulf %s_new, %sign : f32
    %th_new = arith.addf %th, %delta : f32
    linalg.yield %th_new, %g_new, %s_new : f32, f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_previous, %new_step_size : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
