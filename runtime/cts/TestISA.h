//===- TestISA.h - Instruction sets in tests --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the instruction sets that tests name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_TESTISA_H
#define TANDEM_RUNTIME_CTS_TESTISA_H

namespace tandem::cts {

/// The instruction set that every processor of this architecture has, as
/// messages advise it, and one that none of them has.
#ifdef __aarch64__
inline constexpr char thisISA[] = "aarch64";
inline constexpr char advisedISA[] =
    "aarch64, which every AArch64 processor runs";
inline constexpr char otherISA[] = "x86-64";
#else
inline constexpr char thisISA[] = "x86-64";
inline constexpr char advisedISA[] =
    "x86-64, which every x86-64 processor runs";
inline constexpr char otherISA[] = "aarch64";
#endif

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_TESTISA_H
