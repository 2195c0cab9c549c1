//===- PTXTranslations.h - Translations to PTX ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translations of graphs and kernels to PTX.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_PTXTRANSLATIONS_H
#define TANDEM_LIB_TARGET_PTX_PTXTRANSLATIONS_H

namespace tandem {

/// Registers --tandem-to-ptx and --check-ptx, with the options --chip and
/// --ptx.
void registerPTXTranslations();

} // namespace tandem

#endif // TANDEM_LIB_TARGET_PTX_PTXTRANSLATIONS_H
