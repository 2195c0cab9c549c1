//===- PTXCheck.h - Checks of emitted PTX -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the check that PTX executes the arithmetic of the kernel
// it was made from, with nothing folded, contracted, approximated or flushed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_PTX_PTXCHECK_H
#define TANDEM_TARGET_PTX_PTXCHECK_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <array>

namespace tandem {

/// Operations that round, and the reading of 8-bit floats. Negation, absolute
/// value, other extensions, comparison and selection are free.
enum class RoundingOp { add, sub, mul, fma, div, sqrt, round, read };
enum class RoundingFormat { e4m3, e5m2, bf16, f16, f32, f64 };

/// A count for each operation and format. `round` is the conversion of a wider
/// float to the format, `read` that of the format to a wider one.
class RoundingCounts {
public:
  static constexpr unsigned numOps = 8, numFormats = 6;

  int64_t &at(RoundingOp op, RoundingFormat format) {
    return counts[unsigned(op)][unsigned(format)];
  }
  int64_t at(RoundingOp op, RoundingFormat format) const {
    return counts[unsigned(op)][unsigned(format)];
  }

private:
  std::array<std::array<int64_t, numFormats>, numOps> counts{};
};

/// The arithmetic that a kernel requires.
struct RequiredCounts {
  /// Operations that are executed for each element.
  RoundingCounts perElement;
  /// Operations on uniform values, which a thread executes once for all
  /// elements, or for each.
  RoundingCounts uniform;
  /// Operations that may be missing: roundings of a selected value, which may
  /// be done before the selection, conversions that another one includes, and
  /// intermediate conversions to another format.
  RoundingCounts optional;
  /// The numbers of metrics and partial sums in f64 and in f32, each of which a
  /// block adds up over its step and its chunk.
  int64_t sums = 0, singleSums = 0;
  /// The number of partial sums of rows, each of which a block adds up over a
  /// single step.
  int64_t rowSums = 0;
  /// The number of partial sums of columns, each of which a thread adds up over
  /// the rows of a tile.
  int64_t columnSums = 0;
  /// The number of levels of such a sum above a single row.
  int64_t columnLevels = 0;
  /// The number of fused operations of the prologue. More would be
  /// contractions.
  int64_t prologueFMAs = 0;
};

/// A part of a kernel, and whether it is fused with the launch of the previous
/// one.
struct PartRequirement {
  std::string name;
  RequiredCounts counts;
  bool fusedWithPrevious = false;
};

/// Counts the arithmetic of the launches of a module's `tandem.step`
/// operations, which -tandem-split-phases creates and whose bodies are scalar
/// operations on planes. A format that no GPU computes in is counted as the f32
/// sequence that replaces it, and a conversion that the chip has as itself.
llvm::Expected<std::vector<PartRequirement>>
countRequired(ModuleOp module, llvm::StringRef chip);

/// The error of PTX whose only fault is how often it executes an operation, but
/// not that it fuses one. LLVM's exact simplifications cause this, too: x * 2
/// becomes x + x, x - y and y - x become one operation and a change of sign.
class PTXCountError : public llvm::ErrorInfo<PTXCountError, llvm::StringError> {
public:
  using ErrorInfo::ErrorInfo;
  static char ID;
};

/// Checks the PTX of some parts for a chip, whose threads take `width` elements
/// at once:
///   - each entry's arithmetic is exactly what its part requires, operation by
///     operation and format by format; a launch of several parts has that of
///     all of them, and an addition for each sum of rows, whose parts it
///     combines. Packed instructions count twice; bf16 and f16 divisions and
///     roots are f32 ones and a rounding; before sm_90 a bf16 addition is an
///     fma by 1, a subtraction an fma by -1, a product an fma with -0. Each sum
///     takes the additions of one tree over the block's elements and, except
///     for sums of rows, two for the steps of the chunk;
///   - every instruction on floats is one of a known list, rounds to nearest
///     even where it rounds, and does not flush, approximate or saturate,
///     except from f32 to 8-bit floats;
///   - there is no call that could hide arithmetic;
///   - there is none of the sequences of instructions that some release of
///     ptxas is known to compile wrongly.
/// The message names each difference and the line it shows at. The error is a
/// `PTXCountError` if all differences are of the first kind, and none is an fma
/// too many.
llvm::Error checkPTX(llvm::StringRef ptx, llvm::ArrayRef<PartRequirement> parts,
                     llvm::StringRef chip, int64_t width);

} // namespace tandem

#endif // TANDEM_TARGET_PTX_PTXCHECK_H
