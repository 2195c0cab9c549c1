//===- FakeCUDA.h - A driver without a GPU ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the test interface of a library that stands in for CUDA's
// driver if there is no GPU. The library has the driver's functions, checks how
// they are called, and can make calls fail. It is as strict as CUDA's
// documentation: work in a stream runs as late as the rules allow, copies
// return as early as possible, non-blocking streams ignore the legacy default
// stream, and a call that is forbidden during a capture fails and invalidates
// it. Only the driver can access the device's memory, unless a test shares that
// of the process. Kernels are functions of this process, registered by name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_FAKECUDA_H
#define TANDEM_RUNTIME_CTS_FAKECUDA_H

#include "tandem-runtime/tandem_runtime.h"

#include <string>

#define FAKE_CUDA_API __attribute__((visibility("default")))

namespace fakecuda {

/// Makes kernels with this name call a function for CPUs. Registering a name
/// again replaces the function.
FAKE_CUDA_API void registerEntry(const std::string &name, tdm_cpu_entry entry);
FAKE_CUDA_API void registerPrologue(const std::string &name,
                                    tdm_cpu_prologue prologue);

/// Returns the number of calls so far that can be made to fail: all except
/// those that release resources or describe errors.
FAKE_CUDA_API long calls();

/// Makes the call after \p more others return \p result, once.
FAKE_CUDA_API void failCall(long more, int result);
/// Returns the name of the latest call that was made to fail; empty if none was
/// reached.
FAKE_CUDA_API std::string failedCall();
FAKE_CUDA_API void failNothing();

/// Returns the number of calls of a function so far.
FAKE_CUDA_API long callsOf(const std::string &name);

/// Returns the violations of all calls since the previous query; empty if there
/// are none.
FAKE_CUDA_API std::string takeViolations();

/// Returns the objects that have not been released: "2 allocations, 1 event";
/// empty if there are none.
FAKE_CUDA_API std::string living();

/// Sets the number of devices and their compute capability.
FAKE_CUDA_API void setDevices(int count, int capability);
/// Sets the size of the devices' L2 cache in bytes.
FAKE_CUDA_API void setCache(int bytes);

/// Streams and graphs of an application. A blocking stream and the legacy
/// default stream wait for each other.
FAKE_CUDA_API void *createStream(bool isBlocking = false);
FAKE_CUDA_API void destroyStream(void *stream);
FAKE_CUDA_API void synchronize(void *stream);
FAKE_CUDA_API void beginCapture(void *stream);
FAKE_CUDA_API int endCapture(void *stream);
FAKE_CUDA_API void launchGraph(int graph, void *stream);
FAKE_CUDA_API void destroyGraph(int graph);

} // namespace fakecuda

extern "C" {
/// Executes the kernel \p entry of a PTX text, which is not registered, on the
/// words of its parameters. It may access only the memory in \p ranges, which
/// are \p num_ranges pairs of an address and a size in bytes. Returns 0 on
/// success.
typedef int (*fake_cuda_executor)(const char *ptx, const char *entry,
                                  const uint64_t *parameters,
                                  int64_t num_parameters, uint32_t blocks,
                                  uint32_t threads, const uint64_t *ranges,
                                  int64_t num_ranges);
FAKE_CUDA_API void fake_cuda_set_executor(fake_cuda_executor executor);
/// Do the same as takeViolations and living for callers in C. The text is valid
/// until the next call on this thread.
FAKE_CUDA_API const char *fake_cuda_violations(void);
FAKE_CUDA_API const char *fake_cuda_living(void);

/// Sets whether all memory of the process also counts as the device's.
FAKE_CUDA_API void fake_cuda_share_memory(int shares);
/// Sets whether work in a stream runs immediately, as if the host waited for
/// each call.
FAKE_CUDA_API void fake_cuda_work_at_once(int does);
FAKE_CUDA_API void fake_cuda_set_devices(int count);
/// Enqueues a function on a stream, as a framework enqueues its own kernels.
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
