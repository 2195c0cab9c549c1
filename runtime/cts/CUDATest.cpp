//===- CUDATest.cpp - Plans on a GPU --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what only plans on a GPU have.
//
//===----------------------------------------------------------------------===//
