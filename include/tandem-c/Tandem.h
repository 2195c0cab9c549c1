//===- Tandem.h - The C API of the compiler ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C API, which compiles a graph under a strategy and
// returns its description and its code. Functions that can fail return null or
// false and leave an error (tandem-c/Error.h) in the calling thread.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_C_TANDEM_H
#define TANDEM_C_TANDEM_H

#include "tandem-c/Error.h"
#include "tandem-runtime/tandem_package.h"
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Returns the version of the compiler, "0.1.0". It lives as long as the
/// library.
TANDEM_CAPI_EXPORTED const char *tandemGetVersion(void);

/// Returns what the instruction set "native" is on this machine: the largest
/// one with a name, and in parentheses the processor and its further features
/// that code becomes faster with: "x86-64-v4 (znver4: avx512vbmi, gfni)". It
/// lives as long as the library.
TANDEM_CAPI_EXPORTED const char *tandemGetNativeISA(void);

/// A compiled kernel and its code.
typedef struct TandemKernel TandemKernel;

/// A rule of a strategy: how tensors of a kind are stored.
typedef struct TandemStorageRule {
  tdm_role kind;
  /// The only tensor that the rule applies to; null for all of the kind.
  const char *name;
  /// The storage as MLIR spells it, such as "#tandem.float<bf16>".
  const char *storage;
} TandemStorageRule;

/// The options of a compilation. Null strings and zeros mean the defaults.
typedef struct TandemCompileOptions {
  /// A built-in graph's name, the path of an .mlir file, or MLIR text of a
  /// graph or a tandem.kernel.
  const char *graph;
  /// A strategy's name; null or "" for a kernel, which already has its
  /// storages.
  const char *strategy;
  /// Directories searched for strategies before the built-in ones.
  const char *const *path;
  intptr_t pathLength;
  /// "cpu" (default) or an NVIDIA chip such as "sm_90".
  const char *target;
  /// For cpu: "native" (default), or a set of instructions that this machine
  /// has: "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4" or "aarch64".
  const char *isa;
  /// The number of elements computed at once, a power of two; 0 lets the
  /// compiler choose.
  int64_t width;
  /// Whether the kernel also measures the effective descent quality.
  bool metrics;
  /// Whether a launch reports gradients that are not finite in its flags.
  bool flags;
  /// The name of the graph if the module has several, such as a layer's two
  /// passes; otherwise null or "".
  const char *function;
  /// The rules of a strategy that is not in a file and whose name is
  /// `strategy`. The first rule that matches a tensor applies.
  const TandemStorageRule *rules;
  intptr_t numRules;
  /// The compute policy under these rules: "f32 f32" or "component bf16".
  const char *compute;
  /// Whether the average of the weights over steps, with the hyperparameter
  /// "ema_decay", is a further state, "ema".
  bool weightAverage;
  /// Whether a step also writes the operand of the next forward pass, what a
  /// framework reads of the new weight, to the output "operand". The strategy
  /// needs a rule for it.
  bool weightOperand;
} TandemCompileOptions;

/// Compiles a graph under a strategy, or a kernel. Returns null on failure.
TANDEM_CAPI_EXPORTED TandemKernel *
tandemCompile(const TandemCompileOptions *options);
/// Returns how many times this process has generated a kernel's code. Kernels
/// from the cache on disk (tandem-runtime/tandem_cache.h) do not count.
TANDEM_CAPI_EXPORTED uint64_t tandemGetNumCompilations(void);
/// Opens the kernel `name` of the package at `path`, or the package's only
/// kernel if `name` is null. `target` and `isa` are as in TandemCompileOptions
/// and choose among the package's images; "native" is the best one for this
/// machine. Returns null on failure.
TANDEM_CAPI_EXPORTED TandemKernel *tandemKernelLoad(const char *path,
                                                    const char *name,
                                                    const char *target,
                                                    const char *isa);
/// Opens a kernel of a package that the caller has read and closes only after
/// the kernel is destroyed. The rest is as for tandemKernelLoad.
TANDEM_CAPI_EXPORTED TandemKernel *tandemKernelOpen(const tdm_package *package,
                                                    const char *name,
                                                    const char *target,
                                                    const char *isa);
TANDEM_CAPI_EXPORTED void tandemKernelDestroy(TandemKernel *kernel);

/// The options of a conversion. Storages are attributes as MLIR spells them,
/// "#tandem.float<bf16>", and opaque to hosts. A zeroed struct with the two
/// storages compiles for the CPU.
typedef struct TandemConversionOptions {
  /// The storages to convert from and to.
  const char *source, *target;
  /// Whether the value is added, in f32, to the one that the target has.
  bool adds;
  /// Whether targets are new. If so, scales that would be given are computed
  /// from the values, and histories begin with them.
  bool isFresh;
  /// Whether tensors are matrices, whose groups begin anew in each row.
  bool isMatrix;
  /// Whether targets are second moments, in which a positive value must not
  /// become zero.
  bool hasFloor;
  /// "cpu" (default) or an NVIDIA chip such as "sm_90".
  const char *chip;
} TandemConversionOptions;

/// A compiled conversion of tensors.
typedef struct TandemConversion {
  /// The kernel, which takes the first planes of the target and then the first
  /// planes of the source for each tensor. The caller destroys it. It is null
  /// if planes are copied bit for bit, each to the target's plane of the same
  /// number. A matrix is one row unless this is a matrix kernel.
  TandemKernel *kernel;
  /// The numbers of planes of the target and of the source that the kernel
  /// takes. The caller fills the target's other planes with zeros, and in a
  /// copy those that the source has no plane for.
  intptr_t numWritten, numRead;
  /// The number of times that the kernel runs. If it runs several times, the
  /// caller first fills the target's persistent planes (tdm_plane_desc) with
  /// zeros.
  int32_t numLaunches;
} TandemConversion;

/// Compiles a conversion, which rounds to nearest, also if the target's storage
/// rounds otherwise. A sum of planes is converted exactly as far as the
/// target's planes can hold it, any other value as the f32 that it decodes to
/// (docs/Numerics.md). Returns false on failure, which leaves `conversion`
/// unchanged.
TANDEM_CAPI_EXPORTED bool
tandemCompileConversion(const TandemConversionOptions *options,
                        TandemConversion *conversion);

/// Compiles a kernel that takes the planes of a target, which has codes, and
/// then those of each source. It adds the sources' values in f32, in their
/// order, and encodes the sum, rounded to nearest, in the target. The first
/// metric of a launch counts the codes that have become the largest number.
/// `chip` is as in TandemConversionOptions. Returns null on failure.
TANDEM_CAPI_EXPORTED TandemKernel *tandemCompileSum(const char *const *sources,
                                                    intptr_t numSources,
                                                    const char *target,
                                                    const char *chip);

/// Return the number of a kernel's gradient planes that can hold NaN or
/// infinity, and the index of one of them. These are planes of floats with an
/// entry for each element.
TANDEM_CAPI_EXPORTED intptr_t
tandemKernelGetNumCheckedPlanes(TandemKernel *kernel);
TANDEM_CAPI_EXPORTED intptr_t tandemKernelGetCheckedPlane(TandemKernel *kernel,
                                                          intptr_t index);
/// Compiles a kernel for the same target that takes those planes of flat
/// tensors and writes nothing: a launch raises a flag if one of them is not
/// finite. Returns null on failure, also if there are no such planes.
TANDEM_CAPI_EXPORTED TandemKernel *
tandemKernelCompileFiniteCheck(TandemKernel *kernel);

/// Writes a package of kernels (tandem-runtime/tandem_package.h) to a file,
/// with code for each target. A target is an instruction set ("x86-64-v3"), a
/// chip ("sm_90", as PTX) or a chip's machine code ("cubin:sm_90", by ptxas;
/// "cubin-O0:sm_90" without optimization). Without targets the package has code
/// for x86-64, x86-64-v3, x86-64-v4, aarch64 and the chips that the kernels
/// were compiled for. Returns false on failure.
TANDEM_CAPI_EXPORTED bool
tandemSavePackage(const char *path, TandemKernel *const *kernels,
                  const char *const *names, intptr_t numKernels,
                  const char *const *targets, intptr_t numTargets);

/// Returns the description of a kernel, which packages store and the runtime
/// reads (tandem-runtime/tandem_package.h); its functions are NULL. It lives as
/// long as the kernel. If there are several phases, PTX has more functions,
/// named after a phase: for one that makes reductions _totals (a block for each
/// tensor) and, over the model, _model (one block), or _row_totals and
/// _column_totals (over the chunks of rows and of columns); for the first of
/// several that can be one launch _bands (over bands). A kernel compiled to
/// measure has 4 metrics: D * D_eff, D * D, the number of elements with D != 0
/// and D_eff = 0, and the number with D != 0, for the intended update D and the
/// effective update D_eff.
TANDEM_CAPI_EXPORTED const tdm_kernel_info *
tandemKernelGetInfo(TandemKernel *kernel);
/// Returns the code for the kernel's target; null for cpu.
TANDEM_CAPI_EXPORTED const tdm_image *
tandemKernelGetImage(TandemKernel *kernel);
TANDEM_CAPI_EXPORTED double
tandemKernelGetBytesPerParameter(TandemKernel *kernel);

/// Returns the number of entries of a plane's array for a matrix. In a kernel
/// without rows a tensor is one row.
TANDEM_CAPI_EXPORTED int64_t tandemKernelGetNumEntries(TandemKernel *kernel,
                                                       intptr_t index,
                                                       int64_t rows,
                                                       int64_t columns);

/// One tensor of a kernel. Strings live as long as the kernel.
typedef struct TandemTensor {
  /// The name of its planes' role.
  const char *role;
  /// Its storage, as MLIR spells it.
  const char *storage;
  /// Whether it is a second moment of gradients, which is never negative.
  bool isSecondMoment;
} TandemTensor;

/// Return the number of a kernel's tensors, and one of them, in the order of
/// their planes. Callers ask for the number first. It is -1 on failure, for
/// example if this compiler cannot read the kernel of a package.
TANDEM_CAPI_EXPORTED intptr_t tandemKernelGetNumTensors(TandemKernel *kernel);
TANDEM_CAPI_EXPORTED TandemTensor tandemKernelGetTensor(TandemKernel *kernel,
                                                        intptr_t index);

/// Creates the runtime's kernel on a device, or on the CPU if `device` is null.
/// The caller destroys it with tdm_kernel_destroy before it destroys `kernel`.
/// Returns null on failure.
TANDEM_CAPI_EXPORTED tdm_kernel *
tandemKernelCreateRuntimeKernel(TandemKernel *kernel, const tdm_device *device);

/// A storage, which says how a tensor lies in memory. Hosts pass it on as MLIR
/// spells it, such as "#tandem.float<bf16>", and query what they need to know.
typedef struct TandemStorage TandemStorage;

/// Reads a storage, or returns null on failure. The caller destroys it.
TANDEM_CAPI_EXPORTED TandemStorage *tandemStorageParse(const char *text);
/// Creates a storage with one plane of floats of a format such as "bf16".
/// Returns null on failure.
TANDEM_CAPI_EXPORTED TandemStorage *
tandemStorageCreateFloats(const char *format);
/// Creates the storage `codes` with a visible copy of its values in `format`,
/// "bf16" or "f16". Returns null on failure.
TANDEM_CAPI_EXPORTED TandemStorage *
tandemStorageCreateWorking(const char *format, const char *codes);
/// Creates a storage for sums of gradients over backward passes: "f32", a bf16
/// number and the remainder to an f32 number; "bf16x2", the unevaluated sum of
/// two bf16 numbers; "bf16+i8", a bf16 number and a residual of 8 bits. Returns
/// null on failure.
TANDEM_CAPI_EXPORTED TandemStorage *tandemStorageCreateSums(const char *format);
/// Creates the storage of the factors of matrix products: codes of an 8-bit
/// float such as "f8E4M3FN" under an f32 scale for the tensor and, if
/// `isTransposed`, the codes of the transpose. Returns null on failure.
TANDEM_CAPI_EXPORTED TandemStorage *
tandemStorageCreateMatrixCodes(const char *format, bool isTransposed);
/// Creates a storage of floats of `format`, "f32", "bf16" or "f16", that holds
/// only numbers of the float `number`: "E8M3" has 8 exponent and 3 mantissa
/// bits. `rounding` is "toward_zero", "nearest" or "stochastic"; `clamp` says
/// which magnitudes beyond the range of the exponent bits are clamped: "inside"
/// (too small), "outside" (too large), "both" or "none". Returns null on
/// failure.
TANDEM_CAPI_EXPORTED TandemStorage *
tandemStorageCreateMasked(const char *format, const char *number,
                          const char *rounding, const char *clamp);
TANDEM_CAPI_EXPORTED void tandemStorageDestroy(TandemStorage *storage);

/// Returns the storage as MLIR spells it. Strings live as long as the storage.
TANDEM_CAPI_EXPORTED const char *tandemStorageGetText(TandemStorage *storage);
TANDEM_CAPI_EXPORTED intptr_t tandemStorageGetNumPlanes(TandemStorage *storage);
/// Returns a plane. Its name is the suffix to the tensor's name: "" or
/// ".scale". It has no role, and `kind` and `access` are those of a state.
TANDEM_CAPI_EXPORTED const tdm_plane_desc *
tandemStorageGetPlane(TandemStorage *storage, intptr_t index);
/// Returns whether elements are codes, which no framework computes with: no
/// plane shows the values, or the one that does has fewer than 16 bits.
TANDEM_CAPI_EXPORTED bool tandemStorageIsCoded(TandemStorage *storage);
/// Returns whether the storage is one plane of floats.
TANDEM_CAPI_EXPORTED bool tandemStorageIsPlain(TandemStorage *storage);
/// Returns whether a kernel under the f32 policy can use the storage.
TANDEM_CAPI_EXPORTED bool tandemStorageHasF32Value(TandemStorage *storage);

/// The kinds of the code #scaled.dynamic, which bitsandbytes has too.
typedef enum TandemDynamicCode {
  TandemDynamicNone = 0,
  TandemDynamicSigned = 1,
  TandemDynamicUnsigned = 2
} TandemDynamicCode;

/// Returns which dynamic code the storage has, if any.
TANDEM_CAPI_EXPORTED TandemDynamicCode
tandemStorageGetDynamicCode(TandemStorage *storage);
/// Returns the number of consecutive elements that share a scale if the storage
/// has only codes without a range and f32 scales made from largest magnitudes;
/// otherwise returns 0.
TANDEM_CAPI_EXPORTED int64_t tandemStorageGetPlainGroup(TandemStorage *storage);

/// Returns the same codes under f32 scales that the caller gives, so that
/// tensors can share them. Returns "" unless the storage has codes under f32,
/// bf16 or f16 scales that depend only on largest magnitudes, and no transposed
/// copy.
TANDEM_CAPI_EXPORTED const char *
tandemStorageWithGivenScales(TandemStorage *storage);
/// Returns the same storage without the planes that only the next store reads.
TANDEM_CAPI_EXPORTED const char *
tandemStorageWithoutHistory(TandemStorage *storage);
/// Returns the same storage without a transposed copy.
TANDEM_CAPI_EXPORTED const char *
tandemStorageWithoutTranspose(TandemStorage *storage);
/// Returns the same storage, but one that rounds to nearest.
TANDEM_CAPI_EXPORTED const char *tandemStorageToNearest(TandemStorage *storage);

/// A layer under a recipe: a forward pass, the backward pass that restores what
/// it saves, and possibly a function that recomputes its outputs.
typedef struct TandemLayer TandemLayer;

/// An input that another layer has stored, and its storage.
typedef struct TandemStoredInput {
  const char *name;
  const char *storage;
} TandemStoredInput;

/// The options of a layer. Null strings and zeros mean the defaults.
typedef struct TandemLayerOptions {
  /// A built-in layer's name, the path of an .mlir file, or MLIR text.
  const char *layer;
  /// The recipe's name.
  const char *recipe;
  /// Directories searched for recipes before the built-in ones.
  const char *const *path;
  intptr_t pathLength;
  /// The formats of inputs and outputs: `elements` of those with an entry for
  /// each element ("f32" by default), `columns` of those with one for each
  /// column (by default the same). Those with an entry for each row are f32.
  const char *elements, *columns;
  /// The inputs that come from other layers in a storage.
  const TandemStoredInput *stored;
  intptr_t numStored;
  /// Whether the forward pass also saves each output that goes to linear
  /// layers, as "NAME.kept" and in the storage that these layers would use.
  bool keepsOutputs;
  /// The target of the passes, as in TandemCompileOptions.
  const char *target;
  const char *isa;
} TandemLayerOptions;

/// Reads a layer and its recipe, or returns null on failure. The caller
/// destroys the layer.
TANDEM_CAPI_EXPORTED TandemLayer *
tandemLayerCreate(const TandemLayerOptions *options);
TANDEM_CAPI_EXPORTED void tandemLayerDestroy(TandemLayer *layer);

/// The functions of a layer.
#define TANDEM_LAYER_PASSES(VALUE)                                             \
  VALUE(TandemLayerForward, forward)                                           \
  VALUE(TandemLayerBackward, backward)                                         \
  VALUE(TandemLayerRecompute, recompute)
typedef enum TandemLayerPass {
  TANDEM_LAYER_PASSES(TDM_ENUMERATOR)
} TandemLayerPass;

/// An output of a function. Strings live as long as the layer.
typedef struct TandemLayerOutput {
  const char *name;
  /// Whether a linear layer takes it.
  bool isForLinear;
  /// Whether it is a gradient, not an activation.
  bool isGradient;
} TandemLayerOutput;

/// Returns the name of a pass's function, or null if the layer has none, for
/// example if nothing recomputes its outputs.
TANDEM_CAPI_EXPORTED const char *tandemLayerGetFunction(TandemLayer *layer,
                                                        TandemLayerPass pass);
/// Return the number of a function's outputs, and one of them.
TANDEM_CAPI_EXPORTED intptr_t tandemLayerGetNumOutputs(TandemLayer *layer,
                                                       TandemLayerPass pass);
TANDEM_CAPI_EXPORTED TandemLayerOutput
tandemLayerGetOutput(TandemLayer *layer, TandemLayerPass pass, intptr_t index);
/// Returns whether the recipe stores outputs by their destination: it begins
/// with rules for outputs that name a consumer or a flow.
TANDEM_CAPI_EXPORTED bool tandemLayerStoresByFlow(TandemLayer *layer);

/// The pass to compile. A zeroed struct is the forward pass.
typedef struct TandemLayerPassOptions {
  TandemLayerPass pass;
  /// The inputs of this pass that come from other layers in a storage, such as
  /// gradients.
  const TandemStoredInput *stored;
  intptr_t numStored;
  /// Whether all outputs are plain tensors, even if the recipe stores them by
  /// their destination.
  bool hasPlainOutputs;
} TandemLayerPassOptions;

/// Compiles a pass of a layer, or returns null on failure. The planes that the
/// backward pass restores (TDM_ROLE_RESTORED) have the names of planes of the
/// forward pass, which saved them (TDM_ROLE_SAVED) or has them as inputs or
/// outputs.
TANDEM_CAPI_EXPORTED TandemKernel *
tandemLayerCompile(TandemLayer *layer, const TandemLayerPassOptions *options);

/// Returns whether a recipe is built in, or in a file on the path. If not, it
/// leaves an error in the thread.
TANDEM_CAPI_EXPORTED bool tandemCheckRecipe(const char *recipe,
                                            const char *const *path,
                                            intptr_t pathLength);

/// Return the names of the built-in graphs, layers, recipes and strategies.
TANDEM_CAPI_EXPORTED intptr_t tandemGetNumGraphs(void);
TANDEM_CAPI_EXPORTED const char *tandemGetGraphName(intptr_t index);
TANDEM_CAPI_EXPORTED intptr_t tandemGetNumLayers(void);
TANDEM_CAPI_EXPORTED const char *tandemGetLayerName(intptr_t index);
TANDEM_CAPI_EXPORTED intptr_t tandemGetNumRecipes(void);
TANDEM_CAPI_EXPORTED const char *tandemGetRecipeName(intptr_t index);
/// Returns the MLIR text of a layer.
TANDEM_CAPI_EXPORTED const char *tandemGetLayerText(intptr_t index);
TANDEM_CAPI_EXPORTED intptr_t tandemGetNumStrategies(void);
TANDEM_CAPI_EXPORTED const char *tandemGetStrategyName(intptr_t index);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_TANDEM_H */
