//===- Scaled.h - Codes, scales and residuals -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the values of 8-bit strategies, as docs/Numerics.md
// specifies them: codes under the scale that a group of them shares, and
// residuals in fractions of an ulp. Scales of type f8E8M0FNU are integers of 8
// bits here.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_SCALED_H
#define TANDEM_REFERENCE_INTERPRETER_SCALED_H

#include "tandem/Reference/Interpreter/Codes.h"
#include "tandem/Support/LLVM.h"

namespace tandem::reference {

/// Returns the magnitude that an element adds to its group's largest one: that
/// of the number scaled in its place, or zero if that is not finite.
SoftFloat getMagnitude(scaled::CodeAttrInterface code, const SoftFloat &value);

/// Returns the bits of the scale of a group, from its largest magnitude.
uint64_t chooseScale(const SoftFloat &amax, scaled::CodeAttrInterface code,
                     Type type, scaled::Recipe recipe, unsigned margin = 0);

/// Returns the bits of a scale from memory, or those of 1 if they are not a
/// scale.
uint64_t checkScale(uint64_t bits, scaled::CodeAttrInterface code, Type type);

/// Returns the f32 that a scale's bits stand for.
SoftFloat decodeScale(Type type, uint64_t bits);

/// Returns the bits that an element adds to its group's smallest magnitude, or
/// all ones if it adds none.
uint32_t getLeast(const SoftFloat &value);

/// Returns the exponent, in eighths, of a group for a code with a range.
unsigned chooseExponent(scaled::CodeAttrInterface code, const SoftFloat &scale,
                        uint32_t least);

/// Return the codes of a value, one per plane, and the value of codes.
Codes quantize(scaled::CodeAttrInterface code, const SoftFloat &value,
               const SoftFloat &scale, CodeContext context);
SoftFloat dequantize(scaled::CodeAttrInterface code,
                     llvm::ArrayRef<uint64_t> codes, const SoftFloat &scale,
                     CodeContext context);

/// Return the value of hi and its residual, and the two of a value.
SoftFloat decodeResidual(ResidualStorageAttr storage,
                         llvm::ArrayRef<uint64_t> planes);
Codes encodeResidual(ResidualStorageAttr storage, const SoftFloat &value,
                     uint16_t random);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_SCALED_H
