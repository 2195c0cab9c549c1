//===- InitAllTargets.cpp - Register targets ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file registers all targets that are part of Tandem.
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAllTargets.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/PTX/PTX.h"

void tandem::registerAllTargets() {
  static bool once = [] {
    registerCPUTargets();
    registerPTXTarget();
    return true;
  }();
  (void)once;
}
