//===- SHA256.h - Content hashes --------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares SHA-256 (FIPS 180-4), the hash of packages and images.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_SHA256_H
#define TANDEM_RUNTIME_LIB_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::runtime {

using Digest = std::array<uint8_t, 32>;

/// The hash of the bytes added so far.
class SHA256 {
public:
  void add(const void *bytes, size_t size);

  /// Returns the hash; no bytes may be added afterwards.
  Digest finish();

private:
  void addBlock(const uint8_t *block);

  std::array<uint32_t, 8> state = {0x6A09E667, 0xBB67AE85, 0x3C6EF372,
                                   0xA54FF53A, 0x510E527F, 0x9B05688C,
                                   0x1F83D9AB, 0x5BE0CD19};
  std::array<uint8_t, 64> rest;
  uint64_t length = 0;
};

/// Returns the hash of \p size bytes.
Digest digestOf(const void *bytes, size_t size);

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_SHA256_H
