//===- Storages.cpp - Storages in the C API -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the entries of the C API for storages.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Storages.h"
#include "Failure.h"
#include "Handles.h"

using namespace tandem;

struct TandemStorage {
  StorageDescription description;
};

static TandemStorage *createHandle(llvm::Expected<StorageDescription> storage) {
  if (storage)
    return new TandemStorage{std::move(*storage)};
  setLastError(storage.takeError());
  return nullptr;
}

TandemStorage *tandemStorageParse(const char *text) {
  return createHandle(describeStorage(orElse(text, "")));
}
TandemStorage *tandemStorageCreateFloats(const char *format) {
  return createHandle(describeFloats(orElse(format, "")));
}
TandemStorage *tandemStorageCreateWorking(const char *format,
                                          const char *codes) {
  return createHandle(describeWorking(orElse(format, ""), orElse(codes, "")));
}
TandemStorage *tandemStorageCreateSums(const char *format) {
  return createHandle(describeSums(orElse(format, "")));
}
TandemStorage *tandemStorageCreateMatrixCodes(const char *format,
                                              bool isTransposed) {
  return createHandle(describeMatrixCodes(orElse(format, ""), isTransposed));
}

TandemStorage *tandemStorageCreateMasked(const char *format, const char *number,
                                         const char *rounding,
                                         const char *clamp) {
  return createHandle(describeMasked(orElse(format, ""), orElse(number, ""),
                                     orElse(rounding, ""), orElse(clamp, "")));
}
void tandemStorageDestroy(TandemStorage *storage) { delete storage; }

const char *tandemStorageGetText(TandemStorage *storage) {
  return storage->description.text.c_str();
}
intptr_t tandemStorageGetNumPlanes(TandemStorage *storage) {
  return storage->description.planes.size();
}
const tdm_plane_desc *tandemStorageGetPlane(TandemStorage *storage,
                                            intptr_t index) {
  return &storage->description.planes[index];
}
bool tandemStorageIsCoded(TandemStorage *storage) {
  return storage->description.isCoded;
}
bool tandemStorageIsPlain(TandemStorage *storage) {
  return storage->description.isPlain;
}
bool tandemStorageHasF32Value(TandemStorage *storage) {
  return storage->description.hasF32Value;
}

TandemDynamicCode tandemStorageGetDynamicCode(TandemStorage *storage) {
  auto code = storage->description.dynamicCode;
  if (!code)
    return TandemDynamicNone;
  return *code == tandem::scaled::Signedness::Signed ? TandemDynamicSigned
                                                     : TandemDynamicUnsigned;
}
int64_t tandemStorageGetPlainGroup(TandemStorage *storage) {
  return storage->description.plainGroup;
}

const char *tandemStorageWithGivenScales(TandemStorage *storage) {
  return storage->description.withGivenScales.c_str();
}
const char *tandemStorageWithoutHistory(TandemStorage *storage) {
  return storage->description.withoutHistory.c_str();
}
const char *tandemStorageWithoutTranspose(TandemStorage *storage) {
  return storage->description.withoutTranspose.c_str();
}
const char *tandemStorageToNearest(TandemStorage *storage) {
  return storage->description.toNearest.c_str();
}
