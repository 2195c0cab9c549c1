//===- TestStream.h - Streams and graphs of an application ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares streams and graphs of an application, for the driver that
// the tests run with: a GPU's or the stand-in.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_TESTSTREAM_H
#define TANDEM_RUNTIME_CTS_TESTSTREAM_H

namespace tandem::cts {

/// Creates a stream. A blocking stream and the legacy default stream wait for
/// each other.
void *createStream(bool isBlocking = false);
void destroyStream(void *stream);
void synchronize(void *stream);

/// Begins to capture a stream, in CUDA's global mode.
void beginCapture(void *stream);
/// Ends the capture and returns the number of its graph. A capture that a
/// forbidden call has invalidated fails the test.
int endCapture(void *stream);
/// Ends a capture that a forbidden call must have invalidated.
void expectInvalidatedCapture(void *stream);
void launchGraph(int graph, void *stream);
void destroyGraph(int graph);

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_TESTSTREAM_H
