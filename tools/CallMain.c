//===- CallMain.c - A tool of a static build ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a tool whose main function is in libTandem, under the
// name TANDEM_TOOL_MAIN.
//
//===----------------------------------------------------------------------===//

int TANDEM_TOOL_MAIN(int argc, char **argv);

int main(int argc, char **argv) { return TANDEM_TOOL_MAIN(argc, argv); }
