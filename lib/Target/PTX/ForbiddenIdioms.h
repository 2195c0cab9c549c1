//===- ForbiddenIdioms.h - PTX that ptxas compiles wrongly ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the search for valid PTX that some release of ptxas is
// known to compile to machine code with another meaning.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_FORBIDDENIDIOMS_H
#define TANDEM_LIB_TARGET_PTX_FORBIDDENIDIOMS_H

#include "PTXInstructions.h"
#include <string>

namespace tandem {

/// Describes each instruction of a function that ends a forbidden idiom: its
/// line, what is wrong with it, and what to write instead. PTX for an earlier
/// chip is compiled for later ones by their drivers, so that an idiom is
/// forbidden on all chips.
std::vector<std::string> findForbiddenIdioms(const PTXFunction &function);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_FORBIDDENIDIOMS_H
