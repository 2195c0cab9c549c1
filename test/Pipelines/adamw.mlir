// RUN: tandem-opt %tandem_src_root/lib/Graphs/adamw.mlir -tandem-to-kernel=strategy=collage-plus -o %t.kernel
// RUN: FileCheck %s -check-prefix=KERNEL < %t.kernel
// RUN: tandem-opt %t.kernel -tandem-to-nvvm -o %t.nvvm
// RUN: FileCheck %s -check-prefix=NVVM < %t.nvvm
// RUN: mlir-translate %t.nvvm -mlir-to-llvmir | llc -march=nvptx64 -mcpu=sm_90 -mattr=+ptx80 -fp-contract=off -o %t.ptx
// RUN: FileCheck %s -check-prefix=PTX < %t.ptx
// RUN: FileCheck %s -check-prefix=READ < %t.ptx
// RUN: FileCheck %s -check-prefix=WRITE < %t.ptx
// RUN: tandem-opt %t.kernel -tandem-to-cpu=width=16 -o %t.cpu
// RUN: FileCheck %s -check-prefix=CPU < %t.cpu
// RUN: mlir-translate %t.cpu -mlir-to-llvmir | llc -march=x86-64 -mcpu=x86-64-v3 -fp-contract=off | FileCheck %s -check-prefix=ASM

// Lowers Collage-plus from the graph to the GPU and the CPU.

// The kernel is arithmetic on planes, without mcf operations and named updates.
// KERNEL-LABEL: tandem.kernel @adamw compute(<component, bf16>)
// KERNEL-NOT:     mcf.
// KERNEL-NOT:     tandem.{{load|store|accumulate|ema|decay}}{{ }}
// beta2 is split in two from f64.
// KERNEL:         ^bb0(%{{[^:]+}}: f64, %{{[^:]+}}: f64, %[[BETA2:[^:]+]]: f64,
// KERNEL:         %[[HIGH:.+]] = arith.truncf %[[BETA2]] : f64 to bf16
// KERNEL:         %[[BACK:.+]] = arith.extf %[[HIGH]] : bf16 to f64
// KERNEL:         %[[REST:.+]] = arith.subf %[[BETA2]], %[[BACK]] : f64
// KERNEL:         arith.truncf %[[REST]] : f64 to bf16
// KERNEL:       } body {
// KERNEL-COUNT-6: tandem.load_plane
// KERNEL-NOT:     tandem.load_plane
// Only the decay of the second moment needs a product's error.
// KERNEL-COUNT-1: math.fma
// KERNEL-NOT:     math.fma
// KERNEL-COUNT-5: tandem.store_plane
// KERNEL-NOT:     tandem.store_plane

// NVVM-NOT: {{tandem\.|mcf\.|arith\.|scf\.|vector\.|math\.}}
// NVVM: llvm.func @tandem_adamw_prologue(
// NVVM: llvm.func @tandem_adamw(

// PTX: .target sm_90
// PTX: .visible .entry tandem_adamw_prologue(
// PTX: .visible .entry tandem_adamw(
// Nothing is contracted, flushed or approximate: the four packed fmas are the
// residuals of the eight products.
// PTX-NOT: {{fma\.rn\.f32|mad\.rn|\.ftz|\.approx|\.full}}
// PTX-COUNT-4: fma.rn.bf16x2
// PTX-NOT: {{fma\.|mad\.rn|\.ftz|\.approx|\.full}}
// PTX: sqrt.rn.f32
// PTX: div.rn.f32
// PTX-NOT: {{fma\.|mad\.rn|\.ftz|\.approx|\.full}}

// Each of six planes of 8 elements is read, and five are written, with one 16-byte
// access.
// READ: .visible .entry tandem_adamw(
// READ-COUNT-6: ld.global.v4.b32
// READ-NOT: ld.global.v4
// WRITE: .visible .entry tandem_adamw(
// WRITE-COUNT-5: st.global.v4.b32
// WRITE-NOT: st.global.v4

// CPU-NOT: {{tandem\.|mcf\.|arith\.|scf\.|vector\.|math\.|bf16}}
// CPU: llvm.func @tandem_adamw_prologue(
// CPU: llvm.func @tandem_adamw(

// The residual is the only fma for the 16 lanes: two instructions of 8.
// ASM: tandem_adamw:
// ASM-COUNT-2: {{vfmadd|vfmsub|vfnmadd|vfnmsub}}
// ASM-NOT: {{vfmadd|vfmsub|vfnmadd|vfnmsub}}
// ASM: vsqrtps
// ASM: vdivps
// ASM-NOT: {{vfmadd|vfmsub|vfnmadd|vfnmsub|vrcpps|vrsqrtps}}
