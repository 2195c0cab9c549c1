// Keeps the input of a matrix product, which its backward pass needs again.
func.func @keep(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x", consumer = linear>}) {
  tandem.save %x as "kept" consumer(linear) : tensor<?x?xf32>
  return
}

// Returns the kept tensor in the precision of its storage.
func.func @keep_backward(
    %value: tensor<?x?xf32> {tandem.role = #tandem.role<output "value", consumer = linear>})
    -> tensor<?x?xf32> attributes {tandem.forward = @keep} {
  %kept = tandem.restore "kept" : tensor<?x?xf32>
  return %kept : tensor<?x?xf32>
}
