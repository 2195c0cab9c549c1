#===- mutations.py - Known faults ------------------------------*- Python -*-===#
# Part of the Tandem project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#===----------------------------------------------------------------------===#
#
# This file lists faults that the tests must find. Each one replaces a text in the sources; a test
# fails if such a text has changed.
#
#===----------------------------------------------------------------------===#
"""`MUTATIONS`: known faults, and the quickest tests that should find each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    #: The effect of the fault.
    fault: str
    file: str
    find: str
    replace: str
    #: Commands in order: `pytest:FILE ARGUMENTS`, `lit:PATH`, `cts:FILTER`.
    tests: tuple[str, ...]

    @property
    def needs_build(self):
        return not self.file.endswith(".py")

    @property
    def switched(self):
        """Returns C++ code that selects the fault or the original at run time, so that one build
        contains all faults; as statements, or as an expression."""
        if "isMutant(" in self.replace:
            return self.replace
        condition = f'isMutant("{self.name}")'
        if self.find.endswith((";", "}")):
            return f"if ({condition}) {{ {self.replace} }} else {{ {self.find} }}"
        return f"({condition} ? ({self.replace}) : ({self.find}))"


def _mutation(name, fault, file, find, replace, *tests):
    return Mutation(name, fault, file, find, replace, tests)


_ARITHMETIC = "pytest:numerics/test_operations.py"
_PTX = "pytest:compiler/test_ptx.py"
_MODEL = "pytest:kernels/test_kernels.py -k test_kinds"
_SCALED = "pytest:numerics/test_scaled.py -k 'storage or residual'"
_RANDOM = "pytest:compiler/test_random_graphs.py -k test_numpy"
_TRIPLES = "pytest:verification/test_verification.py -k half-triples"

MUTATIONS = [
    #===--------------------------------------------------------------------===#
    # Contraction, rounding, flushing
    #===--------------------------------------------------------------------===#
    _mutation(
        "contract", "the back end may fuse a product and a sum",
        "lib/Target/LLVMLowering.cpp",
        "llvm::FPOpFusion::Strict", "llvm::FPOpFusion::Fast",
        "pytest:compiler/test_ptx.py -k 'test_adamw and collage-plus'"),
    _mutation(
        "missing-rn", "one add in the PTX has no .rn",
        "lib/Target/PTX/PTX.cpp",
        "return emitAssembly(**lowered, *machine);",
        """auto text = emitAssembly(**lowered, *machine);
  if (text)
    if (size_t at = text->find("add.rn."); at != std::string::npos)
      text->erase(at + 3, 3);
  return text;""",
        "pytest:compiler/test_ptx.py -k 'test_adamw and fp32'"),
    _mutation(
        "ema-fma", "b * s + x becomes one fma under the f32 policy",
        "lib/Dialect/Tandem/Transforms/ApplyPolicy.cpp",
        "b.add(b.mul(ema.getFactor(), ema.getState()), ema.getAddend())",
        "b.fma(ema.getFactor(), ema.getState(), ema.getAddend())",
        "pytest:kernels/test_kernels.py -k 'test_kinds and adamw and fp32'", _MODEL),
    _mutation(
        "flush-bf16", "subnormal numbers become zero where bf16 is rounded to, as by "
        "vcvtneps2bf16",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "Value rounded = roundMantissa(b, bits, 16);",
        """Value rounded = roundMantissa(b, bits, 16);
  if (isMutant("flush-bf16")) {
    Value least = b.like(bits, 0x00800000);
    Value size = b.andi(bits, b.like(bits, 0x7FFFFFFF));
    rounded = b.select(b.compare(CmpIPredicate::ult, size, least),
                       b.andi(bits, b.like(bits, 0x80000000)), rounded);
  }""",
        "pytest:numerics/test_operations.py -k 'test_operations and bf16'", _MODEL),
    _mutation(
        "bf16-ties", "ties go up instead of to even where bf16 is rounded to",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "b.addi(b.addi(bits, b.like(bits, half)), odd)",
        "b.addi(bits, b.like(bits, half + 1))",
        "pytest:numerics/test_operations.py -k 'test_operations and bf16'", _MODEL),
    _mutation(
        "dropped-rounding", "every difference counts as the error of a sum, and is not "
        "rounded",
        "lib/Dialect/Tandem/Transforms/EmulateFloats.cpp",
        "isa<arith::SubFOp>(op) && matchTransform(op)", "isa<arith::SubFOp>(op)",
        _ARITHMETIC, _MODEL),
    _mutation(
        "uniform-payload", "a NaN of a uniform value keeps its payload, which a rounding to bf16 "
        "carries into the sign",
        "lib/Dialect/Tandem/Transforms/EmulateFloats.cpp",
        "b.select(isNaN, quiet, value)", "value",
        "pytest:numerics/test_nan_payloads.py"),
    _mutation(
        "nan-sign", "copysign takes a NaN's sign, which differs between processors",
        "lib/Dialect/Tandem/Transforms/FormKernel.cpp",
        "state.operands[1] = dropSignOfNaN(body, op->getLoc(), state.operands[1]);",
        ";",
        "pytest:numerics/test_signs.py"),
    _mutation(
        "zeros-alike", "maxnum and minnum take either zero",
        "lib/Target/LLVMLowering.cpp",
        "orderZeros(*translated);", ";",
        "pytest:numerics/test_signs.py"),
    _mutation(
        "joined-moves", "LLVM may join the moves that hide arithmetic from it",
        "lib/Target/PTX/OpaqueArithmetic.cpp",
        "/*hasSideEffects=*/true", "/*hasSideEffects=*/false",
        "pytest:compiler/test_ptx_check.py -k 'test_same_numbers and order and fp32'"),
    _mutation(
        "lost-sum", "LLVM loses a sum, whether it may simplify or not",
        "lib/Target/LLVMLowering.cpp",
        "if (prepare)\n    prepare(*translated);",
        """for (llvm::Function &function : *translated)
    for (llvm::BasicBlock &block : function)
      for (llvm::Instruction &op : block)
        if (op.getOpcode() == llvm::Instruction::FAdd)
          op.replaceAllUsesWith(op.getOperand(0));
  if (prepare)
    prepare(*translated);""",
        "pytest:compiler/test_ptx.py -k 'test_adamw and fp32'"),
    _mutation(
        "any-part", "whatever may stand in place of a number's second part counts as one",
        "lib/Dialect/Tandem/Analysis/RangeAnalysis.cpp",
        "matchPattern(choice.getFalseValue(), m_AnyZeroFloat())", "true",
        "lit:Dialect/Tandem/analyze-ranges.mlir"),
    _mutation(
        "bf16-fma-f32", "an fma of bf16 is one of f32, rounded twice",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "return roundToOddF32(b, makeOdd(b, sum, inexact, grow));",
        "return b.fma(x, y, z);",
        _TRIPLES, _ARITHMETIC),
    _mutation(
        "bf16-fma-f64", "an fma of bf16 is one of f64, rounded twice",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "makeOdd(b, sum, inexact, grow)", "sum",
        _TRIPLES, _ARITHMETIC),
    _mutation(
        "f16-subnormal", "f16 rounds numbers below its smallest normal one as if they "
        "were normal",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "Value rounded = b.select(isSubnormal, subnormal, normal)",
        "Value rounded = isMutant(\"f16-subnormal\")\n"
        "                      ? normal\n"
        "                      : b.select(isSubnormal, subnormal, normal)",
        "pytest:kernels/test_kernels.py -k 'test_instruction_sets and f16'", _MODEL,
        _ARITHMETIC),
    _mutation(
        "overflow-saturates", "a sum beyond the largest number becomes that number",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "format.hasInfinity() ? f32Infinity : f32QuietNaN",
        "maxFiniteAsF32(format)",
        "pytest:kernels/test_kernels.py -k 'test_instruction_sets and f16'", _ARITHMETIC, _MODEL),
    _mutation(
        "fold-plus-zero", "x + 0.0 becomes x, which is wrong for -0.0",
        "lib/Dialect/Tandem/Transforms/Simplify.cpp",
        "getOperation()->walk(foldSelfComparison);",
        """getOperation()->walk(foldSelfComparison);
    getOperation()->walk([](arith::AddFOp op) {
      auto constant = op.getRhs().getDefiningOp<arith::ConstantOp>();
      auto value = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
      if (value && value.getValue().isPosZero())
        op.replaceAllUsesWith(op.getLhs());
    });""",
        "lit:Dialect/Tandem/simplify.mlir"),
    _mutation(
        "nan-payload", "a NaN is stored as it is, not as the canonical one",
        "lib/Dialect/Arith/Utils/SequenceBuilder.cpp",
        "return select(isNaN, like(code, format.canonicalNaN()), code);",
        "return code;",
        "pytest:kernels/test_kernels.py -k 'test_kinds and adamw and fp32'", _MODEL),
    #===--------------------------------------------------------------------===#
    # Error-free transforms
    #===--------------------------------------------------------------------===#
    _mutation(
        "fast-two-sum-swapped", "Fast2Sum takes its operands in the other order",
        "lib/Conversion/MCFToArith/Sequences.cpp",
        "return {sum, b.sub(y, b.sub(sum, x))};",
        "return {sum, b.sub(x, b.sub(sum, y))};",
        _ARITHMETIC, _MODEL),
    _mutation(
        "two-prod-dekker", "two_prod takes Dekker's way, without an fma",
        "lib/Conversion/MCFToArith/Sequences.cpp",
        "Value product = b.mul(x, y);\n"
        "  return {product, b.fma(x, y, b.neg(product))};",
        "return twoProdDekker(b, x, y);",
        "lit:Conversion/MCFToArith", _ARITHMETIC),
    _mutation(
        "grow-order", "grow adds the trailing component before the sum's error",
        "lib/Conversion/MCFToArith/Sequences.cpp",
        "sum = fastTwoSum(b, sum.high, b.add(s[1], sum.low));",
        "sum = fastTwoSum(b, b.add(sum.high, s[1]), sum.low);",
        _ARITHMETIC, _MODEL),
    _mutation(
        "kahan-decays", "what Kahan's compensation holds back is lost when a weight decays",
        "lib/Dialect/Tandem/IR/Storages.cpp",
        "ValueRange{value, parts.getResult(1)}",
        'ValueRange{value, isMutant("kahan-decays") ? value : parts.getResult(1)}',
        "pytest:kernels/test_kernels.py -k 'test_kinds and bf16-kahan'"),
    _mutation(
        "remainder-ties", "the remainder's upper half rounds ties down: two values of a "
        "weight have one code",
        "lib/Dialect/Tandem/IR/Storages.cpp",
        "b.addi(word, b.like(word, 0x8000))", "b.addi(word, b.like(word, 0x7FFF))",
        "pytest:kernels/test_kernels.py -k 'test_kinds and remainder'"),
    #===--------------------------------------------------------------------===#
    # Random bits
    #===--------------------------------------------------------------------===#
    _mutation(
        "philox-rounds", "Philox takes nine rounds",
        "lib/Conversion/Common/RandomBits.cpp",
        "round < 10", "round < 9",
        "pytest:kernels/test_kernels.py -k test_random_bits"),
    _mutation(
        "philox-counter", "the counter's upper word begins one bit too low",
        "lib/Conversion/Common/RandomBits.cpp",
        "b.shr(counter, 32)", "b.shr(counter, 31)",
        "pytest:kernels/test_kernels.py -k test_random_bits", "lit:Conversion/TandemToCPU"),
    _mutation(
        "philox-key", "Philox takes the step for the tensor's key and the key for the "
        "step",
        "lib/Conversion/Common/RandomBits.cpp",
        "splat(source.tensorKey), splat(source.step)",
        'splat(isMutant("philox-key") ? source.step : source.tensorKey),\n'
        'splat(isMutant("philox-key") ? source.tensorKey : source.step)',
        "pytest:kernels/test_kernels.py -k test_random_bits"),
    _mutation(
        "first-ignored", "random bits count from a shard's first element",
        "lib/Conversion/Common/LaunchABI.cpp",
        "b.addi(first, index)", "index",
        "pytest:kernels/test_kernels.py -k 'test_chunks and bf16-stochastic'",
        "pytest:kernels/test_kernels.py -k test_chunks"),
    _mutation(
        "stochastic-off-by-one", "stochastic rounding adds one more than the random bits",
        "lib/Dialect/Tandem/IR/Storages.cpp",
        "b.shr(b.addi(bits, random), 16)",
        "b.shr(b.addi(b.addi(bits, random), b.like(bits, 1)), 16)",
        "pytest:kernels/test_kernels.py -k 'test_stochastic_thresholds and bf16'"),
    _mutation(
        "stochastic-half", "stochastic rounding to f16 draws from half of the numbers",
        "lib/Dialect/Arith/Utils/FloatEmulation.cpp",
        "b.shl(random, count - 16)", "b.shr(b.shl(random, count - 16), 1)",
        "pytest:kernels/test_kernels.py -k 'test_stochastic_thresholds and f16'"),
    #===--------------------------------------------------------------------===#
    # Scales
    #===--------------------------------------------------------------------===#
    _mutation(
        "e8m0-zero", "the code 0 of an E8M0 scale reads as zero, not as 2^-127",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "b.like(bits, 0x00400000)", "b.like(bits, 0)",
        _SCALED, "pytest:kernels/test_recipes.py", "pytest:numerics/test_scaled.py"),
    _mutation(
        "scale-nearest", "a bf16 scale is rounded to nearest, not up",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "b.like(bits, 0xFFFF)", "b.like(bits, 0x7FFF)",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "f16-scale-nearest", "an f16 scale is rounded to nearest, not up",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "b.addi(bits, b.resize(isBelow, bits.getType()))", "bits",
        _SCALED, "pytest:numerics/test_scaled.py", "pytest:numerics/test_codes.py"),
    _mutation(
        "scale-down", "a scale's power of two is the one below",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "b.addi(bits, b.like(bits, f32MantissaMask))", "bits",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "scale-quotient", "values are divided by the scale, not multiplied by its inverse",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "return op.getCode().quantize(b, value, inverse, inputs);",
        "return op.getCode().quantize(b, b.div(value, b.spread(scale, value)), "
        "b.real(scale.getType(), 1.0), inputs);",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "infinity-hidden", "an infinity saturates like a large number",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "op.getCode().hasNaN() ? takeMagnitude(b, value)\n"
        "                                                 : takeMagnitude(b, scale)",
        "takeMagnitude(b, scale)",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "mulaw-make-up", "the mu-law code does not make up for a unit less than 2^24",
        "lib/Dialect/Scaled/IR/MuLawCode.cpp",
        "spacing.makeUp - two * spacing.factor - spacing.first * unit",
        "0u - two * spacing.factor - spacing.first * unit",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "mulaw-tilt", "the mu-law code of four bits without zero rounds linearly in the value",
        "lib/Dialect/Scaled/IR/MuLawCode.cpp",
        "getTilt(b, bits, fractionBits)", "b.like(bits, 0)",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "packed-padding", "what is left of a row's last byte keeps the code of no element",
        "lib/Conversion/TandemToCPU/Blocks.cpp",
        "plane.packed > 1 && !toScratch", "false",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "mulaw-not-finite", "codes of a group that is not finite stay as they come",
        "lib/Dialect/Scaled/IR/MuLawCode.cpp",
        "b.integer(i8, 0)", "b.integer(i8, 0xFF)",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "mulaw-range", "a group beyond the mu-law code's range has the largest scale",
        "lib/Conversion/ScaledToArith/ScaledToArith.cpp",
        "b.select(isInRange, scale, getNaN(b, op.getType(), scale))", "scale",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "permuted-halves", "a GPU packs two halves in the wrong order",
        "lib/Conversion/BytesToNVVM/BytesToNVVM.cpp",
        "0x5410 + 0x2222 * (byte / 2)", "0x1054 + 0x2222 * (byte / 2)",
        _PTX),
    _mutation(
        "any-nan", "a GPU stores the NaN of a value that it has only loaded",
        "lib/Conversion/NaNsToNVVM/NaNsToNVVM.cpp",
        "return isArithmetic(op);", "return true;",
        _PTX, "lit:Conversion/NaNsToNVVM"),
    _mutation(
        "residual-units", "a residual is rounded from one unit less than its largest",
        "lib/Dialect/Tandem/IR/ScaledStorages.cpp",
        "b.muli(units, b.like(units, 127))", "b.muli(units, b.like(units, 126))",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "second-block", "a CPU computes the first of two blocks twice",
        "lib/Conversion/TandemToCPU/Blocks.cpp",
        "getPointers(chunk, next)", "getPointers(chunk, index)",
        _SCALED, "pytest:numerics/test_scaled.py"),
    _mutation(
        "padding-masked", "a GPU's lanes without an element count, whatever zeros make there",
        "lib/Conversion/Common/PaddingLanes.cpp",
        "isZero(evaluateSlice(reduce, evaluateProducts).lookup(value))", "true",
        _PTX),
    _mutation(
        "group-entries", "an entry of a scale belongs to twice as many elements",
        "lib/Conversion/Common/LaunchABI.cpp",
        "llvm::Log2_64(info.group)", "llvm::Log2_64(info.group) + 1",
        _SCALED, "pytest:numerics/test_scaled.py -k test_plan"),
    _mutation(
        "history-order", "a history forgets its newest entry",
        "lib/Conversion/Common/LaunchABI.cpp",
        "i64(op.getPlaneInfo().history - 1), begin",
        "i64(op.getPlaneInfo().history - (isMutant(\"history-order\") ? 2 : 1)), begin",
        "pytest:kernels/test_recipes.py", "pytest:kernels/test_phases.py"),
    #===--------------------------------------------------------------------===#
    # Reductions
    #===--------------------------------------------------------------------===#
    _mutation(
        "sum-order", "a sum over lanes begins with those half a vector apart",
        "lib/Conversion/Common/TreeSum.cpp",
        "odd.push_back(lane + 1);",
        "even.back() = lane / 2;\n"
        "      odd.push_back(lane / 2 + width / 2);",
        "pytest:kernels/test_phases.py -k test_sizes"),
    _mutation(
        "sum-padding", "sums are padded with +0.0",
        "lib/Conversion/Common/TreeSum.cpp",
        "b.select(exists, value, b.real(type, -0.0))",
        "b.select(exists, value, b.real(type, 0.0))",
        "pytest:kernels/test_phases.py -k test_sums_are_padded"),
    _mutation(
        "entries-alike", "a sum of a vector whose entries are alike counts each once per element",
        "lib/Dialect/Tandem/Transforms/FormKernel.cpp",
        "isWhole && per ? *per : Granularity::element", "Granularity::element",
        "pytest:kernels/test_matrix_kernels.py -k entries_alike"),
    _mutation(
        "total-of-parts", "a tensor's parts are added one after the other",
        "runtime/lib/PairwiseSum.h",
        "for (uint64_t bits = count++; bits & 1; bits >>= 1)\n"
        "      value = partial[--depth] + value;",
        "if (depth)\n      value = partial[--depth] + value;",
        "pytest:kernels/test_phases.py -k test_many_parts"),
    #===--------------------------------------------------------------------===#
    # Launches
    #===--------------------------------------------------------------------===#
    _mutation(
        "tail-lane", "a GPU's thread also writes the element behind the last",
        "lib/Conversion/TandemToNVVM/Steps.cpp",
        "b.like(count, lane)", "b.like(count, lane - 1)",
        "pytest:compiler/test_ptx.py -k test_grids", _PTX),
    _mutation(
        "padding-lanes", "lanes beyond the last element raise flags",
        "lib/Conversion/Common/PaddingLanes.cpp",
        "return !condition || !matchPattern(condition, m_Zero());", "return false;",
        "pytest:kernels/test_flags.py -k beyond_the_end"),
    _mutation(
        "tail-block", "a CPU computes the last whole block of a chunk as a partial one",
        "lib/Conversion/TandemToCPU/Blocks.cpp",
        "return b.compare(arith::CmpIPredicate::slt, numbers, limit);",
        "return b.compare(arith::CmpIPredicate::sle, numbers, limit);",
        "pytest:kernels/test_phases.py -k test_sizes", "pytest:numerics/test_scaled.py -k test_kernels",
        "pytest:kernels/test_flags.py"),
    _mutation(
        "planes-swapped", "a kernel takes its second plane for its first",
        "lib/Conversion/Common/LaunchABI.cpp",
        "load(record, pointer, tdm_launch_tensor_size(plane, 0))",
        "load(record, pointer, tdm_launch_tensor_size(plane < 2 ? 1 - plane : plane, 0))",
        "pytest:kernels/test_kernels.py -k 'test_kinds and adamw and fp32'"),
    _mutation(
        "skip-ignored", "a launch on a GPU does not read whether it is skipped",
        "lib/Conversion/Common/LaunchABI.cpp",
        "return {begin, b.select(runs, end, begin)};", "return {begin, end};",
        "pytest:runtime/test_cuda.py -k skipped", "pytest:kernels/test_resume.py -k gpu"),
    _mutation(
        "skip-not-copied", "the runtime does not hand on the word that skips",
        "runtime/lib/CUDA/CUDAPlan.cpp",
        "if (!args.skip)\n    return TDM_OK;", "return TDM_OK;",
        "cts:CUDA*", "pytest:runtime/test_cuda.py -k skipped"),
    _mutation(
        "commit-missing", "what a whole tensor has is not written at the end of a step",
        "runtime/lib/CPU/CPUPlan.cpp",
        "if (epilogue.per == TDM_PER_ELEMENT)",
        'if (isMutant("commit-missing")) continue; else if (epilogue.per == TDM_PER_ELEMENT)',
        "cts:Phase*", "pytest:kernels/test_phases.py -k test_tensor_wide"),
    _mutation(
        "chunk-twice", "two threads take one chunk",
        "runtime/lib/CPU/Launch.cpp",
        "std::min(begin + grain, numChunks)", "std::min(begin + grain + 1, numChunks)",
        "cts:Coverage*"),
    _mutation(
        "gather-order", "of a column's codes that go to a transpose together, the first is the last",
        "lib/Conversion/TandemToNVVM/TransposedStores.cpp",
        "8 * (pieceBytes - bytes)", "0",
        "pytest:kernels/test_transposed.py"),
    _mutation(
        "gather-anywhere", "codes are gathered where they are not aligned, or fewer than fit",
        "lib/Conversion/TandemToNVVM/TransposedStores.cpp",
        "b.compare(arith::CmpIPredicate::eq, low, launch.i64(0))",
        "b.compare(arith::CmpIPredicate::eq, low, low)",
        "pytest:kernels/test_transposed.py"),
    _mutation(
        "environment", "a launch runs in the caller's rounding mode and flushes as it does",
        "runtime/lib/CPU/FloatEnvironment.h",
        "_mm_setcsr(allMasked);", ";",
        "cts:*Environment*"),
    _mutation(
        "lent-threads", "a host program that has no thread to lend leaves a launch undone",
        "runtime/lib/CPU/HostThreads.cpp",
        "counted.calls.load(std::memory_order_relaxed) == 0", "false",
        "cts:HostThreads*"),
    _mutation(
        "stale-tables", "a plan keeps its old pointers where sizes are the same",
        "runtime/lib/TensorTable.cpp",
        "if (planes[plane] != planeWord(tensors[i], plane))\n"
        "        return false;",
        ";",
        "cts:Plan*", "pytest:kernels/test_kernels.py -k test_plan"),
    _mutation(
        "power-f32", "the powers that make beta^t are rounded to f32",
        "lib/Conversion/Common/LaunchABI.cpp",
        "b.mul(state[1], state[1])",
        "b.convert(b.convert(b.mul(state[1], state[1]), builder.getF32Type()), op.getType())",
        "pytest:kernels/test_kernels.py -k test_many_steps"),
    #===--------------------------------------------------------------------===#
    # Files
    #===--------------------------------------------------------------------===#
    _mutation(
        "checksum", "a package's checksum is not looked at",
        "runtime/lib/Package.cpp",
        "std::memcmp(header.digest, digest.data(), digest.size())", "0",
        "cts:Package*"),
    _mutation(
        "cache-digest", "cached machine code is taken without a look at its hash",
        "runtime/lib/Cache/CodeCache.cpp",
        "header.digest == digestOf(code.data(), code.size())", "true",
        "cts:Cache*"),
    _mutation(
        "written-in-place", "files are written under their own names",
        "lib/Support/PendingFile.cpp",
        "code = sys::fs::openFileForWrite(name, descriptor, sys::fs::CD_CreateNew);",
        """name = path;
    code = sys::fs::openFileForWrite(name, descriptor, sys::fs::CD_CreateAlways);""",
        "pytest:runtime/test_crashes.py"),
    #===--------------------------------------------------------------------===#
    # Python
    #===--------------------------------------------------------------------===#
    _mutation(
        "keys-alike", "all parameters of an optimizer draw the same random bits",
        "python/tandem/torch/optim/launch/_launch.py",
        "keys=[bound.key for bound in self.bound_params]", "keys=[0 for bound in self.bound_params]",
        "pytest:pytorch/optim/test_torch_numerics.py -k 'test_follows_the_model and adamw-bf16-stochastic'"),
    _mutation(
        "state-cast", "a loaded state is cast to the weight's type",
        "python/tandem/torch/optim/state/_checkpoint.py",
        "name: Sealed(value) if isinstance(value, torch.Tensor) else value",
        "name: value",
        "pytest:pytorch/optim/test_torch_state.py -k keeps_every_bit",
        "pytest:kernels/test_resume.py -k torch"),
    _mutation(
        "step-not-counted", "a step leaves the count as it was",
        "python/tandem/torch/optim/launch/_runner.py",
        "bound.state[launch.spec.step] = steps[row]",
        "bound.state[launch.spec.step] = steps[row] - 1",
        "pytest:pytorch/optim/test_torch.py -k grad_scaler"),
    _mutation(
        "step-default", "a call without the step's number is step 1",
        "python/tandem/_kernel.py",
        "if name not in values:", "if name not in (values := {name: 1} | dict(values)):",
        "pytest:compiler/test_errors.py -k the_step_has_no_default"),

    #===--------------------------------------------------------------------===#
    # JAX
    #===--------------------------------------------------------------------===#
    _mutation(
        "jax-written-weights", "a conversion goes by codes that the weight has left",
        "python/tandem/jax/_convert_state.py",
        "new[name], other[name])", "new[name], new[name])",
        "pytest:jax/test_jax_convert.py -k written"),
    _mutation(
        "jax-other-groups", "a conversion takes rows that are joined otherwise",
        "python/tandem/jax/_convert_state.py",
        "source.group == target.group or not (", "True or not (",
        "pytest:jax/test_jax_convert.py -k groups_of"),
    _mutation(
        "jax-update-is-near", "an update for optax is the difference, whatever the sum",
        "python/tandem/jax/_optax.py",
        "is_short = (first", "is_short = False & (first",
        "pytest:jax/test_jax_optax.py -k neighbours"),
    _mutation(
        "jax-grad-history", "a skipped step changes the scales of later gradients",
        "python/tandem/jax/_optimizer.py",
        "grads[name] if skipped is None else", "grads[name] if True else",
        "pytest:jax/test_jax_steps.py -k remember"),
    _mutation(
        "zero-skips-apart", "under ZeRO a rank takes a step that another one skips",
        "python/tandem/torch/optim/launch/_runner.py",
        "self.skip_exchange.any(found) if self.skip_exchange else found", "found",
        "pytest:pytorch/distributed/test_torch_zero.py -k skips"),
    _mutation(
        "torch-grad-history", "a skipped step of PyTorch's changes the scales of later gradients",
        "python/tandem/torch/optim/launch/_runner.py",
        """        if self._skipped:
            return True
""", """        if self._skipped:
            launches[0].keep_histories()
            return True
""",
        "pytest:pytorch/optim/test_torch_skips.py -k skipped_steps_with_delayed"),
    _mutation(
        "jax-gpu-numbers", "a GPU gets another number than the CPU for a rate that XLA computes",
        "python/tandem/jax/_gpu.py",
        "jnp.stack([fraction << 29,", "jnp.stack([fraction << 28,",
        "pytest:jax/test_jax_gpu.py -k f32_in_f64"),
    _mutation(
        "jax-gradients-apart", "gradients of weights that devices share are of one device",
        "python/tandem/jax/_launch.py",
        "jax.lax.psum(array, more) if more else array", "array",
        "pytest:jax/test_jax_layers.py -k shards"),
    _mutation(
        "jax-shards-are-whole", "a shard that no spec names is taken for a leaf",
        "python/tandem/jax/_shards.py",
        "missing = sorted(varying_axes(value) - set(axes))", "missing = sorted(set())",
        "pytest:jax/test_jax_steps.py -k shards"),
    _mutation(
        "jax-no-such-class", "a class that does not exist has no loss",
        "python/tandem/jax/nn.py",
        "jnp.where(is_wrong, jnp.nan, 1)", "jnp.where(is_wrong, 1, 1)",
        "pytest:jax/test_jax_products.py -k exist"),

    #===--------------------------------------------------------------------===#
    # Wrappers of several ranks
    #===--------------------------------------------------------------------===#
    _mutation(
        "codes-before-ranks", "gradients are encoded before other ranks add theirs",
        "python/tandem/torch/optim/gradients/_hooks.py",
        "return (_wrappers.has_ranks() and not self.sends_codes",
        "return (False and not self.sends_codes",
        "pytest:pytorch/distributed/test_torch_ranks.py -k 'test_cell and DDP-fp8-lm-plain'"),
    _mutation(
        "left-gradients", "a step keeps gradients that it has encoded itself",
        "python/tandem/torch/optim/gradients/_coded.py",
        "param.grad = None\n            self.release", "pass\n            self.release",
        "pytest:pytorch/distributed/test_torch_ranks.py -k releases"),
    _mutation(
        "shards-are-whole", "what needs whole parameters is computed from shards",
        "python/tandem/torch/optim/_wrappers.py",
        "if reason := _whole_values(spec.kernel):",
        "if False and (reason := _whole_values(spec.kernel)):",
        "pytest:pytorch/distributed/test_torch_ranks.py -k 'test_cell and FSDP1 and LAMB'"),
    _mutation(
        "part-is-whole", "the norm of all gradients is that of a rank's part",
        "python/tandem/torch/optim/_wrappers.py",
        "and _is_created_by_zero():", "and False:",
        "pytest:pytorch/distributed/test_torch_ranks.py -k 'test_cell and ZeRO and max_norm'"),
    _mutation(
        "steps-before-ranks", "backward passes step before other ranks add their gradients",
        "python/tandem/torch/optim/gradients/_hooks.py",
        "self._has_no_ddp = not _wrappers.is_in_ddp(self._groups.params)",
        "self._has_no_ddp = True",
        "pytest:pytorch/distributed/test_torch_ranks.py -k 'test_cell and DDP and gradient_release'"),
    _mutation(
        "absent-reads", "what reads a weight that is only in the state gets NaN",
        "python/tandem/torch/optim/state/_absent.py",
        "return func.__name__ not in _DESCRIBE", "return False",
        "pytest:pytorch/optim/test_torch_notices.py -k averages"),

    #===--------------------------------------------------------------------===#
    # States of PyTorch's optimizers
    #===--------------------------------------------------------------------===#
    _mutation(
        "hooks-outlive", "hooks on parameters keep their optimizer alive",
        "python/tandem/torch/optim/gradients/_hooks.py",
        "        owner = weakref.ref(self)\n\n        def take",
        "        owner = lambda: self\n\n        def take",
        "pytest:pytorch/optim/test_torch_lifetimes.py -k last_reference"),
    _mutation(
        "states-by-position", "states go by position although there are names",
        "python/tandem/torch/optim/state/_matching.py",
        "by_name = ours is not None and theirs is not None", "by_name = False",
        "pytest:pytorch/optim/test_torch_loading.py -k another_order"),
    _mutation(
        "other-weights", "a state joins a weight that it does not complete",
        "python/tandem/torch/optim/state/_store.py",
        "                          if is_other(number, param)}", "                          if False}",
        "pytest:pytorch/optim/test_torch_loading.py -k join"),
    _mutation(
        "planes-uncarried", "state dicts have planes that gloo does not carry",
        "python/tandem/torch/optim/state/_carriers.py",
        "if isinstance(value, torch.Tensor) and value.dtype in CARRIERS else value", "if False else value",
        "pytest:pytorch/optim/test_torch_loading.py -k collective"),
    _mutation(
        "empty-step-releases", "a checkpoint between a pass and a step loses gradients in codes",
        "python/tandem/torch/optim/_optimizer.py",
        "            self._gradients.keep()\n", "",
        "pytest:pytorch/optim/test_torch_dcp.py -k between"),
    _mutation(
        "absent-is-absent", "ranks sum different gradients where one of them has none",
        "python/tandem/torch/optim/launch/_runner.py",
        "if found and not self.gradients.has(param)):", "if False):",
        "pytest:pytorch/distributed/test_torch_rank_states.py -k absent"),
    _mutation(
        "history-twice", "an activation checkpoint advances the scales of a recipe twice",
        "python/tandem/torch/nn/_history.py",
        "return _Hook(pack, frame, recomputes)", "return _Hook(pack, frame, False)",
        "pytest:pytorch/nn/test_torch_checkpoints.py"),
]
