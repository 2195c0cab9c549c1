//===- SHA256Test.cpp - Tests of content hashes ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests SHA-256 with the values that its standard and its designers
// publish, and with all ways to split the input.
//
//===----------------------------------------------------------------------===//

#include "SHA256.h"

#include "gtest/gtest.h"

#include <string>

using namespace tandem::runtime;

static std::string print(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

static std::string hash(const std::string &bytes) {
  SHA256 sha;
  sha.add(bytes.data(), bytes.size());
  return print(sha.finish());
}

TEST(SHA256Test, HasPublishedValues) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b"
                      "7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410f"
                         "f61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(SHA256Test, DoesNotDependOnPieces) {
  std::string bytes;
  for (int i = 0; i < 200; ++i)
    bytes += static_cast<char>(i * 37);
  for (size_t size : {55, 56, 63, 64, 65, 119, 120, 128, 200}) {
    std::string whole = hash(bytes.substr(0, size));
    for (size_t split = 0; split <= size; ++split) {
      SHA256 sha;
      sha.add(bytes.data(), split);
      sha.add(bytes.data() + split, size - split);
      EXPECT_EQ(print(sha.finish()), whole) << size << " at " << split;
    }
  }
}
