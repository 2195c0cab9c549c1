//===- FakeCUDA.h - A driver without a GPU ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what tests do with a library that stands in for CUDA's
// driver where there is no GPU. It has the driver's functions, checks how they
// are called, and lets calls fail. It is as strict as CUDA's documentation:
// work in a stream is done as late as the rules allow, copies return as early
// as they may, streams that do not block ignore the legacy default stream, and
// a call that is forbidden during a capture fails and invalidates it. The
// device's memory can be reached by nothing else, unless a test shares that of
// the process. Kernels are functions of this process, registered by name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_FAKECUDA_H
#define TANDEM_RUNTIME_CTS_FAKECUDA_H

#include "tandem-runtime/tandem_runtime.h"

#include <string>

#define FAKE_CUDA_API __attribute__((visibility("default")))

namespace fakecuda {

/// Gives entries of this name the effect of a function for CPUs. Registering a
/// name again replaces it.
FAKE_CUDA_API void registerEntry(const std::string &name, tdm_cpu_entry entry);
FAKE_CUDA_API void registerPrologue(const std::string &name,
                                    tdm_cpu_prologue prologue);

/// The number of calls so far that can be made to fail: all but those that give
/// something back and those that tell about errors.
FAKE_CUDA_API long calls();

/// Lets the call that comes after \p more others return \p result, once.
FAKE_CUDA_API void failCall(long more, int result);
/// The name of the call that was made to fail last; empty if none was reached.
FAKE_CUDA_API std::string failedCall();
FAKE_CUDA_API void failNothing();

/// The number of calls of a function so far.
FAKE_CUDA_API long callsOf(const std::string &name);

/// The faults of the calls since the last question; empty if there are none.
FAKE_CUDA_API std::string takeViolations();

/// The objects that have not been given back: "2 allocations, 1 event"; empty
/// if there are none.
FAKE_CUDA_API std::string living();

/// The devices that there are, and their compute capability.
FAKE_CUDA_API void setDevices(int count, int capability);

/// Streams and graphs, as an application has them. A stream that blocks and the
/// legacy default stream wait for each other.
FAKE_CUDA_API void *createStream(bool isBlocking = false);
FAKE_CUDA_API void destroyStream(void *stream);
FAKE_CUDA_API void synchronize(void *stream);
FAKE_CUDA_API void beginCapture(void *stream);
FAKE_CUDA_API int endCapture(void *stream);
FAKE_CUDA_API void launchGraph(int graph, void *stream);
FAKE_CUDA_API void destroyGraph(int graph);

} // namespace fakecuda

extern "C" {
/// For kernels that are not registered: executes the kernel \p entry of a PTX
/// text on the words of its parameters. What it may touch are \p num_ranges
/// pairs of an address and a number of bytes. Returns 0 if it did.
typedef int (*fake_cuda_executor)(const char *ptx, const char *entry,
                                  const uint64_t *parameters,
                                  int64_t num_parameters, uint32_t blocks,
                                  uint32_t threads, const uint64_t *ranges,
                                  int64_t num_ranges);
FAKE_CUDA_API void fake_cuda_set_executor(fake_cuda_executor executor);
/// As takeViolations and living; the text is valid until the next call on this
/// thread.
FAKE_CUDA_API const char *fake_cuda_violations(void);
FAKE_CUDA_API const char *fake_cuda_living(void);

/// While not 0, all memory of the process counts as the device's, too.
FAKE_CUDA_API void fake_cuda_share_memory(int shares);
/// While not 0, work in a stream is done at once, as where the host waits for
/// each call.
FAKE_CUDA_API void fake_cuda_work_at_once(int does);
FAKE_CUDA_API void fake_cuda_set_devices(int count);
/// Puts a function into a stream, as a framework puts its own kernels.
typedef void (*fake_cuda_function)(int64_t argument);
FAKE_CUDA_API void fake_cuda_enqueue(void *stream, fake_cuda_function function,
                                     int64_t argument);
/// Streams and graphs for callers in C.
FAKE_CUDA_API void *fake_cuda_create_stream(void);
FAKE_CUDA_API void *fake_cuda_create_blocking_stream(void);
FAKE_CUDA_API void fake_cuda_destroy_stream(void *stream);
FAKE_CUDA_API void fake_cuda_synchronize(void *stream);
FAKE_CUDA_API void fake_cuda_begin_capture(void *stream);
FAKE_CUDA_API int fake_cuda_end_capture(void *stream);
FAKE_CUDA_API int fake_cuda_is_capturing(void *stream);
FAKE_CUDA_API void fake_cuda_launch_graph(int graph, void *stream);
FAKE_CUDA_API void fake_cuda_destroy_graph(int graph);
}

#endif // TANDEM_RUNTIME_CTS_FAKECUDA_H
