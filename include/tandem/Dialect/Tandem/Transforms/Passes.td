//===- Passes.td - Passes on graphs and kernels ------------*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_PASSES_TD
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def AddWeightAverage : Pass<"tandem-add-weight-average", "::mlir::func::FuncOp"> {
  let summary = "Add the average of each param over steps to a graph's states";
  let description = [{
    Gives a graph a state for each param, `ema` (or `ema_NAME` where there are several params), and
    the hyperparameter `ema_decay`. A step moves the state towards the param's new value:

        ema <- ema + (1 - ema_decay) / (1 - ema_decay^step) * (param - ema)

    So the state is the weighted mean of the new values of all steps so far, in which the value of
    each step counts `ema_decay` times as much as that of the next step. It depends neither on the
    param before the first step nor on the state's initial value. If the param stays the same, so does
    its average, however the factor rounds. A graph without a step gets one. Rules of a strategy match
    the state by `moment(average)` or by its name; see `tandem.assign`.

    Example: `test/Dialect/Tandem/add-weight-average.mlir`

    ```mlir
    func.func @f(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">}) -> tensor<?xf32>
    // becomes
    func.func @f(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                 %0: tensor<?xf32> {tandem.role = #tandem.role<state "ema", moment = average>},
                 %1: f64 {tandem.role = #tandem.role<hyper "ema_decay", domain = unit, default = 0.999>},
                 %2: i64 {tandem.role = #tandem.role<step "step">}) -> (tensor<?xf32>, tensor<?xf32>)
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect"];
  let statistics = [
    Statistic<"numAverages", "averages", "Number of averages added">,
  ];
}

def AddWeightOperand : Pass<"tandem-add-weight-operand", "::mlir::func::FuncOp"> {
  let summary = "Write the operand of the next forward pass from each new param";
  let description = [{
    Gives a graph an output for each param, `operand` (or `operand_NAME` where there are several
    params): what a framework reads of the new param (`tandem.visible`), in the storage that a
    strategy gives to the output. So the kernel that updates a weight also writes the codes that
    the next forward pass multiplies, which are those that it would make from the weight itself.
    Rules of a strategy match the output by its name or by `consumer(linear)`; see `tandem.assign`.

    Example: `test/Dialect/Tandem/add-weight-operand.mlir`

    ```mlir
    func.func @f(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">}) -> tensor<?xf32>
    // becomes
    func.func @f(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
                 %0: tensor<?xf32> {tandem.role = #tandem.role<output "operand", consumer = linear>})
        -> (tensor<?xf32>, tensor<?xf32>)
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [
    Statistic<"numOperands", "operands", "Number of operands added">,
  ];
}

def RecognizeUpdates : Pass<"tandem-recognize-updates", "::mlir::func::FuncOp"> {
  let summary = "Recognize accumulate, ema and decay in plain graphs";
  let description = [{
    Follows each param and state from the function's result back to its
    argument, through arith operations and linalg bodies, and names the steps of
    its update:

    - `s + d` and `s - d` become `tandem.accumulate`;
    - `b * s + x`, b uniform, becomes `tandem.ema`;
    - `b * s` becomes `tandem.decay`.

    Values do not change: each named operation means the arithmetic it replaces. If both
    operands of an addition lead back to the state, the one with the shorter path is the
    state's own.

    Example: `test/Dialect/Tandem/recognize-updates.mlir`

    ```mlir
    %d = arith.mulf %neg_lr, %grad : tensor<?xf32>
    %1 = arith.addf %param, %d : tensor<?xf32>
    // becomes
    %1 = tandem.accumulate %param, %d : tensor<?xf32>
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numAccumulates", "accumulates", "Number of accumulates recognized">,
    Statistic<"numEmas", "emas", "Number of exponential moving averages recognized">,
    Statistic<"numDecays", "decays", "Number of decays recognized">,
  ];
}

def ConnectExternals : Pass<"tandem-connect-externals", "::mlir::func::FuncOp"> {
  let summary = "Make what a graph exchanges with the host arguments";
  let description = [{
    Each operand of a `tandem.external` becomes a destination with the role `sent` and one more
    result, and each of its results an argument with the role `received`. `-tandem-split-phases`
    lets the host compute the step after the launch that writes what is sent, and before those that
    read what is received.

    Example: `test/Dialect/Tandem/connect-externals.mlir`

    ```mlir
    func.func @f(%p: tensor<?x?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?x?xf32> {
      %o = tandem.external "invert"(%p) sends ["x"] receives ["y"] format(f32)
          : (tensor<?x?xf32>) -> tensor<?x?xf32>
      return %o : tensor<?x?xf32>
    }
    // becomes
    func.func @f(%p: tensor<?x?xf32> {tandem.role = #tandem.role<param "p">},
                 %x: tensor<?x?xf32> {tandem.role = #tandem.role<sent "x", external = "invert", format = f32>},
                 %y: tensor<?x?xf32> {tandem.role = #tandem.role<received "y", external = "invert", format = f32>})
        -> (tensor<?x?xf32>, tensor<?x?xf32>) {
      return %y, %p : tensor<?x?xf32>, tensor<?x?xf32>
    }
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [Statistic<"numSteps", "steps", "Number of external steps connected">];
}

def ConnectSaves : Pass<"tandem-connect-saves", "::mlir::ModuleOp"> {
  let summary = "Make what a forward pass saves an output, and an input of the backward pass";
  let description = [{
    Each value that a function saves becomes a destination with the role `saved` and
    one more result; each `tandem.restore` of the function whose `tandem.forward`
    names it becomes an argument with the role `restored` and the same name. A value that
    is saved under several names is saved once, under the first of them and for
    the last kind of consumer.

    A value that a strategy stores in the same way as an input of the function is not stored again;
    see `-tandem-apply-strategy`. A function with a `tandem.keep_outputs` saves outputs, too.

    Example: `test/Dialect/Tandem/connect-saves.mlir`

    ```mlir
    func.func @f(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">}) {
      tandem.save %x as "x" : tensor<?x?xf32>
      return
    }
    // becomes
    func.func @f(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
                 %0: tensor<?x?xf32> {tandem.role = #tandem.role<saved "x">}) -> tensor<?x?xf32> {
      return %x : tensor<?x?xf32>
    }
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [
    Statistic<"numSaved", "saved", "Number of tensors saved">,
    Statistic<"numShared", "shared", "Number of saves that share another one's tensor">,
  ];
}

def ApplyStrategy : Pass<"tandem-apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Give every param, grad and state of a graph its storage";
  let description = [{
    Looks the strategy up by name, in the module itself, then among the built-in
    ones, and rewrites the boundaries of every graph: tensor arguments and results
    become `!tandem.stored`, each with a `tandem.decode` or `tandem.encode`,
    and the function gets the strategy's compute policy. The arithmetic in between
    is not touched.

    The pass reads no files. Drivers with a search path, such as `tandem-run` and
    `tandem.compile`, add the strategy of a file to the module beforehand; `tandem-opt`
    takes both from one text: `cat mine.mlir adamw.mlir | tandem-opt
    -tandem-to-kernel=strategy=mine`.

    A `saved` tensor that has the value and the storage of an input or an output is not written
    again: it is dropped, the backward pass restores the input or output, and the attribute
    `tandem.kept` has that one's name with the role that was dropped.

    Example: `test/Dialect/Tandem/apply-strategy.mlir`

    ```mlir
    func.func @f(%p: tensor<?xf32> {tandem.role = #tandem.role<param "param">})
    // becomes
    func.func @f(%p: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
                   {tandem.role = #tandem.role<param "param">})
      attributes {tandem.compute = #tandem.compute<component, bf16>}
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"\"", "Name of the strategy">,
  ];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [
    Statistic<"numStored", "stored", "Number of arguments given a storage">,
    Statistic<"numShared", "shared", "Number of saved tensors that an input or an output holds already">,
  ];
}

def PrintSaves : Pass<"tandem-print-saves", "::mlir::ModuleOp"> {
  let summary = "Print what forward passes keep in memory";
  let description = [{
    For each function that saves something, prints each tensor's storage and its size
    for a token (a row), in units U of `hidden` * 2 bytes (a bf16 for each of `hidden`
    elements), without and with the scales. The pass runs after `-tandem-connect-saves`
    and `-tandem-apply-strategy`, and does not change the module. An unknown dimension
    counts as `hidden`. Entries that are stored once for a whole tensor are not counted.

    A second list has the saved tensors and the inputs that a backward pass could recompute from
    others that it has, with the memory that this saves and the float operations that it takes for
    each element (transcendental functions by name). Each row assumes that the others are kept;
    operations that two rows share count in both. For an output that the next function may keep, and
    this one does not, the saving is what the next function would keep.

    Example: `test/Dialect/Tandem/print-saves.mlir`
  }];
  let options = [
    Option<"hidden", "hidden", "int64_t", "0",
           "Elements of a token in a unit; 0 for the number of columns of the first input">,
  ];
}

def FormKernel : Pass<"tandem-form-kernel", "::mlir::ModuleOp"> {
  let summary = "Fuse each graph into one scalar kernel";
  let description = [{
    Replaces each function with a compute policy by a `tandem.kernel`: tensor operations
    and linalg bodies become the scalar arithmetic of one element; everything computed
    only from hyperparameters and literals moves to the prologue, in f64, and is rounded
    to f32 where an element uses it.

    A `linalg.reduce` of all elements of a tensor (a sum, maximum or minimum) becomes a
    `tandem.reduce` over the tensor; with the attribute `tandem.scope = "model"`, over
    all tensors of the launch. Values computed from its result (`tensor.extract`,
    `tensor.splat`, arithmetic on f32) are the same for all elements.

    A graph of matrices becomes a kernel of matrices. Its `linalg.reduce` may also run along
    rows or columns, its vectors have an entry for each row or for each column, and its
    linalg operations may read such a vector along with a matrix. The tensors of any other
    kernel have one dimension, whatever the graph's have.

    Any other graph that is not an element-wise function of its tensors (a gather, a
    transposition) is rejected with a diagnostic.
    Example: `test/Dialect/Tandem/form-kernel.mlir`
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numKernels", "kernels", "Number of kernels formed">,
    Statistic<"numUniforms", "uniforms", "Number of uniform values moved to a prologue">,
  ];
}

def AddMetrics : Pass<"tandem-add-metrics", "::tandem::KernelOp"> {
  let summary = "Measure the effective descent quality inside the kernel";
  let description = [{
    For each param, sums the addends of its named updates (and (b - 1) * s for a decay
    by b) to the intended update, in f64, and adds a `tandem.measure_update` after its
    store. Kernels without this pass have no overhead.

    Example: `test/Dialect/Tandem/add-metrics.mlir`
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numMeasured", "measured", "Number of params measured">];
}

def ApplyPolicy : Pass<"tandem-apply-policy", "::tandem::KernelOp"> {
  let summary = "Compute a kernel's body under its policy";
  let description = [{
    Under the f32 policy every operation stays in f32 and the named updates
    become additions and products.

    Under the component policy every operation rounds to the component format;
    an operation with an f32 scalar rounds to f32 first. A compensated param or
    state is read whole only by its own updates, elsewhere its leading component
    is read. A kernel whose body has planes or components already is left as it
    is; a named update in one is an error.

    Example: `test/Dialect/Tandem/apply-policy.mlir`
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::tandem::mcf::MCFDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [
    Statistic<"numRounded", "rounded", "Number of operations rounded to the component format">,
    Statistic<"numCompensated", "compensated", "Number of updates of expansions">,
  ];
}

def LowerStorage : Pass<"tandem-lower-storage", "::tandem::KernelOp"> {
  let summary = "Spell out decoding and encoding";
  let description = [{
    Replaces `tandem.load` by loads of the storage's planes and its decoding,
    `tandem.store` by its encoding and stores of the planes. Every store canonicalizes
    NaN, on integers, also a store to a plane that the kernel already contains. Storages
    that round by bits get them from `tandem.random_bits`.

    Example: `test/Dialect/Tandem/lower-storage.mlir`
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::tandem::mcf::MCFDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let statistics = [
    Statistic<"numLoads", "loads", "Number of plane loads">,
    Statistic<"numStores", "stores", "Number of plane stores">,
  ];
}

def CheckGradients : Pass<"tandem-check-gradients", "::tandem::KernelOp"> {
  let summary = "Report gradients that are not finite";
  let description = [{
    After each load of a gradient's float plane, raises flag 0 of the launch if the
    element is a NaN or an infinity. The bits are loaded instead, and compared as
    integers. Kernels without this pass have no overhead.

    Example: `test/Dialect/Tandem/check-gradients.mlir`

    ```mlir
    %g = tandem.load_plane %grad[0] : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> bf16
    // becomes
    %bits = tandem.load_plane %grad[0] : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> i16
    %magnitude = arith.andi %bits, %c32767 : i16
    %is_not_finite = arith.cmpi sgt, %magnitude, %c32639 : i16
    tandem.set_flag %is_not_finite[0] : i1
    %g = arith.bitcast %bits : i16 to bf16
    ```
  }];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"numChecked", "checked", "Number of plane loads checked">];
}

def AnalyzeRanges : Pass<"tandem-analyze-ranges"> {
  let summary = "Prove the preconditions of error-free transforms";
  let description = [{
    Finds the sums and products with errors that mcf operations have become, and derives
    their operands' ranges from the operations that lead to them (a sparse data-flow
    analysis). If the first operand of a TwoSum is proved to be the larger one, or to be
    a multiple of the second one's unit in the last place, and the sum cannot overflow,
    three operations with the same bits replace it:

    ```
    x = a + b;  y = (a - x) + b
    ```

    Everything else is left unchanged, and so is every format for which the lemmas that
    justify these rules are not proved. `-tandem-emulate-floats` uses what is proved
    about a transform that stays.

    Ranges are derived from operations: constants, `max` and `min`, absolute values,
    squares and roots, decoded 8-bit floats, and the bounds of errors relative to their
    sums. Of planes and hyperparameters only the formats are known. Planes are not
    checked before a launch, nor are hyperparameters on a device, so that a declared
    domain is not a fact; no declaration can change a bit.

    `report` emits a remark for each transform, at the graph's operation. It names the
    mcf operation, if there is one, and says whether the transform is

    - *proved*: it gives the exact error, unless something overflows;
    - *granted*: the sequence of a Fast2Sum whose order the graph or the algorithm
      guarantees; nothing is elided;
    - *guarded*: the longer sequence of TwoSum, which needs no order;
    - *kept*: a product whose error may underflow, rounded as it is written.

    Example: `test/Dialect/Tandem/analyze-ranges.mlir`

    ```mlir
    // tandem-opt adamw.mlir -tandem-to-kernel=strategy=collage-plus -tandem-analyze-ranges=report
    adamw.mlir:48:14: remark: mcf.grow: fast_two_sum is proved: the second operand is made of
    errors of sums that lead to the first
    ```
  }];
  let options = [Option<"report", "report", "bool", "false",
                        "Make a remark for each error-free transform">];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::arith::ArithDialect"];
  let statistics = [
    Statistic<"numProved", "proved", "Number of transforms proved exact">,
    Statistic<"numGranted", "granted", "Number of Fast2Sums that are granted">,
    Statistic<"numGuarded", "guarded", "Number of TwoSums that stay">,
    Statistic<"numShortened", "shortened", "Number of TwoSums that became shorter">,
  ];
}

def EmulateFloats : Pass<"tandem-emulate-floats", "::tandem::StepOp"> {
  let summary = "Compute small float formats exactly in f32 lanes";
  let description = [{
    A value of an emulated format lives in an f32 that holds it exactly. After
    each operation the lane is rounded by an integer or exact floating-point
    sequence: to nearest, ties to even, with gradual underflow, independent of
    the host's instructions. No small float type and no floating-point
    truncation is left for a backend to get wrong.

    Roundings, loads and stores of the 8-bit formats, which some targets convert
    themselves, become `scaled.encode_float` and `scaled.decode_float`. With
    `half-conversions` those of f16 become conversions from f32 and to it.

    An fma is computed in f64 with rounding to odd, except the residual of a
    product (fma(a, b, -(a*b))), which an f32 fma gives exactly. The error of a
    Fast2Sum, b - ((a + b) - a), is not rounded: it is a number of the format for
    all a and b. Where the range analysis (see `-tandem-analyze-ranges`) proves that
    (a + b) - a, or the residual of a product, is a number of the format, it is not
    rounded either.

    Example: `test/Dialect/Tandem/emulate-floats.mlir`
  }];
  let options = [
    ListOption<"formats", "formats", "std::string",
               "Formats to emulate: bf16, f16, f8E4M3FN, f8E5M2">,
    Option<"halfConversions", "half-conversions", "bool", "false",
           "The target converts between f16 and f32">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::tandem::scaled::ScaledDialect"];
  let statistics = [
    Statistic<"numRoundings", "roundings", "Number of rounding sequences">,
    Statistic<"numElided", "elided", "Number of results that are proved to need none">,
  ];
}

def Simplify : Pass<"tandem-simplify"> {
  let summary = "Fold constants, order factors, remove dead operations";
  let description = [{
    Runs the folders of all operations, and no rewrite patterns: a folder computes
    constants exactly or returns an operand unchanged, so no bit of any result can
    change, and nothing needs to be set up per compilation. Before that, a comparison of
    a float with itself becomes a constant if it is the same for NaN and for numbers
    (`olt` is false, `uge` is true), as LLVM would make it. The factors of each
    `math.fma` get the order in which they are defined, so that CSE finds the same
    product in either order.

    Example: `test/Dialect/Tandem/simplify.mlir`
  }];
}

def SplitPhases : Pass<"tandem-split-phases", "::mlir::ModuleOp"> {
  let summary = "Separate the launches of a kernel";
  let description = [{
    Replaces each `tandem.kernel` by a `tandem.step`. The result of a `tandem.reduce`
    over a tensor or the model exists only when a launch has ended, so that a step has
    these launches, in this order:

    - reductions: a launch for each phase that makes reductions for later ones, with a
      `tandem.partial` for each of its reductions;
    - the main launch, which recomputes what it needs from the earlier ones and writes
      all elements;
    - epilogues, which run once for each row, column, block or tensor and write what its
      elements share, when no launch reads the old entries any more.

    A kernel without reductions and shared entries becomes a step of its main launch. Reductions of
    earlier launches are read by `tandem.reduction_result` and `tandem.load_reduction_result`. No
    other value is passed from launch to launch: a launch reads its planes again.

    If only outputs depend on the last reductions, and on elements only by what params and states
    then hold, such as the operand of the next forward pass with a scale for the whole tensor, the
    launch that makes these reductions writes the params and states. The main launch reads them back
    instead of computing the update again, and writes the outputs. A kernel with metrics, which
    compare the old param with the new one at the end, does not do so.

    In a matrix kernel, a launch over elements is `fused_with_previous` if it needs only those
    reductions of the previous launch that are over its own rows and blocks. It can then run over
    some rows as soon as the previous one has, in one launch with it.

    Example: `test/Dialect/Tandem/split-phases.mlir`, `split-matrices.mlir`,
    `split-operands.mlir`
  }];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [
    Statistic<"numPhases", "phases", "Number of phases of all steps">,
    Statistic<"numLaunches", "launches", "Number of launches that these phases are">
  ];
}

def Tabulate : Pass<"tandem-tabulate", "::tandem::StepOp"> {
  let summary = "Look up what is computed only from a byte";
  let description = [{
    An f32 that depends only on a stored byte and constants, such as the number that a
    code stands for, has 256 values; with a byte that a group shares, such as the
    exponent of a range, 65536. Where computing it takes many operations, a
    `tandem.lookup` takes their place. The table's entries are computed here by the same
    operations, so that no bit changes.

    Tables with rows are for CPUs, whose caches hold them. A GPU's block of threads has
    tables in its shared memory.

    Example: `test/Dialect/Tandem/tabulate.mlir`
  }];
  let options = [
    Option<"rows", "rows", "bool", "true",
           "Whether a byte that a group shares may select a table's row">,
    // Two ports execute some 20 operations in the time of a gather of 16.
    Option<"lookupCost", "lookup-cost", "unsigned", "20",
           "The operations on a vector or a warp that take as long as a lookup">,
    Option<"divisionCost", "division-cost", "unsigned", "20",
           "The operations that take as long as a quotient or a root">];
  let dependentDialects = ["::tandem::TandemDialect"];
  let statistics = [Statistic<"numTables", "tables", "Number of tables">];
}

def Widen : Pass<"tandem-widen", "::tandem::StepOp"> {
  let summary = "Compute several consecutive elements at once";
  let description = [{
    Replaces every element-dependent scalar of each launch's body by a vector of `width`
    elements; uniform values are broadcast. A value that the elements of a group share
    (the entry of a scale's plane, a reduction) stays a scalar; the width is at most the
    smallest group. The arithmetic of each element is unchanged.

    Example: `test/Dialect/Tandem/widen.mlir`
  }];
  let options = [Option<"width", "width", "int64_t", "8", "Elements per step, a power of two up to 256">];
  let dependentDialects = ["::tandem::TandemDialect", "::mlir::vector::VectorDialect"];
  let statistics = [Statistic<"numWidened", "widened", "Number of operations widened">];
}

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_PASSES_TD
