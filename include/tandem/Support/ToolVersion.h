//===- ToolVersion.h - The version that tools print -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the version that command-line tools print.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_TOOLVERSION_H
#define TANDEM_SUPPORT_TOOLVERSION_H

#include "tandem-c/Tandem.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace tandem {

/// Makes `--version` print the versions of Tandem and LLVM.
inline void setToolVersion() {
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) {
    os << "tandem " << tandemGetVersion() << ", LLVM " << LLVM_VERSION_STRING
       << "\n";
  });
}

} // namespace tandem

#endif // TANDEM_SUPPORT_TOOLVERSION_H
