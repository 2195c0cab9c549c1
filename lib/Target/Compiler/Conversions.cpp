//===- Conversions.cpp - From one storage to another ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file chooses how values get from one storage to another, and compiles
// these conversions, sums of codes and checks of gradients.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Conversions.h"
#include "ConversionKernels.h"
#include "Session.h"
#include "StorageText.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace tandem;

/// Refuses a storage that the kernel of a conversion does not support.
static llvm::Error checkStorage(StorageAttrInterface storage, bool isMatrix) {
  if (hasTranspose(storage))
    return makeStorageError(storage,
                            "has a transposed copy, which only a layer's pass "
                            "writes; leave out transposed = true");
  if (needsMatrix(storage) && !isMatrix)
    return makeStorageError(storage,
                            "has a scale for each row or block of a matrix; "
                            "convert the tensors as matrices");
  return llvm::Error::success();
}

static llvm::Error checkTensors(const ConversionTensors &tensors) {
  int64_t block = 0;
  for (StorageAttrInterface storage : llvm::concat<const StorageAttrInterface>(
           tensors.targets, tensors.sources)) {
    if (llvm::Error error = checkStorage(storage, tensors.isMatrix))
      return error;
    int64_t size = getBlockSize(storage);
    if (block && size && size != block)
      return makeStorageError(
          storage, "has blocks of " + Twine(size) + " rows beside " +
                       "blocks of " + Twine(block) +
                       "; convert to #tandem.float<f32> between them");
    block = size ? size : block;
  }
  return llvm::Error::success();
}

/// Verifies and compiles the session's module, which a builder has made.
static llvm::Expected<std::unique_ptr<CompiledKernel>>
compileBuilt(SessionModule &session, StringRef chip, bool flags = false) {
  if (failed(verify(*session.module)))
    return session.diagnostics.takeError(TandemErrorStorage);
  CompileOptions options;
  options.target = chip.str();
  options.flags = flags;
  return compileModule(session, options);
}

namespace {
/// Chooses and compiles the kernel of one conversion.
class ConversionCompiler {
public:
  ConversionCompiler(const ConversionOptions &options,
                     StorageAttrInterface source, StorageAttrInterface target)
      : options(options), source(source.getNearest()),
        target(target.getNearest()), ours(this->source.getPlaneSum()),
        theirs(this->target.getPlaneSum()) {}

  llvm::Expected<CompiledConversion> compile(SessionModule &session) {
    CompiledConversion result;
    if (isCopy())
      return result;
    llvm::Error error = isExact() ? buildExact(session, result)
                                  : buildThroughF32(session, result);
    if (error)
      return error;
    auto kernel = compileBuilt(session, options.chip);
    if (!kernel)
      return kernel.takeError();
    result.kernel = std::move(*kernel);
    return result;
  }

private:
  bool isCopy() const {
    bool areSums = ours && theirs && ours->format == theirs->format;
    return !options.adds && (source == target || areSums);
  }

  /// Returns whether the conversion goes from one sum of planes to another
  /// without rounding to f32. A floor applies only to values that were rounded
  /// to f32.
  bool isExact() const {
    return !options.adds && ours && theirs &&
           (!options.hasFloor || theirs->format.isF32());
  }

  llvm::Error buildExact(SessionModule &session, CompiledConversion &result) {
    result.numWritten = theirs->count;
    result.numRead = ours->count;
    session.module = buildRenormalization(session.getContext(), *ours, *theirs);
    return llvm::Error::success();
  }

  llvm::Error buildThroughF32(SessionModule &session,
                              CompiledConversion &result) {
    StorageAttrInterface written = target;
    if (options.isFresh) {
      written = target.withFreshScales();
      bool remembers = llvm::any_of(
          target.getPlanes(), [](const Plane &plane) { return plane.history; });
      result.numLaunches = remembers ? 2 : 1;
    }
    ConversionTensors tensors{{written.getF32Equivalent()},
                              {source.getF32Equivalent()},
                              options.isMatrix,
                              options.hasFloor};
    if (llvm::Error error = checkTensors(tensors))
      return error;
    result.numWritten = tensors.targets[0].getPlanes().size();
    result.numRead = tensors.sources[0].getPlanes().size();
    session.module =
        buildConversion(session.getContext(), tensors, options.adds);
    return llvm::Error::success();
  }

  const ConversionOptions &options;
  StorageAttrInterface source, target;
  /// The sums of planes that the source and the target are, if they are such
  /// sums.
  std::optional<PlaneSum> ours, theirs;
};
} // namespace

llvm::Expected<CompiledConversion>
tandem::compileConversion(const ConversionOptions &options) {
  if (llvm::Error error = checkTarget(options.chip))
    return error;
  SessionModule session;
  auto source = parseStorage(session, options.source);
  if (!source)
    return source.takeError();
  auto target = parseStorage(session, options.target);
  if (!target)
    return target.takeError();
  return ConversionCompiler(options, *source, *target).compile(session);
}

//===----------------------------------------------------------------------===//
// Sums and checks
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::compileSum(llvm::ArrayRef<std::string> sources, StringRef target,
                   StringRef chip) {
  if (sources.empty())
    return ErrorBuilder(TandemErrorArgument)
           << "a sum has no sources; give the storage of one at least";
  if (llvm::Error error = checkTarget(chip))
    return error;
  SessionModule session;
  ConversionTensors tensors;
  for (const std::string &text : sources) {
    auto source = parseStorage(session, text);
    if (!source)
      return source.takeError();
    tensors.sources.push_back(*source);
  }
  auto result = parseStorage(session, target);
  if (!result)
    return result.takeError();
  tensors.targets = {result->getNearest()};
  if (llvm::Error error = checkTensors(tensors))
    return error;
  session.module = buildSum(session.getContext(), tensors);
  return compileBuilt(session, chip);
}

/// Returns whether a plane's elements are floats, by the type in its
/// description.
static bool isFloat(StringRef type) {
  return type.starts_with("f") || type == "bf16";
}

std::vector<unsigned> tandem::getCheckedPlanes(const tdm_kernel_info &info) {
  std::vector<unsigned> planes;
  for (auto [index, plane] : llvm::enumerate(getPlanes(info)))
    if (plane.kind == TDM_ROLE_GRAD && hasEntryPerElement(plane) &&
        isFloat(plane.type))
      planes.push_back(index);
  return planes;
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::compileFiniteCheck(const CompiledKernel &kernel) {
  std::vector<unsigned> planes = getCheckedPlanes(*kernel.info);
  if (planes.empty())
    return ErrorBuilder(TandemErrorGraph)
           << getTitle(*kernel.info) +
                  " has no gradients in floats, the only ones that can hold "
                  "NaN; run it without a check";
  SessionModule session;
  ConversionTensors tensors;
  for (unsigned plane : planes) {
    auto storage = makeFloats(session, getPlanes(*kernel.info)[plane].type);
    if (!storage)
      return storage.takeError();
    tensors.sources.push_back(*storage);
  }
  session.module = buildLoads(session.getContext(), tensors);
  return compileBuilt(session, kernel.target, /*flags=*/true);
}
