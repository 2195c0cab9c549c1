//===- FakeCUDA.cpp - A driver without a GPU ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the state of the library that stands in for CUDA's
// driver: memory, streams, kernels, and checks of its callers.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDAState.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace fakecuda;

State &State::get() {
  static State *state = new State;
  return *state;
}

void State::violate(const std::string &what) { violations += what + "\n"; }

int &State::captureMode() {
  static thread_local int mode = 0;
  return mode;
}

//===----------------------------------------------------------------------===//
// Captures
//===----------------------------------------------------------------------===//

int State::invalidate(StreamState &stream, const char *name, int result) {
  stream.capture = captureInvalidated;
  stream.invalidatedBy = name;
  return result;
}

/// Returns whether the capture of \p stream prohibits unsafe calls on this
/// thread.
static bool prohibitsUnsafe(const StreamState &stream) {
  if (stream.capture != captureActive)
    return false;
  bool isOwn = stream.capturingThread == std::this_thread::get_id();
  switch (State::captureMode()) {
  case captureGlobal:
    return isOwn ? stream.captureMode != captureRelaxed
                 : stream.captureMode == captureGlobal;
  case captureThreadLocal:
    return isOwn && stream.captureMode != captureRelaxed;
  default:
    return false;
  }
}

int State::checkUnsafe(const char *name) {
  int result = success;
  for (auto &[handle, stream] : streams)
    if (prohibitsUnsafe(*stream))
      result = invalidate(*stream, name, errorCaptureUnsupported);
  return result;
}

int State::checkContext(const char *name) {
  int result = success;
  for (auto &[handle, stream] : streams)
    if (stream->capture == captureActive)
      result = invalidate(*stream, name, errorCaptureUnsupported);
  return result;
}

int State::checkLegacyStream(const char *name) {
  int result = success;
  for (auto &[handle, stream] : streams)
    if (stream->capture == captureActive && stream->isBlocking)
      result = invalidate(*stream, name, errorCaptureImplicit);
  return result;
}

//===----------------------------------------------------------------------===//
// Memory of the device
//===----------------------------------------------------------------------===//

Memory::Memory() {
  void *area = mmap(nullptr, size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  begin = reinterpret_cast<uint64_t>(area);
  top = begin;
}

void Memory::open() {
  if (opened++ == 0 && top > begin)
    mprotect(reinterpret_cast<void *>(begin), roundedTop() - begin,
             PROT_READ | PROT_WRITE);
}

void Memory::close() {
  if (--opened == 0 && top > begin)
    mprotect(reinterpret_cast<void *>(begin), roundedTop() - begin, PROT_NONE);
}

uint64_t Memory::allocate(uint64_t bytes) {
  // Addresses are reused only after all memory has been freed, so that uses of
  // freed memory are detected.
  if (ranges.empty())
    top = begin;
  uint64_t rounded = (bytes + 255) / 256 * 256 + 256;
  if (rounded > begin + size - top)
    return 0;
  uint64_t address = top;
  top += rounded;
  ranges[address] = bytes;
  open();
  std::memset(reinterpret_cast<void *>(address), 0xA5, bytes);
  close();
  return address;
}

bool Memory::holds(uint64_t address, uint64_t bytes) const {
  if (isShared && address && (address < begin || address >= begin + size))
    return true;
  auto behind = ranges.upper_bound(address);
  if (behind == ranges.begin())
    return false;
  auto [first, length] = *--behind;
  return address + bytes <= first + length;
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

void State::drain(StreamState &stream) {
  if (&stream == &defaultStream)
    runPredecessors(stream, lastItem + 1);
  drainUntil(stream, lastItem + 1);
}

void State::drainUntil(StreamState &stream, long number) {
  while (!stream.queue.empty() && stream.queue.front().number < number)
    runFirst(stream);
}

/// Runs the work that a stream waits for: the legacy default stream and
/// blocking streams wait for each other.
void State::runPredecessors(const StreamState &stream, long number) {
  if (stream.isBlocking)
    return drainUntil(defaultStream, number);
  if (&stream != &defaultStream)
    return;
  for (auto &[handle, other] : streams)
    if (other->isBlocking)
      drainUntil(*other, number);
}

void State::runFirst(StreamState &stream) {
  StreamState::Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  runPredecessors(stream, item.number);
  memory.open();
  item.work();
  memory.close();
}

/// Returns the stream of \p handle, which is NULL for the default stream.
StreamState *State::findStream(void *handle) {
  if (!handle)
    return &defaultStream;
  auto found = streams.find(handle);
  if (found != streams.end())
    return found->second.get();
  violate("a stream does not exist");
  return nullptr;
}

void State::drainAll() {
  // Non-blocking streams run before the default stream, so that they do not see
  // its pending work.
  for (auto &[handle, stream] : streams)
    drain(*stream);
  drain(defaultStream);
}

int State::enqueue(const char *name, void *handle, Work work) {
  StreamState *stream = findStream(handle);
  if (!stream)
    return errorInvalidHandle;
  if (!handle)
    if (int result = checkLegacyStream(name))
      return result;
  if (stream->capture == captureInvalidated)
    return errorCaptureInvalidated;
  if (stream->capture == captureActive)
    stream->captured.push_back(std::move(work));
  else
    stream->queue.push_back({++lastItem, std::move(work)});
  if (worksAtOnce)
    drainAll();
  return success;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static thread_local std::vector<int> contexts;

int State::enter(const char *name, bool needsContext) {
  ++counts[name];
  ++numCalls;
  if (needsContext && contexts.empty())
    violate(std::string(name) + " without a context");
  if (numCalls - 1 != failing)
    return success;
  failed = name;
  return failure;
}

void State::pushContext() { contexts.push_back(0); }
bool State::popContext() {
  if (contexts.empty())
    return false;
  contexts.pop_back();
  return true;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

size_t ModuleState::findEntry(const std::string &name) const {
  std::string declaration = ".entry " + name;
  for (size_t at = text.find(declaration); at != std::string::npos;
       at = text.find(declaration, at + 1)) {
    char next = text[at + declaration.size()];
    if (!std::isalnum(static_cast<unsigned char>(next)) && next != '_')
      return at;
  }
  return std::string::npos;
}

int ModuleState::threadsOf(size_t entry) const {
  size_t body = text.find('{', entry), limit = text.find(".maxntid", entry);
  return limit < body ? std::atoi(text.c_str() + limit + 8) : 1024;
}

/// Checks that the tables of a launch are in the device's memory.
void State::checkTables(const FunctionState &function,
                        const std::vector<uint64_t> &words) {
  uint64_t flags = words[4];
  bool isFine = memory.holds(words[0], 40) && memory.holds(words[1], 0) &&
                memory.holds(words[2], 0) && memory.holds(words[3], 0) &&
                memory.holds(flags, 8) && flags % 4 == 0 && words[5] < words[6];
  if (!isFine)
    violate(function.name + " has a table that is not the device's");
}

template <typename T>
static T *pointer(uint64_t address) {
  return reinterpret_cast<T *>(address);
}

void State::executeText(const FunctionState &function,
                        const std::vector<uint64_t> &words, unsigned blocks,
                        unsigned threads) {
  std::vector<uint64_t> ranges;
  for (const auto *known : {&memory.ranges, &hostMemory})
    for (auto [address, bytes] : *known)
      ranges.insert(ranges.end(), {address, bytes});
  if (memory.isShared) {
    constexpr uint64_t first = 4096, last = uint64_t(1) << 47;
    uint64_t end = memory.begin + Memory::size;
    ranges = {first, memory.begin - first, end, last - end};
    for (auto [address, bytes] : memory.ranges)
      ranges.insert(ranges.end(), {address, bytes});
  }
  if (!executor ||
      executor(function.text.c_str(), function.name.c_str(), words.data(),
               static_cast<int64_t>(words.size()), blocks, threads,
               ranges.data(), static_cast<int64_t>(ranges.size() / 2)))
    violate(function.name + " cannot be executed");
}

void State::execute(const FunctionState &function,
                    const std::vector<uint64_t> &words, unsigned blocks,
                    unsigned threads) {
  auto prologue = prologues.find(function.name);
  if (prologue != prologues.end())
    return prologue->second(
        pointer<const double>(words[0]), pointer<const int64_t>(words[1]),
        pointer<uint32_t>(words[2]), static_cast<int64_t>(words[3]));
  if (words.size() == 7)
    checkTables(function, words);
  auto entry = entries.find(function.name);
  if (entry == entries.end())
    return executeText(function, words, blocks, threads);
  auto *flags = pointer<uint32_t>(words[4]);
  if (flags[1] == 0)
    entry->second(pointer<void>(words[0]), pointer<void>(words[1]),
                  pointer<uint32_t>(words[2]), pointer<void>(words[3]), flags,
                  static_cast<int64_t>(words[5]),
                  static_cast<int64_t>(words[6]));
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void fakecuda::registerEntry(const std::string &name, tdm_cpu_entry entry) {
  Locked state;
  state->entries[name] = entry;
}

void fakecuda::registerPrologue(const std::string &name,
                                tdm_cpu_prologue prologue) {
  Locked state;
  state->prologues[name] = prologue;
}

long fakecuda::calls() { return Locked()->numCalls; }

void fakecuda::failCall(long more, int result) {
  Locked state;
  state->failing = state->numCalls + more;
  state->failure = result;
  state->failed.clear();
}

std::string fakecuda::failedCall() { return Locked()->failed; }
void fakecuda::failNothing() { Locked()->failing = -1; }
long fakecuda::callsOf(const std::string &name) {
  return Locked()->counts[name];
}

std::string fakecuda::takeViolations() {
  return std::exchange(Locked()->violations, "");
}

std::string fakecuda::living() {
  Locked state;
  const std::pair<size_t, const char *> kinds[] = {
      {state->memory.ranges.size(), " allocations"},
      {state->hostMemory.size(), " host allocations"},
      {state->modules.size(), " modules"},
      {state->links.size(), " links"},
      {state->events.size(), " events"},
      {state->streams.size(), " streams"},
      {static_cast<size_t>(state->retained), " contexts"},
      {static_cast<size_t>(State::captureMode()), " as capture mode"}};
  std::string text;
  for (auto [count, kind] : kinds)
    if (count)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + kind;
  return text;
}

void fakecuda::setDevices(int count, int capability) {
  Locked state;
  state->devices = count;
  state->capability = capability;
}

void fakecuda::setCache(int bytes) {
  Locked state;
  state->cacheBytes = bytes;
}

void *fakecuda::createStream(bool isBlocking) {
  Locked state;
  auto stream = std::make_unique<StreamState>();
  stream->isBlocking = isBlocking;
  void *handle = stream.get();
  state->streams[handle] = std::move(stream);
  return handle;
}

void fakecuda::destroyStream(void *stream) {
  Locked state;
  state->drain(*state->streams[stream]);
  state->streams.erase(stream);
}

void fakecuda::synchronize(void *stream) {
  Locked state;
  state->drain(*state->findStream(stream));
}

void fakecuda::beginCapture(void *stream) {
  Locked state;
  StreamState *captured = state->findStream(stream);
  captured->capture = captureActive;
  captured->captureMode = captureGlobal;
  captured->capturingThread = std::this_thread::get_id();
}

int fakecuda::endCapture(void *stream) {
  Locked state;
  StreamState *captured = state->findStream(stream);
  if (captured->capture == captureInvalidated)
    state->violate("a capture was invalidated by " + captured->invalidatedBy);
  captured->capture = captureNone;
  state->graphs[++state->lastGraph] = std::move(captured->captured);
  captured->captured.clear();
  return state->lastGraph;
}

void fakecuda::launchGraph(int graph, void *stream) {
  Locked state;
  for (const Work &work : state->graphs.at(graph))
    state->enqueue("cuGraphLaunch", stream, work);
}

void fakecuda::destroyGraph(int graph) { Locked()->graphs.erase(graph); }

void fake_cuda_set_executor(fake_cuda_executor executor) {
  Locked()->executor = executor;
}

void fake_cuda_share_memory(int shares) { Locked()->memory.isShared = shares; }
void fake_cuda_work_at_once(int does) { Locked()->worksAtOnce = does; }

void fake_cuda_set_devices(int count) { Locked()->devices = count; }

void fake_cuda_enqueue(void *stream, fake_cuda_function function,
                       int64_t argument) {
  Locked()->enqueue(__func__, stream, [=] { function(argument); });
}

void *fake_cuda_create_stream() { return createStream(); }
void *fake_cuda_create_blocking_stream() {
  return createStream(/*isBlocking=*/true);
}
void fake_cuda_destroy_stream(void *stream) { destroyStream(stream); }
void fake_cuda_synchronize(void *stream) { synchronize(stream); }
void fake_cuda_begin_capture(void *stream) { beginCapture(stream); }
int fake_cuda_end_capture(void *stream) { return endCapture(stream); }
int fake_cuda_is_capturing(void *stream) {
  return Locked()->findStream(stream)->capture != captureNone;
}
void fake_cuda_launch_graph(int graph, void *stream) {
  launchGraph(graph, stream);
}
void fake_cuda_destroy_graph(int graph) { destroyGraph(graph); }

static thread_local std::string answer;

const char *fake_cuda_violations() {
  answer = takeViolations();
  return answer.c_str();
}

const char *fake_cuda_living() {
  answer = living();
  return answer.c_str();
}
