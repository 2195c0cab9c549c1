//===- StorageParts.h - Numbers written and read ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what the parts share that write every f32 in a storage, or
// read every code of one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_STORAGEPARTS_H
#define TANDEM_VERIFY_STORAGEPARTS_H

#include "RandomBits.h"

namespace tandem::verify {

/// Encodes every f32. Each unit draws other random bits.
class WritePart : public Part {
public:
  WritePart(llvm::StringRef name, llvm::StringRef storage,
            std::vector<PlaneDecl> planes,
            Rounding rounding = Rounding::Nearest);

  void fill(Block &block) const override;
  Draw draw(uint64_t unit) const override;

protected:
  /// Returns the random bits of a block's elements, which are valid until the
  /// next call on the same thread. Rounding to nearest ignores them.
  const uint16_t *drawBits(const Block &block) const;

  const Rounding rounding;
};

/// Decodes every code. With two planes of 16 bits, each unit has 2^16 of them.
class ReadPart : public Part {
public:
  ReadPart(llvm::StringRef name, llvm::StringRef storage,
           std::vector<PlaneDecl> planes);

  void fill(Block &block) const override;
};

/// Sets an entry of a plane of bytes or of 16 bits.
void put(Array &array, size_t index, uint16_t code);

/// Returns memory for a block's codes of one byte each, which is valid until
/// the next call on the same thread.
uint8_t *getUnpacked();

/// Writes codes to a plane of bytes that hold `shared` of them: one, or two of
/// four bits, the earlier one in the low half.
void pack(Array &to, const uint8_t *codes, size_t size, unsigned shared);

} // namespace tandem::verify

#endif // TANDEM_VERIFY_STORAGEPARTS_H
