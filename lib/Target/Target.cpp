//===- Target.cpp - What kernels are compiled for -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the registry of targets.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <mutex>
#include <vector>

using namespace tandem;

HostCode::~HostCode() = default;
Target::~Target() = default;

namespace {
/// The targets of this process, in the order of their registration.
struct TargetRegistry {
  /// Returns the registry. It is never destroyed: code may be compiled while
  /// the process shuts down.
  static TargetRegistry &get() {
    static auto *registry = new TargetRegistry();
    return *registry;
  }

  std::mutex mutex;
  std::vector<std::unique_ptr<Target>> targets;
};
} // namespace

void tandem::registerTarget(std::unique_ptr<Target> target) {
  TargetRegistry &registry = TargetRegistry::get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  registry.targets.push_back(std::move(target));
}

void tandem::forEachTarget(llvm::function_ref<void(const Target &)> visit) {
  std::vector<const Target *> targets;
  {
    TargetRegistry &registry = TargetRegistry::get();
    std::lock_guard<std::mutex> lock(registry.mutex);
    for (const auto &target : registry.targets)
      targets.push_back(target.get());
  }
  for (const Target *target : targets)
    visit(*target);
}

const Target *tandem::findTarget(llvm::StringRef name) {
  TargetRegistry &registry = TargetRegistry::get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto place = llvm::find_if(registry.targets, [&](const auto &target) {
    return target->hasName(name);
  });
  return place == registry.targets.end() ? nullptr : place->get();
}

static std::string list(llvm::function_ref<bool(const Target &)> isWanted) {
  std::vector<std::string> names;
  forEachTarget([&](const Target &target) {
    if (isWanted(target))
      names.push_back(target.listNames());
  });
  return llvm::join(names, "; ");
}

std::string tandem::listTargets() {
  return list([](const Target &) { return true; });
}

std::string tandem::listImageTargets() {
  return list([](const Target &target) { return target.hasImages(); });
}
