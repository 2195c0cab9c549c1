//===- ArrayFile.h - Arrays in .npy and .safetensors files ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares named arrays and how they are read from and written to
// .npy files, .safetensors files and directories of .npy files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_ARRAYFILE_H
#define TANDEM_TARGET_ARRAYFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include <cassert>
#include <cstdint>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace tandem {

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

/// The type of an array's elements.
enum class DType : uint8_t {
  Bool,
  U8,
  I8,
  F8E4M3FN,
  F8E5M2,
  U16,
  I16,
  F16,
  BF16,
  U32,
  I32,
  F32,
  U64,
  I64,
  F64,
};

/// Returns every type, narrow ones first.
llvm::ArrayRef<DType> getAllDTypes();

/// Returns the name that Tandem uses: bf16, f8E4M3FN, u8, bool.
llvm::StringRef getName(DType type);
std::optional<DType> parseDType(llvm::StringRef name);

/// Returns the number of bytes per element.
int64_t getSize(DType type);

/// Returns the number of bytes of an array, or none if a dimension is negative
/// or the nonzero dimensions multiply to more than an int64_t holds.
std::optional<int64_t> countBytes(DType type, llvm::ArrayRef<int64_t> shape);

/// Allocates memory with the alignment that vector instructions and device
/// copies need.
template <typename T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t alignment{64};

  AlignedAllocator() = default;
  template <typename U>
  AlignedAllocator(const AlignedAllocator<U> &) {}

  T *allocate(size_t count) {
    return static_cast<T *>(::operator new(count * sizeof(T), alignment));
  }
  void deallocate(T *memory, size_t) { ::operator delete(memory, alignment); }

  template <typename U>
  bool operator==(const AlignedAllocator<U> &) const {
    return true;
  }
  template <typename U>
  bool operator!=(const AlignedAllocator<U> &) const {
    return false;
  }
};

using AlignedBytes = std::vector<uint8_t, AlignedAllocator<uint8_t>>;

/// A dense array in C order; its elements are little-endian.
struct Array {
  DType type = DType::U8;
  llvm::SmallVector<int64_t> shape;
  AlignedBytes bytes;

  /// Creates an array of zeros, or returns an error if the shape is impossible.
  static llvm::Expected<Array> create(DType type,
                                      llvm::ArrayRef<int64_t> shape);

  int64_t getElementSize() const { return getSize(type); }
  int64_t getNumElements() const { return bytes.size() / getElementSize(); }

  /// Changes the type to another one of the same width without changing bits,
  /// such as from the u16 of a .npy file to bf16. If the widths differ, changes
  /// nothing and returns false.
  bool reinterpret(DType newType);

  /// Returns the elements as a C++ type of the same width.
  template <typename T>
  llvm::ArrayRef<T> values() const {
    assert(sizeof(T) == size_t(getElementSize()) && "wrong width");
    return {reinterpret_cast<const T *>(bytes.data()),
            bytes.size() / sizeof(T)};
  }
  template <typename T>
  llvm::MutableArrayRef<T> values() {
    assert(sizeof(T) == size_t(getElementSize()) && "wrong width");
    return {reinterpret_cast<T *>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

using ArrayMap = std::map<std::string, Array>;

/// The free text of a .safetensors file, by key.
using ArrayMetadata = std::map<std::string, std::string>;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Reads
///   - `NAME.npy`: one array, called NAME;
///   - `*.safetensors`: all arrays, and into `metadata` the file's metadata;
///   - a directory: every .npy file directly in it; other files are ignored.
/// A .npy file has no bf16 and no 8-bit floats: they come back as u16 and u8.
llvm::Expected<ArrayMap> readArrays(llvm::StringRef path,
                                    ArrayMetadata *metadata = nullptr);

/// Writes
/// - `*.safetensors`: everything;
/// - `*.npy`: the only array, whose name is not kept;
/// - an existing directory, or a path without extension, which is created:
/// one .npy file per array. A .npy file in it that would not be replaced
/// is an error, because it would be read back with the others.
/// Each file appears complete or not at all, and none appears before all of
/// them could be written. A directory that a killed process left with some of
/// them is refused by readArrays.
llvm::Error writeArrays(llvm::StringRef path, const ArrayMap &arrays,
                        const ArrayMetadata &metadata = {});

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// Returns the error "'file': array 'array': problem; remedy", without an array
/// name that is empty.
llvm::Error makeArrayError(llvm::StringRef file, llvm::StringRef array,
                           const llvm::Twine &problem,
                           const llvm::Twine &remedy);

/// Returns an error if an array fits no file format, because of its size or its
/// bool values.
llvm::Error checkArray(llvm::StringRef file, llvm::StringRef name,
                       const Array &array);

/// Parse the formats in memory. `file` is for messages only.
llvm::Expected<Array> parseNpy(llvm::StringRef bytes, llvm::StringRef file,
                               llvm::StringRef name);
llvm::Expected<ArrayMap> parseSafetensors(llvm::StringRef bytes,
                                          llvm::StringRef file,
                                          ArrayMetadata *metadata = nullptr);

/// Print the formats to a stream. `array` must have passed checkArray.
void printNpy(llvm::raw_ostream &os, const Array &array);
llvm::Error printSafetensors(llvm::raw_ostream &os, llvm::StringRef file,
                             const ArrayMap &arrays,
                             const ArrayMetadata &metadata);

} // namespace tandem

#endif // TANDEM_TARGET_ARRAYFILE_H
