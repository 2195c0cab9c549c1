//===- SelfComparison.cpp - A float compared with itself ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the analysis of comparisons of a float with itself.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SelfComparison.h"

using namespace mlir;

std::optional<bool> tandem::compareWithItself(arith::CmpFOp op) {
  using Predicate = arith::CmpFPredicate;
  if (op.getLhs() != op.getRhs())
    return std::nullopt;
  switch (op.getPredicate()) {
  case Predicate::OGT:
  case Predicate::OLT:
  case Predicate::ONE:
    return false;
  case Predicate::UEQ:
  case Predicate::UGE:
  case Predicate::ULE:
    return true;
  default:
    return std::nullopt;
  }
}
