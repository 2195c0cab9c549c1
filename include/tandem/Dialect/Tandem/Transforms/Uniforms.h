//===- Uniforms.h - Uniform values of a kernel ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how passes find the source of a uniform value in a
// kernel's prologue, and how they add one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Returns the f64 value in the prologue that a uniform argument of the body
/// was rounded from, or its exact f64 value if it was not rounded.
Value getUniformSource(KernelOp kernel, Value uniform, SequenceBuilder &b);

/// Yields a value from the prologue; returns the body's new argument for it.
Value addUniform(KernelOp kernel, Value value);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H
