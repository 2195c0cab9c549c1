// The tensors that one layer of a Llama-style transformer keeps for its backward pass, per token:
// hidden size 3072, feed-forward size 8192. Its matrix products, its norms, its rotary embedding
// and its attention are others' work, so that their tensors come in as inputs. Try
//
//   tandem-opt examples/llama/layer.mlir -tandem-connect-saves \
//     -tandem-apply-strategy=strategy=coat -tandem-print-saves -o /dev/null
#matrix = affine_map<(i, j) -> (i, j)>

func.func @llama_layer(
    %x: tensor<?x3072xf32> {tandem.role = #tandem.role<input "x">},
    %normed: tensor<?x3072xf32> {tandem.role = #tandem.role<input "normed">},
    %query: tensor<?x3072xf32> {tandem.role = #tandem.role<input "query">},
    %key: tensor<?x3072xf32> {tandem.role = #tandem.role<input "key">},
    %turned_query: tensor<?x3072xf32> {tandem.role = #tandem.role<input "turned_query">},
    %turned_key: tensor<?x3072xf32> {tandem.role = #tandem.role<input "turned_key">},
    %value: tensor<?x3072xf32> {tandem.role = #tandem.role<input "value">},
    %attended: tensor<?x3072xf32> {tandem.role = #tandem.role<input "attended">},
    %h: tensor<?x3072xf32> {tandem.role = #tandem.role<input "h">},
    %normed_h: tensor<?x3072xf32> {tandem.role = #tandem.role<input "normed_h">},
    %gate: tensor<?x8192xf32> {tandem.role = #tandem.role<input "gate">},
    %up: tensor<?x8192xf32> {tandem.role = #tandem.role<input "up">}) {
  // The gated feed-forward block's activation, and its product with the other factor.
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %gate, %c0 : tensor<?x8192xf32>
  %empty = tensor.empty(%tokens) : tensor<?x8192xf32>
  %silu, %product = linalg.generic {
      indexing_maps = [#matrix, #matrix, #matrix, #matrix],
      iterator_types = ["parallel", "parallel"]}
      ins(%gate, %up : tensor<?x8192xf32>, tensor<?x8192xf32>)
      outs(%empty, %empty : tensor<?x8192xf32>, tensor<?x8192xf32>) {
  ^bb0(%g: f32, %u: f32, %out0: f32, %out1: f32):
    %negative = arith.negf %g : f32
    %power = math.exp %negative : f32
    %denominator = arith.addf %one, %power : f32
    %s = arith.divf %g, %denominator : f32
    %p = arith.mulf %s, %u : f32
    linalg.yield %s, %p : f32, f32
  } -> (tensor<?x8192xf32>, tensor<?x8192xf32>)
  // Two norms.
  tandem.save %x as "attention_norm" : tensor<?x3072xf32>
  tandem.save %h as "mlp_norm" : tensor<?x3072xf32>
  // The activation and its product with the gate.
  tandem.save %gate as "act_gate" : tensor<?x8192xf32>
  tandem.save %silu as "act_silu" : tensor<?x8192xf32>
  tandem.save %up as "act_up" : tensor<?x8192xf32>
  // The rotary embedding of queries and keys.
  tandem.save %query as "rope_query" consumer(opaque) : tensor<?x3072xf32>
  tandem.save %key as "rope_key" consumer(opaque) : tensor<?x3072xf32>
  // FlashAttention keeps its inputs and its output, which the projection that follows takes in
  // turn: one tensor, kept once (COAT, appendix D).
  tandem.save %turned_query as "flash_query" consumer(opaque) : tensor<?x3072xf32>
  tandem.save %turned_key as "flash_key" consumer(opaque) : tensor<?x3072xf32>
  tandem.save %value as "flash_value" consumer(opaque) : tensor<?x3072xf32>
  tandem.save %attended as "flash_output" consumer(opaque) : tensor<?x3072xf32>
  tandem.save %attended as "linear_attention" consumer(linear) : tensor<?x3072xf32>
  // The other matrix products.
  tandem.save %normed as "linear_qkv" consumer(linear) : tensor<?x3072xf32>
  tandem.save %normed_h as "linear_gate_up" consumer(linear) : tensor<?x3072xf32>
  tandem.save %product as "linear_down" consumer(linear) : tensor<?x8192xf32>
  return
}
