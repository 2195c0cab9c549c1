//===- TestStream.cpp - Streams and graphs of an application --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements streams and graphs of an application.
//
//===----------------------------------------------------------------------===//

#include "TestStream.h"

#include "FakeCUDA.h"
#include "TestDevice.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>

using namespace tandem::cts;

namespace {
/// The functions of a real driver, called in the first device's primary
/// context. A call that fails fails the test.
class RealDriver {
public:
  static RealDriver &get() {
    static RealDriver driver;
    return driver;
  }

  template <typename... Arguments>
  void call(const char *name, Arguments... arguments) {
    expect(0, name, arguments...);
  }

  /// Calls a function that must return \p result.
  template <typename... Arguments>
  void expect(int result, const char *name, Arguments... arguments) {
    invoke(0, "cuCtxPushCurrent_v2", context);
    invoke(result, name, arguments...);
    void *popped = nullptr;
    invoke(0, "cuCtxPopCurrent_v2", &popped);
  }

  /// The graphs that have been captured and can be launched.
  std::map<int, void *> graphs;
  int lastGraph = 0;

private:
  RealDriver() : library(dlopen(std::getenv("TANDEM_CUDA_DRIVER"), RTLD_NOW)) {
    int device = 0;
    invoke(0, "cuInit", 0u);
    invoke(0, "cuDeviceGet", &device, 0);
    invoke(0, "cuDevicePrimaryCtxRetain", &context, device);
  }

  template <typename... Arguments>
  void invoke(int result, const char *name, Arguments... arguments) {
    using Function = int (*)(Arguments...);
    auto function = reinterpret_cast<Function>(dlsym(library, name));
    ASSERT_NE(function, nullptr) << "the driver has no " << name;
    EXPECT_EQ(function(arguments...), result) << name;
  }

  void *library;
  void *context = nullptr;
};
} // namespace

void *tandem::cts::createStream(bool isBlocking) {
  if (isFakeDriver())
    return fakecuda::createStream(isBlocking);
  void *stream = nullptr;
  RealDriver::get().call("cuStreamCreate", &stream, isBlocking ? 0u : 1u);
  return stream;
}

void tandem::cts::destroyStream(void *stream) {
  if (isFakeDriver())
    return fakecuda::destroyStream(stream);
  RealDriver::get().call("cuStreamDestroy_v2", stream);
}

void tandem::cts::synchronize(void *stream) {
  if (isFakeDriver())
    return fakecuda::synchronize(stream);
  RealDriver::get().call("cuStreamSynchronize", stream);
}

void tandem::cts::beginCapture(void *stream) {
  if (isFakeDriver())
    return fakecuda::beginCapture(stream);
  RealDriver::get().call("cuStreamBeginCapture_v2", stream, /*global*/ 0);
}

int tandem::cts::endCapture(void *stream) {
  if (isFakeDriver())
    return fakecuda::endCapture(stream);
  RealDriver &driver = RealDriver::get();
  void *graph = nullptr, *executable = nullptr;
  driver.call("cuStreamEndCapture", stream, &graph);
  driver.call("cuGraphInstantiateWithFlags", &executable, graph,
              static_cast<unsigned long long>(0));
  driver.call("cuGraphDestroy", graph);
  driver.graphs[++driver.lastGraph] = executable;
  return driver.lastGraph;
}

void tandem::cts::expectInvalidatedCapture(void *stream) {
  if (isFakeDriver()) {
    fakecuda::destroyGraph(fakecuda::endCapture(stream));
    EXPECT_NE(fakecuda::takeViolations().find("was invalidated by"),
              std::string::npos);
    return;
  }
  void *graph = nullptr;
  constexpr int invalidated = 901;
  RealDriver::get().expect(invalidated, "cuStreamEndCapture", stream, &graph);
}

void tandem::cts::launchGraph(int graph, void *stream) {
  if (isFakeDriver())
    return fakecuda::launchGraph(graph, stream);
  RealDriver &driver = RealDriver::get();
  driver.call("cuGraphLaunch", driver.graphs.at(graph), stream);
}

void tandem::cts::destroyGraph(int graph) {
  if (isFakeDriver())
    return fakecuda::destroyGraph(graph);
  RealDriver &driver = RealDriver::get();
  driver.call("cuGraphExecDestroy", driver.graphs.at(graph));
  driver.graphs.erase(graph);
}
