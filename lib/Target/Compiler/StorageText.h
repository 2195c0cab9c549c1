//===- StorageText.h - Storages as text -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how storages are parsed, and how messages name them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_STORAGETEXT_H
#define TANDEM_LIB_TARGET_COMPILER_STORAGETEXT_H

#include "Session.h"

namespace tandem {

/// Parses a storage as MLIR spells it.
llvm::Expected<StorageAttrInterface> parseStorage(SessionModule &session,
                                                  StringRef text);

/// Parses a float format such as "bf16".
llvm::Expected<Type> parseFormat(SessionModule &session, StringRef text);

/// Returns the storage with one plane of floats of a format such as "bf16".
llvm::Expected<StorageAttrInterface> makeFloats(SessionModule &session,
                                                StringRef format);

/// Prints the storage as MLIR spells it.
std::string printStorage(StorageAttrInterface storage);

/// Returns an error that says "#tandem.float<bf16> <problem>".
llvm::Error makeStorageError(StorageAttrInterface storage,
                             const Twine &problem);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_STORAGETEXT_H
