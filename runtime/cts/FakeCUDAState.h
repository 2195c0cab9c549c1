//===- FakeCUDAState.h - A driver without a GPU -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the state of the library that stands in for CUDA's driver.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_FAKECUDASTATE_H
#define TANDEM_RUNTIME_CTS_FAKECUDASTATE_H

#include "FakeCUDA.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace fakecuda {

/// The driver's error codes.
enum Error {
  success = 0,
  errorInvalidValue = 1,
  errorOutOfMemory = 2,
  errorInvalidDevice = 101,
  errorInvalidImage = 200,
  errorInvalidContext = 201,
  errorInvalidPTX = 218,
  errorInvalidHandle = 400,
  errorNotFound = 500,
  errorCaptureUnsupported = 900,
  errorCaptureInvalidated = 901,
  errorCaptureImplicit = 906,
  errorCapturedEvent = 907,
  errorUnknown = 999
};

/// The mode in which a capture began, or in which a thread handles the captures
/// of others.
enum CaptureMode {
  captureGlobal = 0,
  captureThreadLocal = 1,
  captureRelaxed = 2
};
enum CaptureStatus {
  captureNone = 0,
  captureActive = 1,
  captureInvalidated = 2
};

using Work = std::function<void()>;

/// The device's memory: an area that is inaccessible except while work runs.
struct Memory {
  Memory();
  void open();
  void close();
  /// Returns an address, or 0 if there is no room.
  uint64_t allocate(uint64_t bytes);
  /// Returns whether a range of bytes lies inside one allocation.
  bool holds(uint64_t address, uint64_t bytes) const;
  uint64_t roundedTop() const { return (top + 4095) / 4096 * 4096; }

  static constexpr uint64_t size = uint64_t(1) << 32;
  uint64_t begin, top;
  int opened = 0;
  /// Whether memory outside of the area also counts as the device's.
  bool isShared = false;
  /// The sizes of allocations in bytes by their address.
  std::map<uint64_t, uint64_t> ranges;
};

struct StreamState {
  /// Work, numbered in the order in which the host has enqueued it on any
  /// stream.
  struct Item {
    long number;
    Work work;
  };

  std::deque<Item> queue;
  /// Whether the stream and the legacy default stream wait for each other.
  bool isBlocking = false;
  CaptureStatus capture = captureNone;
  CaptureMode captureMode = captureGlobal;
  std::thread::id capturingThread;
  /// The call that has invalidated the capture.
  std::string invalidatedBy;
  std::vector<Work> captured;
};

struct EventState {
  /// The numbers of the latest record in a stream and of the latest one
  /// reached.
  long recorded = 0, reached = 0;
  StreamState *stream = nullptr;
  /// Whether the latest record is a part of a capture.
  bool isCaptured = false;
};

struct ModuleState {
  std::string text;
  /// Returns the position of an entry's declaration in the text.
  size_t findEntry(const std::string &name) const;
  /// Returns the maximum number of threads in a block of the entry declared
  /// there.
  int threadsOf(size_t entry) const;
};

struct FunctionState {
  std::string name, text;
  int threads;
  ModuleState *module;
};

struct LinkState {
  std::string text;
  char *log = nullptr;
  size_t logBytes = 0;
};

struct State {
  static State &get();

  /// Begins a call that may be made to fail, and returns its result in that
  /// case.
  int enter(const char *name, bool needsContext = true);
  void violate(const std::string &what);
  /// Refuses a call that CUDA calls potentially unsafe while streams are
  /// captured, unless this thread's mode allows it. A refused call invalidates
  /// the captures that prohibit it. Returns the call's result.
  int checkUnsafe(const char *name);
  /// Refuses a call that waits for a context with a captured stream,
  /// regardless of the thread's mode.
  int checkContext(const char *name);
  /// Refuses a use of the legacy default stream while a stream that waits for
  /// it is captured.
  int checkLegacyStream(const char *name);
  int invalidate(StreamState &stream, const char *name, int result);
  /// Returns the mode in which this thread handles captures.
  static int &captureMode();
  StreamState *findStream(void *handle);
  int enqueue(const char *name, void *stream, Work work);
  void drainAll();
  /// Runs the stream's work after the work that it waits for.
  void drain(StreamState &stream);
  void runFirst(StreamState &stream);
  /// Runs the work in a stream that was enqueued before a number.
  void drainUntil(StreamState &stream, long number);
  void runPredecessors(const StreamState &stream, long number);
  void pushContext();
  bool popContext();
  void execute(const FunctionState &function,
               const std::vector<uint64_t> &words, unsigned blocks,
               unsigned threads);
  void executeText(const FunctionState &function,
                   const std::vector<uint64_t> &words, unsigned blocks,
                   unsigned threads);
  void checkTables(const FunctionState &function,
                   const std::vector<uint64_t> &words);

  std::recursive_mutex mutex;
  Memory memory;
  bool worksAtOnce = false;
  std::map<uint64_t, uint64_t> hostMemory;
  StreamState defaultStream;
  std::map<void *, std::unique_ptr<StreamState>> streams;
  std::map<void *, std::unique_ptr<EventState>> events;
  std::map<void *, std::unique_ptr<ModuleState>> modules;
  std::map<void *, std::unique_ptr<LinkState>> links;
  /// Functions are kept until the library is unloaded, to detect uses of
  /// functions of unloaded modules.
  std::map<void *, std::unique_ptr<FunctionState>> functions;
  std::map<int, std::vector<Work>> graphs;
  int lastGraph = 0;
  long lastItem = 0;
  std::map<std::string, tdm_cpu_entry> entries;
  std::map<std::string, tdm_cpu_prologue> prologues;
  fake_cuda_executor executor = nullptr;
  int devices = 1, capability = 90, retained = 0;
  int cacheBytes = 50 << 20;
  long numCalls = 0, failing = -1;
  int failure = 0;
  std::string failed, violations;
  std::map<std::string, long> counts;
};

/// Access to the state for one thread at a time.
class Locked {
public:
  Locked() : lock(State::get().mutex) {}
  State *operator->() const { return &State::get(); }
  State &operator*() const { return State::get(); }

private:
  std::lock_guard<std::recursive_mutex> lock;
};

} // namespace fakecuda

#endif // TANDEM_RUNTIME_CTS_FAKECUDASTATE_H
