//===- FuzzArrays.cpp - Fuzzing of array files ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-array-fuzz, which reads .npy and .safetensors
// files with random changes to their bytes and to the words of their headers.
// It is built with sanitizers, which end it at the first fault. Accepted files
// must be the same arrays after they are written and read again.
//
//===----------------------------------------------------------------------===//

#include "../../runtime/cts/ByteMutator.h"
#include "TextMutator.h"
#include "tandem/Target/ArrayFile.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstdlib>

using namespace tandem;
using namespace tandem::fuzz;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Initial files
//===----------------------------------------------------------------------===//

static Array makeArray(DType type, llvm::ArrayRef<int64_t> shape) {
  Array array = llvm::cantFail(Array::create(type, shape));
  for (size_t i = 0; i < array.bytes.size(); ++i)
    array.bytes[i] = type == DType::Bool ? i % 2 : i * 37;
  return array;
}

static std::string print(const ArrayMap &arrays,
                         const ArrayMetadata &metadata) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  llvm::cantFail(printSafetensors(os, "fuzz", arrays, metadata));
  return bytes;
}

static std::string print(const Array &array) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  printNpy(os, array);
  return bytes;
}

static std::vector<std::string> makeFiles() {
  std::vector<std::string> files;
  ArrayMap all;
  for (DType type : getAllDTypes()) {
    files.push_back(print(makeArray(type, {2, 3})));
    all.emplace("array." + getName(type).str(), makeArray(type, {3}));
  }
  files.push_back(print(makeArray(DType::F64, {})));
  files.push_back(print(makeArray(DType::U8, {0, 1 << 20})));
  files.push_back(print(all, {{"tandem.step", "7"}, {"a \"b\"", "\u00e9"}}));
  files.push_back(print({{"one", makeArray(DType::BF16, {4, 1, 2})}}, {}));
  return files;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

static bool isNpy(StringRef file) { return file.starts_with("\x93NUMPY"); }

/// Returns the position and the length of the header's text, which follows a
/// length field of 2 or 8 bytes.
static std::pair<size_t, size_t> getHeader(StringRef file) {
  if (isNpy(file))
    return {10, llvm::support::endian::read16le(file.data() + 8)};
  return {8, llvm::support::endian::read64le(file.data())};
}

namespace {
/// Changes words of headers and updates the length fields before them.
class HeaderMutator {
public:
  explicit HeaderMutator(const std::vector<std::string> &files)
      : files(files), mutator(getHeaders(files)) {}

  std::string next(Random &random) const {
    const std::string &file = random.choose(files);
    auto [begin, size] = getHeader(file);
    std::string header = mutator.next(random, 4);
    std::string bytes = file.substr(0, begin);
    if (isNpy(file))
      llvm::support::endian::write16le(bytes.data() + 8, header.size());
    else
      llvm::support::endian::write64le(bytes.data(), header.size());
    return bytes + header + file.substr(begin + size);
  }

private:
  static std::vector<std::string>
  getHeaders(const std::vector<std::string> &files) {
    std::vector<std::string> headers;
    for (StringRef file : files) {
      auto [begin, size] = getHeader(file);
      headers.push_back(file.substr(begin, size).str());
    }
    return headers;
  }

  const std::vector<std::string> &files;
  TextMutator mutator;
};
} // namespace

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static void require(bool holds, const char *what) {
  if (holds)
    return;
  llvm::errs() << "tandem-array-fuzz: " << what << "\n";
  std::abort();
}

static bool isSame(const Array &a, const Array &b) {
  return a.type == b.type && a.shape == b.shape && a.bytes == b.bytes;
}

static bool readNpy(const std::string &bytes) {
  auto array = parseNpy(bytes, "fuzz.npy", "fuzz");
  if (!array) {
    require(StringRef(toString(array.takeError())).contains("; "),
            "a message names no remedy");
    return false;
  }
  auto again = parseNpy(print(*array), "fuzz.npy", "fuzz");
  require(bool(again), "what was written cannot be read");
  require(isSame(*array, *again), "what was written is read as another");
  return true;
}

static bool readSafetensors(const std::string &bytes) {
  ArrayMetadata metadata, metadataAgain;
  auto arrays = parseSafetensors(bytes, "fuzz.safetensors", &metadata);
  if (!arrays) {
    require(StringRef(toString(arrays.takeError())).contains("; "),
            "a message names no remedy");
    return false;
  }
  auto again = parseSafetensors(print(*arrays, metadata), "fuzz.safetensors",
                                &metadataAgain);
  require(bool(again), "what was written cannot be read");
  require(metadata == metadataAgain && arrays->size() == again->size(),
          "what was written is read as another");
  for (const auto &[name, array] : *arrays)
    require(again->count(name) && isSame(array, again->at(name)),
            "what was written is read as another");
  return true;
}

/// Reads the bytes as both formats, whatever they begin with.
static bool readBoth(const std::string &bytes) {
  bool isArray = readNpy(bytes);
  return readSafetensors(bytes) || isArray;
}

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

static int usage() {
  llvm::errs() << "usage: tandem-array-fuzz SECONDS [COUNT [SEED]]\n"
                  "       tandem-array-fuzz --replay FILE...\n";
  return 2;
}

static int replay(llvm::ArrayRef<char *> files) {
  for (const char *file : files) {
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer)
      return usage();
    readBoth((*buffer)->getBuffer().str());
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && StringRef(argv[1]) == "--replay")
    return replay({argv + 2, argv + argc});
  double seconds = argc > 1 ? std::atof(argv[1]) : 0;
  uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : UINT64_MAX;
  uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (seconds <= 0)
    return usage();
  std::vector<std::string> files = makeFiles();
  HeaderMutator headers(files);
  ::tandem::cts::ByteMutator bytes(files, seed);
  Random random(seed);
  auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t done = 0, accepted = 0;
  for (; done < count && std::chrono::steady_clock::now() < end; ++done)
    accepted += readBoth(random.oneIn(3)   ? bytes.next()
                         : random.oneIn(4) ? bytes.change(headers.next(random))
                                           : headers.next(random));
  llvm::outs() << done << " files: " << accepted << " accepted, "
               << done - accepted << " refused\n";
  // If all files or none are accepted, little is tested.
  return accepted == 0 || accepted == done;
}
