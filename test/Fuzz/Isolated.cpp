//===- Isolated.cpp - Cases in separate processes -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file runs cases in a process that may crash or hang. Parent and child
// share the index of the case and its text.
//
//===----------------------------------------------------------------------===//

#include "Isolated.h"
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tandem::fuzz;
using llvm::StringRef;

using Clock = std::chrono::steady_clock;

namespace {
/// Memory that parent and child share.
class SharedCase : public Case {
public:
  SharedCase() {
    void *memory = mmap(nullptr, sizeof(Data), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    data = memory == MAP_FAILED ? nullptr : static_cast<Data *>(memory);
  }
  ~SharedCase() override { munmap(data, sizeof(Data)); }

  void begin(StringRef text) override {
    data->size = std::min(text.size(), sizeof(data->text));
    std::memcpy(data->text, text.data(), data->size);
  }
  void accept() override { ++data->counts.accepted; }
  void fail(StringRef what) {
    size_t size = std::min(what.size(), sizeof(data->what) - 1);
    std::memcpy(data->what, what.data(), size);
    data->what[size] = 0;
  }

  struct Data {
    Counts counts;
    /// Whether the child has completed its cases.
    bool isAtEnd;
    size_t size;
    char what[4096];
    char text[1 << 20];
  };
  Data *data;
};
} // namespace

static void limitProcess(const Limits &limits) {
  rlimit memory = {limits.bytes, limits.bytes}, core = {0, 0};
  // The address sanitizer reserves terabytes of address space.
  if (!LLVM_ADDRESS_SANITIZER_BUILD)
    setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &core);
  // The crash output for random texts is not useful.
  int nothing = open("/dev/null", O_WRONLY);
  dup2(nothing, STDERR_FILENO);
}

static std::string describe(int status, StringRef what) {
  if (WIFEXITED(status))
    return what.empty()
               ? "exit with status " + std::to_string(WEXITSTATUS(status))
               : what.str();
  if (WTERMSIG(status) == SIGALRM)
    return "hang";
  return std::string("crash: ") + strsignal(WTERMSIG(status));
}

Counts
tandem::fuzz::runIsolated(uint64_t first, uint64_t count, const Limits &limits,
                          llvm::function_ref<std::string(uint64_t, Case &)> run,
                          llvm::function_ref<void(const Finding &)> report) {
  SharedCase shared;
  if (!shared.data)
    return {0, 0, /*isBroken=*/true};
  Counts &counts = shared.data->counts;
  auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(limits.seconds));
  while (counts.done < count && Clock::now() < end) {
    shared.data->what[0] = 0;
    pid_t child = fork();
    if (child == 0) {
      limitProcess(limits);
      while (counts.done < count && Clock::now() < end) {
        alarm(limits.secondsPerCase);
        std::string what = run(first + counts.done, shared);
        shared.fail(what);
        if (!what.empty())
          _exit(1);
        ++counts.done;
      }
      shared.data->isAtEnd = true;
      _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
      counts.isBroken = true;
      break;
    }
    if (shared.data->isAtEnd)
      break;
    report({describe(status, shared.data->what),
            std::string(shared.data->text, shared.data->size)});
    ++counts.done;
  }
  return counts;
}
