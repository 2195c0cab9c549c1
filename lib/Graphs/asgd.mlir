#id = affine_map<(i) -> (i)>

// Averaged SGD (Polyak and Juditsky 1992) as torch.optim.ASGD. The host gives the rate of each
// step and the share mixing of the step's weights in their average ax; lambd decays weights.
func.func @asgd(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
    %ax: tensor<?xf32> {tandem.role = #tandem.role<state "ax", moment = average>},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr", domain = nonneg, default = 1.0e-2>},
    %lambd: f64 {tandem.role = #tandem.role<hyper "lambd", domain = nonneg, default = 1.0e-4>},
    %weight_decay: f64 {tandem.role = #tandem.role<hyper "weight_decay", domain = nonneg, default = 0.0>},
    %mixing: f64 {tandem.role = #tandem.role<hyper "mixing", domain = nonneg, default = 1.0>})
    -> (tensor<?xf32>, tensor<?xf32>) {
  %one = arith.constant 1.0 : f64
  %loss = arith.mulf %lr, %lambd : f64
  %kept = arith.subf %one, %loss : f64
  %nlr = arith.negf %lr : f64
  %keep = arith.truncf %kept : f64 to f32
  %neg_lr = arith.truncf %nlr : f64 to f32
  %wd = arith.truncf %weight_decay : f64 to f32
  %share = arith.truncf %mixing : f64 to f32
  %new_param, %new_ax = linalg.generic {
      indexing_maps = [#id, #id, #id],
      iterator_types = ["parallel"]}
      ins(%grad : tensor<?xf32>)
      outs(%param, %ax : tensor<?xf32>, tensor<?xf32>) {
  ^bb0(%g: f32, %th: f32, %a: f32):
    %decay = arith.mulf %wd, %th : f32
    %gd = arith.addf %g, %decay : f32
    %kept_th = arith.mulf %keep, %th : f32
    %delta = arith.mulf %neg_lr, %gd : f32
    %th_new = arith.addf %kept_th, %delta : f32
    %apart = arith.subf %th_new, %a : f32
    %a_add = arith.mulf %share, %apart : f32
    %a_new = arith.addf %a, %a_add : f32
    linalg.yield %th_new, %a_new : f32, f32
  } -> (tensor<?xf32>, tensor<?xf32>)
  return %new_param, %new_ax : tensor<?xf32>, tensor<?xf32>
}
