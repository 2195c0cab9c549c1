//===- FakeCUDADriver.cpp - A driver without a GPU ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the functions of CUDA's driver that the runtime uses,
// with only the guarantees that it may rely on.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDAState.h"

#include <cstdlib>
#include <cstring>

using namespace fakecuda;

// NOLINTBEGIN(readability-identifier-naming): the driver's names.

#define EXPORT extern "C" FAKE_CUDA_API

/// Begins the body of a call that may be made to fail.
#define ENTER(...)                                                             \
  Locked state;                                                                \
  if (int result = state->enter(__func__, ##__VA_ARGS__))                      \
  return result

/// Refuses a call that may not be made while a stream is captured.
#define CHECK_UNSAFE()                                                         \
  if (int result = state->checkUnsafe(__func__))                               \
  return result

static const std::string machineCode = "machine code of\n";

//===----------------------------------------------------------------------===//
// Devices and contexts
//===----------------------------------------------------------------------===//

EXPORT int cuInit(unsigned) { return success; }

EXPORT int cuDriverGetVersion(int *version) {
  ENTER(false);
  *version = 12040;
  return success;
}

EXPORT int cuGetErrorName(int error, const char **name) {
  static const std::map<int, const char *> names = {
      {errorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {errorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {errorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {errorInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {errorInvalidPTX, "CUDA_ERROR_INVALID_PTX"},
      {errorNotFound, "CUDA_ERROR_NOT_FOUND"},
      {errorCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {errorCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {errorCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {errorCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
      {errorUnknown, "CUDA_ERROR_UNKNOWN"}};
  auto found = names.find(error);
  if (found == names.end())
    return errorInvalidValue;
  *name = found->second;
  return success;
}

EXPORT int cuGetErrorString(int error, const char **text) {
  if (error != errorOutOfMemory)
    return errorInvalidValue;
  *text = "out of memory";
  return success;
}

EXPORT int cuDeviceGetCount(int *count) {
  ENTER(false);
  *count = state->devices;
  return success;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  ENTER(false);
  *device = ordinal + 7;
  return ordinal < state->devices ? success : errorInvalidDevice;
}

EXPORT int cuDeviceGetName(char *name, int length, int device) {
  ENTER(false);
  if (device < 7 || device >= state->devices + 7)
    return errorInvalidDevice;
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return success;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int) {
  ENTER(false);
  *bytes = Memory::size;
  return success;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  ENTER(false);
  const std::map<int, int> values = {{16, 4},
                                     {38, state->cacheBytes},
                                     {41, 1},
                                     {75, state->capability / 10},
                                     {76, state->capability % 10}};
  *value = values.at(attribute);
  return success;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int) {
  ENTER(false);
  ++state->retained;
  *context = &State::get();
  return success;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  --Locked()->retained;
  return success;
}

EXPORT int cuCtxPushCurrent_v2(void *context) {
  ENTER(false);
  if (context != &State::get())
    return errorInvalidContext;
  state->pushContext();
  return success;
}

EXPORT int cuCtxPopCurrent_v2(void **context) {
  Locked state;
  *context = &State::get();
  return state->popContext() ? success : errorInvalidContext;
}

EXPORT int cuCtxSynchronize() {
  ENTER();
  if (int result = state->checkContext(__func__))
    return result;
  state->drainAll();
  return success;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER();
  CHECK_UNSAFE();
  *address = bytes ? state->memory.allocate(bytes) : 0;
  return *address ? success : bytes ? errorOutOfMemory : errorInvalidValue;
}

EXPORT int cuMemFree_v2(uint64_t address) {
  Locked state;
  CHECK_UNSAFE();
  state->drainAll();
  if (!state->memory.ranges.erase(address))
    state->violate("cuMemFree of what is not allocated");
  return success;
}

EXPORT int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  ENTER();
  CHECK_UNSAFE();
  if (flags != 3)
    state->violate("cuMemHostAlloc without portable and mapped");
  *memory = std::malloc(bytes);
  state->hostMemory[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return success;
}

EXPORT int cuMemFreeHost(void *memory) {
  Locked state;
  CHECK_UNSAFE();
  if (!state->hostMemory.erase(reinterpret_cast<uint64_t>(memory)))
    state->violate("cuMemFreeHost of what is not allocated");
  // The device may still be reading the memory, in which case the caller is
  // wrong and the change shows it.
  std::memset(memory, 0xDD, 1);
  std::free(memory);
  return success;
}

static bool holdsHost(const State &state, uint64_t address, uint64_t bytes) {
  auto behind = state.hostMemory.upper_bound(address);
  if (behind == state.hostMemory.begin())
    return false;
  auto [first, length] = *--behind;
  return address + bytes <= first + length;
}

static void copyNow(uint64_t to, uint64_t from, size_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to),
              reinterpret_cast<const void *>(from), bytes);
}

static bool isOnDevice(const State &state, uint64_t address) {
  uint64_t begin = state.memory.begin;
  return address >= begin && address < begin + Memory::size;
}

static bool isKnown(const State &state, uint64_t address, uint64_t bytes) {
  return !isOnDevice(state, address) || state.memory.holds(address, bytes);
}

static bool isPageable(const State &state, uint64_t address, uint64_t bytes) {
  return !isOnDevice(state, address) && !holdsHost(state, address, bytes);
}

/// Copies memory. A copy from pageable memory returns after the bytes are in a
/// buffer of the driver, one within the device returns immediately, and one to
/// pageable memory returns after it is done.
static int copy(State &state, const char *name, uint64_t to, uint64_t from,
                size_t bytes, void *stream) {
  if (!isKnown(state, to, bytes) || !isKnown(state, from, bytes))
    return errorInvalidValue;
  if (isPageable(state, from, bytes)) {
    const char *source = reinterpret_cast<const char *>(from);
    std::vector<char> buffer(source, source + bytes);
    return state.enqueue(name, stream, [to, buffer] {
      std::memcpy(reinterpret_cast<void *>(to), buffer.data(), buffer.size());
    });
  }
  int result = state.enqueue(name, stream, [=] { copyNow(to, from, bytes); });
  if (!result && isPageable(state, to, bytes))
    state.drain(*state.findStream(stream));
  return result;
}

EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes,
                         void *stream) {
  ENTER();
  return copy(*state, __func__, to, from, bytes, stream);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes,
                                void *stream) {
  ENTER();
  auto source = reinterpret_cast<uint64_t>(from);
  return state->enqueue(__func__, stream, [=] {
    State &state = State::get();
    if (!holdsHost(state, source, bytes) || !state.memory.holds(to, bytes))
      state.violate("cuMemcpyHtoDAsync outside of allocations");
    else
      copyNow(to, source, bytes);
  });
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes,
                                void *stream) {
  ENTER();
  return state->enqueue(__func__, stream, [=] {
    State &state = State::get();
    if (!state.memory.holds(from, bytes) || !state.memory.holds(to, bytes))
      state.violate("cuMemcpyDtoDAsync outside of allocations");
    else
      copyNow(to, from, bytes);
  });
}

EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t count,
                            void *stream) {
  ENTER();
  return state->enqueue(__func__, stream, [=] {
    State &state = State::get();
    if (!state.memory.holds(to, 4 * count) || to % 4)
      return state.violate("cuMemsetD32Async outside of allocations");
    for (size_t i = 0; i < count; ++i)
      copyNow(to + 4 * i, reinterpret_cast<uint64_t>(&value), 4);
  });
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *,
                              void **) {
  ENTER();
  CHECK_UNSAFE();
  const char *text = static_cast<const char *>(image);
  if (std::strncmp(text, machineCode.c_str(), machineCode.size()) != 0)
    return errorInvalidImage;
  auto loaded = std::make_unique<ModuleState>();
  loaded->text = text + machineCode.size();
  *module = loaded.get();
  state->modules[*module] = std::move(loaded);
  return success;
}

EXPORT int cuModuleUnload(void *module) {
  Locked state;
  CHECK_UNSAFE();
  // Pending work still needs the code.
  state->drainAll();
  if (!state->modules.erase(module))
    state->violate("cuModuleUnload of what is not loaded");
  return success;
}

EXPORT int cuModuleGetFunction(void **function, void *module,
                               const char *name) {
  ENTER();
  ModuleState &owner = *state->modules.at(module);
  size_t entry = owner.findEntry(name);
  if (entry == std::string::npos)
    return errorNotFound;
  auto found = std::make_unique<FunctionState>();
  *found = {name, owner.text, owner.threadsOf(entry), &owner};
  *function = found.get();
  state->functions[*function] = std::move(found);
  return success;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *function) {
  ENTER();
  if (attribute != 0)
    return errorInvalidValue;
  *value = state->functions.at(function)->threads;
  return success;
}

EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *,
                                                       int threads, size_t) {
  ENTER();
  *blocks = 2048 / threads;
  return success;
}

EXPORT int cuLinkCreate_v2(unsigned count, int *options, void **values,
                           void **link) {
  ENTER();
  auto created = std::make_unique<LinkState>();
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5)
      created->log = static_cast<char *>(values[i]);
    else if (options[i] == 6)
      created->logBytes = reinterpret_cast<size_t>(values[i]);
  *link = created.get();
  state->links[*link] = std::move(created);
  return success;
}

EXPORT int cuLinkAddData_v2(void *link, int type, void *data, size_t size,
                            const char *, unsigned, int *, void **) {
  ENTER();
  LinkState &target = *state->links.at(link);
  const char *text = static_cast<const char *>(data);
  if (type != 1 || text[size - 1] != '\0')
    state->violate("cuLinkAddData needs PTX that ends with a zero");
  if (std::strncmp(text, "//\n", 3) != 0 &&
      std::strncmp(text, ".version", 8) != 0) {
    std::strncpy(target.log, "line 1; fatal: there is no .version",
                 target.logBytes);
    return errorInvalidPTX;
  }
  target.text = machineCode + text;
  return success;
}

EXPORT int cuLinkComplete(void *link, void **data, size_t *size) {
  ENTER();
  LinkState &target = *state->links.at(link);
  *data = target.text.data();
  *size = target.text.size() + 1;
  return success;
}

EXPORT int cuLinkDestroy(void *link) {
  Locked state;
  if (!state->links.erase(link))
    state->violate("cuLinkDestroy of what does not exist");
  return success;
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
  ENTER();
  if (flags != 1)
    state->violate("cuStreamCreate of a stream that waits for others");
  *stream = createStream();
  return success;
}

EXPORT int cuStreamDestroy_v2(void *stream) {
  destroyStream(stream);
  return success;
}

EXPORT int cuStreamSynchronize(void *stream) {
  ENTER();
  StreamState *found = state->findStream(stream);
  if (!found)
    return errorInvalidHandle;
  if (found->capture == captureActive)
    return state->invalidate(*found, __func__, errorCaptureUnsupported);
  if (!stream)
    if (int result = state->checkLegacyStream(__func__))
      return result;
  state->drain(*found);
  return success;
}

EXPORT int cuStreamIsCapturing(void *stream, int *status) {
  ENTER();
  StreamState *found = state->findStream(stream);
  if (!found)
    return errorInvalidHandle;
  for (auto &[handle, other] : state->streams)
    if (!stream && other->isBlocking && other->capture == captureActive)
      return errorCaptureImplicit;
  *status = found->capture;
  return success;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  std::swap(*mode, State::captureMode());
  return success;
}

EXPORT int cuEventCreate(void **event, unsigned flags) {
  ENTER();
  if (flags != 2)
    state->violate("cuEventCreate of an event that takes the time");
  auto created = std::make_unique<EventState>();
  *event = created.get();
  state->events[*event] = std::move(created);
  return success;
}

EXPORT int cuEventRecord(void *event, void *stream) {
  ENTER();
  StreamState *found = state->findStream(stream);
  if (!found)
    return errorInvalidHandle;
  EventState *recorded = state->events.at(event).get();
  recorded->stream = found;
  recorded->isCaptured = found->capture != captureNone;
  long number = ++recorded->recorded;
  return state->enqueue(__func__, stream, [=] {
    if (State::get().events.count(event))
      recorded->reached = number;
  });
}

EXPORT int cuEventSynchronize(void *event) {
  ENTER();
  CHECK_UNSAFE();
  EventState &awaited = *state->events.at(event);
  if (awaited.isCaptured)
    return state->invalidate(*awaited.stream, __func__, errorCapturedEvent);
  while (awaited.reached < awaited.recorded)
    state->runFirst(*awaited.stream);
  return success;
}

EXPORT int cuEventDestroy_v2(void *event) {
  Locked()->events.erase(event);
  return success;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

EXPORT int cuLaunchKernel(void *function, unsigned gridX, unsigned gridY,
                          unsigned gridZ, unsigned blockX, unsigned blockY,
                          unsigned blockZ, unsigned sharedBytes, void *stream,
                          void **parameters, void **extra) {
  ENTER();
  auto found = state->functions.find(function);
  if (found == state->functions.end())
    return errorInvalidHandle;
  FunctionState *launched = found->second.get();
  if (!state->modules.count(launched->module))
    state->violate("cuLaunchKernel of an unloaded module");
  if (!gridX || gridX > 0x7FFFFFFF || gridY != 1 || gridZ != 1 || !blockX ||
      static_cast<int>(blockX) > launched->threads || blockY != 1 ||
      blockZ != 1 || sharedBytes || extra)
    return errorInvalidValue;
  bool isPrologue = launched->threads == 1;
  std::vector<uint64_t> words(isPrologue ? 4 : 7);
  for (size_t i = 0; i < words.size(); ++i)
    std::memcpy(&words[i], parameters[i], sizeof(words[i]));
  return state->enqueue(__func__, stream, [=] {
    State::get().execute(*launched, words, gridX, blockX);
  });
}

// NOLINTEND(readability-identifier-naming)
