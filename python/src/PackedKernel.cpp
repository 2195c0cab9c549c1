//===- PackedKernel.cpp - Kernels of packages in Python -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels of packages in the Python extension.
//
//===----------------------------------------------------------------------===//

#include "PackedKernel.h"
#include "Compiler.h"
#include "Errors.h"
#include "Released.h"
#include <string_view>

/// Returns the target of an image in the notation of a package's targets:
/// "x86-64-v3", "sm_90" for PTX, or "cubin:sm_90" for machine code.
static std::string getTarget(const tdm_image &image) {
  std::string_view kind = image.kind;
  if (kind != "cubin")
    return image.target;
  std::string level =
      image.level == 3 ? "" : "-O" + std::to_string(image.level);
  return "cubin" + level + ":" + image.target;
}

/// Normalizes a target to that notation.
static std::string normalize(std::string target) {
  constexpr std::string_view longer = "cubin-O3:";
  if (target.compare(0, longer.size(), longer) == 0)
    target.erase(5, 3);
  return target;
}

PackedKernel::PackedKernel(const std::string &path, const std::string &name,
                           std::string target, std::string isa)
    : target(normalize(std::move(target))), isa(std::move(isa)) {
  checkFile(released([&] { return tdm_package_open(path.c_str(), &package); }));
  try {
    find(name);
    if (this->target != "cpu")
      image = findImage(path);
  } catch (...) {
    tdm_package_close(package);
    throw;
  }
}

void PackedKernel::find(const std::string &name) {
  uint32_t index;
  checkFile(
      tdm_package_find(package, name.empty() ? nullptr : name.c_str(), &index));
  info.struct_size = sizeof(info);
  checkFile(tdm_package_kernel(package, index, &info));
}

const tdm_image *PackedKernel::findImage(const std::string &path) const {
  std::string others;
  for (uint32_t i = 0; i < info.num_images; ++i) {
    std::string has = getTarget(info.images[i]);
    if (has == target)
      return &info.images[i];
    others += (i ? ", " : "that for ") + has;
  }
  throwError("target",
             {{"text", "package '"},
              {"file", path},
              {"text", "' has no code for "},
              {"target", target},
              {"text", "; it has " + (others.empty() ? "none" : others) +
                           "; write it again with target "},
              {"target", target}});
}

tdm_kernel *PackedKernel::create(const tdm_device *device) const {
  const char *wanted = isa == "native" || image ? nullptr : isa.c_str();
  tdm_kernel *kernel = nullptr;
  checkTarget(released([&] {
    return tdm_package_load(package, info.name, device, wanted, &kernel);
  }));
  return kernel;
}

TandemKernel *PackedKernel::open() const {
  return released([&] {
    return compiler().tandemKernelOpen(package, info.name, target.c_str(),
                                       isa.c_str());
  });
}
