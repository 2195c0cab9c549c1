// RUN: tandem-opt %s | tandem-opt | FileCheck %s -check-prefix=ROUND
// RUN: tandem-opt %s -tandem-connect-externals | FileCheck %s
// RUN: tandem-opt %s -tandem-to-kernel=strategy=bf16-dither | FileCheck %s -check-prefix=KERNEL
// RUN: tandem-opt %s -tandem-to-kernel=strategy=bf16-dither -tandem-split-phases | FileCheck %s -check-prefix=STEP

// An operand is a destination and a result, a result an argument, both after the tensors.
// ROUND: tandem.external "invert"(%{{.+}}, %{{.+}}) sends ["x", "y"] receives ["z"] format(bf16) : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>

// CHECK-LABEL: func.func @step(
// CHECK-SAME:      %[[P:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<param "p">}
// CHECK-SAME:      %[[G:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<grad "g">}
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<sent "x", external = "invert", format = bf16>}
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<sent "y", external = "invert", format = bf16>}
// CHECK-SAME:      %[[Z:[^:]+]]: tensor<?x?xf32> {tandem.role = #tandem.role<received "z", external = "invert", format = bf16>}
// CHECK-SAME:      %{{[^:]+}}: f64 {tandem.role = #tandem.role<hyper "lr">})
// CHECK-SAME:      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
// CHECK:         %[[SQUARE:.+]] = arith.mulf %[[G]], %[[G]]
// CHECK-NOT:     tandem.external
// CHECK:         %[[NEW:.+]] = arith.addf %[[P]], %[[Z]]
// CHECK:         return %[[NEW]], %[[SQUARE]], %[[G]]

// The strategy stores params and states; the graph says how the host finds and leaves tensors.
// KERNEL: tandem.kernel @step
// KERNEL:   ^bb0(%{{.+}}: !tandem.stored<tensor<?xf32>, #tandem.float<bf16, dither>>, %{{.+}}: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %[[X:.+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %[[Y:.+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %[[Z:.+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
// KERNEL:     tandem.load_plane %[[Z]][0]
// KERNEL-DAG: tandem.store_plane %{{.+}}, %[[X]][0]
// KERNEL-DAG: tandem.store_plane %{{.+}}, %[[Y]][0]

// One launch writes what is sent, and nothing else; the next reads what is received.
// STEP:      tandem.launch reduction externals ["invert"] body {
// STEP-NOT:    load_plane %arg0
// STEP-NOT:    load_plane %arg4
// STEP:        tandem.store_plane %{{.+}}, %arg2[0]
// STEP:        tandem.store_plane %{{.+}}, %arg3[0]
// STEP-NEXT:   tandem.yield
// STEP:      tandem.launch main body {
// STEP-NOT:    load_plane %arg1
// STEP-NOT:    store_plane %{{.+}}, %arg2
// STEP:        load_plane %arg4[0]
// STEP:        tandem.store_plane %{{.+}}, %arg0[0]
// STEP-NEXT:   tandem.yield
func.func @step(
    %p: tensor<?x?xf32> {tandem.role = #tandem.role<param "p">},
    %g: tensor<?x?xf32> {tandem.role = #tandem.role<grad "g">},
    %lr: f64 {tandem.role = #tandem.role<hyper "lr">}) -> tensor<?x?xf32> {
  %square = arith.mulf %g, %g : tensor<?x?xf32>
  %z = tandem.external "invert"(%square, %g) sends ["x", "y"] receives ["z"] format(bf16)
      : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
  %new = arith.addf %p, %z : tensor<?x?xf32>
  return %new : tensor<?x?xf32>
}
