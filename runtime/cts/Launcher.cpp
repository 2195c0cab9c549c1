//===- Launcher.cpp - Launches for another process ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a program that launches kernels of packages for the
// process that started it, with arrays that it reads from the standard input
// and writes back to the standard output. Under an emulator it runs code of
// another architecture; verification/emulated.py drives it.
//
//===----------------------------------------------------------------------===//

#include "tandem-cpp/Runtime.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace {
/// The start of a request: the lengths of the lists that follow it, the
/// tensor, and the number of threads.
struct Request {
  int64_t path;
  int64_t name;
  int64_t hypers;
  int64_t integers;
  int64_t planes;
  int64_t rows;
  int64_t columns;
  int64_t first;
  int64_t key;
  int64_t threads;
};

/// The start of an answer: the launch's flags, or the length of the message
/// that follows. Otherwise the planes follow.
struct Answer {
  int64_t flags;
  int64_t message;
};

/// The arguments of a launch.
struct Arguments {
  Request request;
  std::string path, name;
  std::vector<double> hypers;
  std::vector<int64_t> integers, sizes;
  std::vector<std::string> planes;
};
} // namespace

/// Reads a list of \p count elements; returns whether all of them came.
template <typename List>
static bool read(List &list, int64_t count) {
  list.resize(static_cast<size_t>(count));
  return std::fread(list.data(), sizeof(list[0]), list.size(), stdin) ==
         list.size();
}

static bool readPlanes(Arguments &arguments) {
  for (int64_t size : arguments.sizes) {
    arguments.planes.emplace_back();
    if (!read(arguments.planes.back(), size))
      return false;
  }
  return true;
}

/// Reads the arguments; returns false at the end of the input.
static bool read(Arguments &arguments) {
  Request &request = arguments.request;
  return std::fread(&request, sizeof(request), 1, stdin) == 1 &&
         read(arguments.path, request.path) &&
         read(arguments.name, request.name) &&
         read(arguments.hypers, request.hypers) &&
         read(arguments.integers, request.integers) &&
         read(arguments.sizes, request.planes) && readPlanes(arguments);
}

static void write(const void *data, size_t size) {
  std::fwrite(data, 1, size, stdout);
}

static void fail(const std::string &message) {
  Answer answer = {0, static_cast<int64_t>(message.size())};
  write(&answer, sizeof(answer));
  write(message.data(), message.size());
}

/// Returns the kernel that a request names, which is loaded once.
static tdm::Expected<const tdm::Kernel *> find(const Arguments &arguments) {
  static std::map<std::string, tdm::Kernel> kernels;
  std::string key = arguments.path + '\n' + arguments.name;
  auto found = kernels.find(key);
  if (found != kernels.end())
    return &found->second;
  auto package = tdm::Package::open(arguments.path);
  if (!package)
    return package.error();
  auto kernel = package->load(arguments.name);
  if (!kernel)
    return kernel.error();
  return &kernels.emplace(key, std::move(*kernel)).first->second;
}

/// Launches on the request's planes and returns the flags.
static tdm::Expected<uint32_t> launch(Arguments &arguments) {
  auto kernel = find(arguments);
  if (!kernel)
    return kernel.error();
  const Request &request = arguments.request;
  std::vector<void *> planes;
  for (std::string &plane : arguments.planes)
    planes.push_back(plane.data());
  tdm_tensor tensor = {
      request.rows,  request.columns, request.first, request.key, 0,
      planes.data(), nullptr};
  auto plan = tdm::Plan::create(**kernel, tensor);
  if (!plan)
    return plan.error();
  return plan->launch(arguments.hypers, arguments.integers, 1,
                      static_cast<int32_t>(request.threads));
}

int main() {
  for (Arguments arguments; read(arguments); arguments = {}) {
    if (auto flags = launch(arguments)) {
      Answer answer = {*flags, 0};
      write(&answer, sizeof(answer));
      for (const std::string &plane : arguments.planes)
        write(plane.data(), plane.size());
    } else {
      fail(flags.error().message);
    }
    std::fflush(stdout);
  }
  return 0;
}
