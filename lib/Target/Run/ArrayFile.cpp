//===- ArrayFile.cpp - Arrays in .npy and .safetensors files --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements named arrays, and their reading and writing by path.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/ArrayFile.h"
#include "tandem/Support/PendingFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;

static_assert(sys::IsLittleEndianHost,
              "arrays hold the bytes of their files, which are little-endian");

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
struct DTypeInfo {
  StringLiteral name;
  int64_t size;
};
} // namespace

/// The names and sizes of types, in the order of DType.
static const DTypeInfo infos[] = {
    {"bool", 1}, {"u8", 1},  {"i8", 1},  {"f8E4M3FN", 1}, {"f8E5M2", 1},
    {"u16", 2},  {"i16", 2}, {"f16", 2}, {"bf16", 2},     {"u32", 4},
    {"i32", 4},  {"f32", 4}, {"u64", 8}, {"i64", 8},      {"f64", 8},
};

static const DType allTypes[] = {
    DType::Bool, DType::U8,  DType::I8,  DType::F8E4M3FN, DType::F8E5M2,
    DType::U16,  DType::I16, DType::F16, DType::BF16,     DType::U32,
    DType::I32,  DType::F32, DType::U64, DType::I64,      DType::F64,
};
static_assert(std::size(infos) == std::size(allTypes));

ArrayRef<DType> tandem::getAllDTypes() { return allTypes; }

StringRef tandem::getName(DType type) {
  return infos[static_cast<size_t>(type)].name;
}

int64_t tandem::getSize(DType type) {
  return infos[static_cast<size_t>(type)].size;
}

std::optional<DType> tandem::parseDType(StringRef name) {
  for (DType type : allTypes)
    if (getName(type) == name)
      return type;
  return std::nullopt;
}

std::optional<int64_t> tandem::countBytes(DType type, ArrayRef<int64_t> shape) {
  int64_t size = getSize(type);
  bool isEmpty = false;
  for (int64_t dimension : shape) {
    if (dimension < 0)
      return std::nullopt;
    if (dimension == 0)
      isEmpty = true;
    else if (MulOverflow(size, dimension, size))
      return std::nullopt;
  }
  return isEmpty ? 0 : size;
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

Expected<Array> Array::create(DType type, ArrayRef<int64_t> shape) {
  std::optional<int64_t> size = countBytes(type, shape);
  if (!size)
    return makeArrayError("", "",
                          "a shape has a negative dimension or is too "
                          "large",
                          "give dimensions from 0 whose product fits");
  // Without exceptions, the vector could not report that memory is short.
  constexpr std::align_val_t alignment = AlignedAllocator<uint8_t>::alignment;
  void *probe = ::operator new(*size, alignment, std::nothrow);
  if (!probe)
    return makeArrayError("", "",
                          "there is no memory for " + Twine(*size) + " bytes",
                          "give smaller dimensions");
  ::operator delete(probe, alignment);
  return Array{type, SmallVector<int64_t>(shape), AlignedBytes(*size)};
}

bool Array::reinterpret(DType newType) {
  if (getSize(newType) != getSize(type))
    return false;
  type = newType;
  return true;
}

/// Escapes control characters: names come from files, and these must not reach
/// the terminal.
static std::string escape(StringRef text) {
  std::string result;
  for (unsigned char c : text) {
    if (c >= 0x20 && c != 0x7f)
      result += c;
    else
      result += "\\x" + toHex(StringRef(reinterpret_cast<char *>(&c), 1));
  }
  return result;
}

Error tandem::makeArrayError(StringRef file, StringRef array,
                             const Twine &problem, const Twine &remedy) {
  std::string message;
  if (!file.empty())
    message += ("'" + file + "': ").str();
  if (!array.empty())
    message += ("array '" + array + "': ").str();
  message += (problem + "; " + remedy).str();
  return createStringError(inconvertibleErrorCode(), escape(message));
}

Error tandem::checkArray(StringRef file, StringRef name, const Array &array) {
  std::optional<int64_t> size = countBytes(array.type, array.shape);
  if (!size)
    return makeArrayError(file, name,
                          "the shape has a negative dimension or is too large",
                          "give dimensions from 0 whose product fits");
  if (uint64_t(*size) != array.bytes.size())
    return makeArrayError(file, name,
                          "the shape takes " + Twine(*size) +
                              " bytes, but the array has " +
                              Twine(array.bytes.size()),
                          "make the two agree");
  if (array.type == DType::Bool &&
      any_of(array.bytes, [](uint8_t byte) { return byte > 1; }))
    return makeArrayError(file, name, "a bool is neither 0 nor 1",
                          "store the array as u8");
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Returns the status of a path after following links.
static Expected<sys::fs::file_status> getStatus(StringRef path) {
  sys::fs::file_status status;
  if (std::error_code code = sys::fs::status(path, status))
    return makeArrayError(path, "", code.message(),
                          "check that the path is right and readable");
  return status;
}

/// Opens a regular file. Refuses devices and pipes, since reading these may
/// never end.
static Expected<std::unique_ptr<MemoryBuffer>> openFile(StringRef path) {
  Expected<sys::fs::file_status> status = getStatus(path);
  if (!status)
    return status.takeError();
  if (!sys::fs::is_regular_file(*status))
    return makeArrayError(path, "", "this is not a regular file",
                          "name a .npy or .safetensors file");
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeArrayError(path, "", buffer.getError().message(),
                          "check that the file is readable");
  return std::move(*buffer);
}

static Error readNpy(StringRef path, ArrayMap &arrays) {
  StringRef name = sys::path::stem(path);
  if (name.empty())
    return makeArrayError(path, "", "the file has no name before '.npy'",
                          "rename it to the array's name");
  auto buffer = openFile(path);
  if (!buffer)
    return buffer.takeError();
  Expected<Array> array = parseNpy((*buffer)->getBuffer(), path, name);
  if (!array)
    return array.takeError();
  arrays.emplace(name.str(), std::move(*array));
  return Error::success();
}

/// Returns the paths of the .npy files in a directory, sorted by name.
static Expected<std::vector<std::string>> listNpyFiles(StringRef path) {
  std::vector<std::string> files;
  std::error_code code;
  sys::fs::directory_iterator file(path, code), end;
  for (; !code && file != end; file.increment(code))
    if (sys::path::extension(file->path()) == ".npy")
      files.push_back(file->path());
  if (code)
    return makeArrayError(path, "", code.message(),
                          "check that the directory is readable");
  llvm::sort(files);
  return files;
}

/// Returns the path of the file that marks a directory as incomplete while its
/// files get their names.
static std::string getMark(StringRef path) {
  SmallString<128> mark(path);
  sys::path::append(mark, ".tandem-incomplete");
  return mark.str().str();
}

static Expected<ArrayMap> readDirectory(StringRef path) {
  if (std::string mark = getMark(path); sys::fs::exists(mark))
    return makeArrayError(path, "",
                          "the process that wrote it ended too soon, and its "
                          "arrays may be old and new ones",
                          "write it again, or remove '" + mark +
                              "' if you know that they belong together");
  Expected<std::vector<std::string>> files = listNpyFiles(path);
  if (!files)
    return files.takeError();
  if (files->empty())
    return makeArrayError(path, "", "the directory has no .npy file",
                          "name a directory with one .npy file per array");
  ArrayMap arrays;
  for (const std::string &file : *files)
    if (Error error = readNpy(file, arrays))
      return error;
  return arrays;
}

static Error refuseExtension(StringRef path) {
  return makeArrayError(path, "",
                        "the extension '" + sys::path::extension(path) +
                            "' is not known",
                        "use .npy, .safetensors or a directory");
}

Expected<ArrayMap> tandem::readArrays(StringRef path, ArrayMetadata *metadata) {
  Expected<sys::fs::file_status> status = getStatus(path);
  if (!status)
    return status.takeError();
  if (sys::fs::is_directory(*status))
    return readDirectory(path);
  StringRef extension = sys::path::extension(path);
  if (extension == ".npy") {
    ArrayMap arrays;
    if (Error error = readNpy(path, arrays))
      return error;
    return arrays;
  }
  if (extension != ".safetensors")
    return refuseExtension(path);
  auto buffer = openFile(path);
  if (!buffer)
    return buffer.takeError();
  return parseSafetensors((*buffer)->getBuffer(), path, metadata);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Rewrites an error of the system as one about the path.
static Error explain(StringRef path, Error error) {
  return handleErrors(std::move(error), [&](const ECError &refusal) {
    return makeArrayError(path, "", refusal.convertToErrorCode().message(),
                          "check the directory's permissions and free space");
  });
}

static Error checkNpyMetadata(StringRef path, const ArrayMetadata &metadata) {
  if (metadata.empty())
    return Error::success();
  return makeArrayError(path, "", ".npy files have no place for metadata",
                        "write a .safetensors file");
}

static Error writeFile(StringRef path,
                       function_ref<Error(raw_ostream &)> print) {
  PendingFile file(path);
  Error error = file.write(print);
  return explain(path, error ? std::move(error) : file.commit());
}

static Error writeNpy(StringRef path, const ArrayMap &arrays) {
  if (arrays.size() != 1)
    return makeArrayError(path, "",
                          "a .npy file holds one array, but there are " +
                              Twine(arrays.size()),
                          "write a .safetensors file or a directory");
  const auto &[name, array] = *arrays.begin();
  if (Error error = checkArray(path, name, array))
    return error;
  return writeFile(path, [&array = array](raw_ostream &os) {
    printNpy(os, array);
    return Error::success();
  });
}

/// Checks that each array can name a file.
static Error checkFileNames(StringRef path, const ArrayMap &arrays) {
  if (arrays.empty())
    return makeArrayError(path, "", "there is no array to write",
                          "give at least one array");
  for (const auto &[name, array] : arrays) {
    if (name.empty() || StringRef(name).contains('/') ||
        StringRef(name).contains('\0'))
      return makeArrayError(
          path, name, "the array's name '" + name + "' cannot name a file",
          "rename the array or write a .safetensors file");
    if (Error error = checkArray(path, name, array))
      return error;
  }
  return Error::success();
}

/// Refuses a directory with other .npy files, which would be read back although
/// they were not written.
static Error checkNoOthers(StringRef path, const ArrayMap &arrays) {
  Expected<std::vector<std::string>> files = listNpyFiles(path);
  if (!files)
    return files.takeError();
  for (const std::string &file : *files)
    if (!arrays.count(sys::path::stem(file).str()))
      return makeArrayError(file, "",
                            "this file is none of the arrays to write, but "
                            "would be read back with them",
                            "remove it or name another directory");
  return Error::success();
}

/// Renames the files of one directory to their final names. If the process ends
/// meanwhile, a marker file remains, so that old arrays are not read along with
/// new ones.
static Error commitAll(StringRef path, MutableArrayRef<PendingFile> files) {
  std::string mark = getMark(path);
  if (Error error = writeWholeFile(mark, ""))
    return error;
  for (auto [index, file] : enumerate(files))
    if (Error error = file.commit()) {
      // All files are still the old ones, if there were any.
      if (index == 0)
        sys::fs::remove(mark);
      return error;
    }
  return errorCodeToError(sys::fs::remove(mark));
}

static Error writeFiles(StringRef path, const ArrayMap &arrays) {
  std::vector<PendingFile> files;
  for (const auto &[name, array] : arrays) {
    SmallString<128> file(path);
    sys::path::append(file, name + ".npy");
    Error error =
        files.emplace_back(file).write([&array = array](raw_ostream &os) {
          printNpy(os, array);
          return Error::success();
        });
    if (error)
      return explain(file, std::move(error));
  }
  return explain(path, commitAll(path, files));
}

static Error writeDirectory(StringRef path, const ArrayMap &arrays,
                            bool exists) {
  if (Error error = checkFileNames(path, arrays))
    return error;
  if (exists) {
    if (Error error = checkNoOthers(path, arrays))
      return error;
  } else if (std::error_code code = sys::fs::create_directory(path)) {
    return makeArrayError(path, "", code.message(),
                          "check that its parent exists and is writable");
  }
  Error error = writeFiles(path, arrays);
  if (error && !exists)
    sys::fs::remove(path); // Fails unless it is empty.
  return error;
}

Error tandem::writeArrays(StringRef path, const ArrayMap &arrays,
                          const ArrayMetadata &metadata) {
  bool isDirectory = sys::fs::is_directory(path);
  StringRef extension = sys::path::extension(path);
  if (!isDirectory && extension == ".safetensors")
    return writeFile(path, [&](raw_ostream &os) {
      return printSafetensors(os, path, arrays, metadata);
    });
  if (!isDirectory && !extension.empty() && extension != ".npy")
    return refuseExtension(path);
  if (Error error = checkNpyMetadata(path, metadata))
    return error;
  if (!isDirectory && extension == ".npy")
    return writeNpy(path, arrays);
  return writeDirectory(path, arrays, isDirectory);
}
