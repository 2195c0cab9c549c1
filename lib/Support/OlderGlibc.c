//===- OlderGlibc.c - Functions of newer C libraries ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements, for static builds, the one function of glibc 2.36 that
// LLVM's archives call, for names of temporary files. Without it the library
// runs on glibc 2.35, Ubuntu 22.04's.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);

/// Returns random bits of the system. It takes four bytes at once, which no
/// signal interrupts.
uint32_t arc4random(void) {
  uint32_t word = 0;
  while (getrandom(&word, sizeof(word), 0) != sizeof(word))
    ;
  return word;
}
