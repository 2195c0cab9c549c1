//===- Storages.cpp - Storages in Python ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the storages of the Python extension.
//
//===----------------------------------------------------------------------===//

#include "Storages.h"
#include "Compiler.h"
#include "Errors.h"
#include "tandem-c/Tandem.h"
#include <memory>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

namespace nb = nanobind;

namespace {
/// A parsed storage.
class Storage {
public:
  /// Takes ownership of a handle, or raises the last error if it is null.
  explicit Storage(TandemStorage *storage) : storage(storage) {
    orThrow(storage);
  }
  explicit Storage(const std::string &text)
      : Storage(compiler().tandemStorageParse(text.c_str())) {}
  ~Storage() { compiler().tandemStorageDestroy(storage); }
  Storage(const Storage &) = delete;
  Storage &operator=(const Storage &) = delete;

  static std::unique_ptr<Storage> createFloats(const std::string &format) {
    return std::make_unique<Storage>(
        compiler().tandemStorageCreateFloats(format.c_str()));
  }
  static std::unique_ptr<Storage> createSums(const std::string &format) {
    return std::make_unique<Storage>(
        compiler().tandemStorageCreateSums(format.c_str()));
  }
  static std::unique_ptr<Storage> createWorking(const std::string &format,
                                                const std::string &codes) {
    return std::make_unique<Storage>(
        compiler().tandemStorageCreateWorking(format.c_str(), codes.c_str()));
  }
  static std::unique_ptr<Storage> createMatrixCodes(const std::string &format,
                                                    bool isTransposed) {
    return std::make_unique<Storage>(compiler().tandemStorageCreateMatrixCodes(
        format.c_str(), isTransposed));
  }

  static std::unique_ptr<Storage> createMasked(const std::string &format,
                                               const std::string &number,
                                               const std::string &rounding,
                                               const std::string &clamp) {
    return std::make_unique<Storage>(compiler().tandemStorageCreateMasked(
        format.c_str(), number.c_str(), rounding.c_str(), clamp.c_str()));
  }

  const char *getText() const {
    return compiler().tandemStorageGetText(storage);
  }
  bool isCoded() const { return compiler().tandemStorageIsCoded(storage); }
  bool isPlain() const { return compiler().tandemStorageIsPlain(storage); }
  bool hasF32Value() const {
    return compiler().tandemStorageHasF32Value(storage);
  }
  int64_t getPlainGroup() const {
    return compiler().tandemStorageGetPlainGroup(storage);
  }

  /// Returns whether the dynamic code is signed; none for other codes.
  std::optional<bool> isDynamicSigned() const {
    TandemDynamicCode code = compiler().tandemStorageGetDynamicCode(storage);
    if (code == TandemDynamicNone)
      return std::nullopt;
    return code == TandemDynamicSigned;
  }

  /// Returns the storage with given scales; none if it has no scales that could
  /// be given.
  std::optional<std::string> withGivenScales() const {
    std::string text = compiler().tandemStorageWithGivenScales(storage);
    return text.empty() ? std::nullopt : std::optional(text);
  }
  const char *withoutHistory() const {
    return compiler().tandemStorageWithoutHistory(storage);
  }
  const char *withoutTranspose() const {
    return compiler().tandemStorageWithoutTranspose(storage);
  }
  const char *toNearest() const {
    return compiler().tandemStorageToNearest(storage);
  }

private:
  TandemStorage *storage;
};
} // namespace

void bindStorages(nb::module_ &m) {
  nb::class_<Storage>(m, "Storage")
      .def(nb::init<const std::string &>())
      .def_static("floats", &Storage::createFloats)
      .def_static("sums", &Storage::createSums)
      .def_static("working", &Storage::createWorking)
      .def_static("matrix_codes", &Storage::createMatrixCodes)
      .def_static("masked", &Storage::createMasked)
      .def_prop_ro("text", &Storage::getText)
      .def_prop_ro("is_coded", &Storage::isCoded)
      .def_prop_ro("is_plain", &Storage::isPlain)
      .def_prop_ro("has_f32_value", &Storage::hasF32Value)
      .def_prop_ro("plain_group", &Storage::getPlainGroup)
      .def_prop_ro("is_dynamic_signed", &Storage::isDynamicSigned)
      .def_prop_ro("with_given_scales", &Storage::withGivenScales)
      .def_prop_ro("without_history", &Storage::withoutHistory)
      .def_prop_ro("without_transpose", &Storage::withoutTranspose)
      .def_prop_ro("to_nearest", &Storage::toNearest);
}
