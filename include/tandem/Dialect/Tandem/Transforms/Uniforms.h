//===- Uniforms.h - Uniform values of a kernel ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how passes reach from a kernel's body into its prologue:
// where a uniform value comes from, and how to add one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The f64 value in the prologue that a uniform argument of the body was
/// rounded from; where it was not rounded, its exact f64 value.
Value getUniformSource(KernelOp kernel, Value uniform, SequenceBuilder &b);

/// Yields a value from the prologue; returns the body's new argument for it.
Value addUniform(KernelOp kernel, Value value);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_UNIFORMS_H
