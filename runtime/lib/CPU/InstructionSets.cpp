//===- InstructionSets.cpp - Instruction sets of this machine -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements which instruction sets this processor has.
//
//===----------------------------------------------------------------------===//

#include "InstructionSets.h"

#include <cstring>
#include <iterator>

using namespace tandem::runtime;

namespace {
/// A name that packages use, and whether this processor runs its code.
struct InstructionSet {
  const char *name;
  bool (*isRun)();
};
} // namespace

// The instruction sets of each architecture, each a superset of the one before
// it.
#if defined(__x86_64__)

static constexpr InstructionSet sets[] = {
    {"x86-64", [] { return true; }},
    {"x86-64-v2", [] { return __builtin_cpu_supports("x86-64-v2") != 0; }},
    {"x86-64-v3", [] { return __builtin_cpu_supports("x86-64-v3") != 0; }},
    {"x86-64-v4", [] { return __builtin_cpu_supports("x86-64-v4") != 0; }}};

static void prepare() { __builtin_cpu_init(); }

const char *tandem::runtime::adviseInstructionSet() {
  return "x86-64, which every x86-64 processor runs";
}

#elif defined(__aarch64__)

static constexpr InstructionSet sets[] = {{"aarch64", [] { return true; }}};

static void prepare() {}

const char *tandem::runtime::adviseInstructionSet() {
  return "aarch64, which every AArch64 processor runs";
}

#else

static constexpr InstructionSet sets[] = {{"", [] { return false; }}};

static void prepare() {}

const char *tandem::runtime::adviseInstructionSet() {
  return "x86-64 or aarch64, since no package has code for other processors";
}

#endif

int tandem::runtime::rankInstructionSet(const char *target) {
  prepare();
  for (const InstructionSet &set : sets)
    if (!std::strcmp(target, set.name))
      return set.isRun() ? static_cast<int>(&set - std::begin(sets)) + 1 : 0;
  return 0;
}
