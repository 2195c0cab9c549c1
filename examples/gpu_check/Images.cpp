//===- Images.cpp - The code that runs on a GPU ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the choice among a kernel's images, and the assembly of
// its PTX by ptxas.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"

#include <fstream>
#include <iterator>

#include <unistd.h>

using namespace gpucheck;

namespace {
/// A temporary directory.
class Folder {
public:
  Folder() {
    const char *room = std::getenv("TMPDIR");
    path = std::string(room ? room : "/tmp") + "/gpu-check-XXXXXX";
    if (!mkdtemp(path.data()))
      throw Error("cannot make a directory in " + path);
  }
  ~Folder() {
    for (const char *name : {"/in.ptx", "/out.cubin", "/log"})
      unlink((path + name).c_str());
    rmdir(path.c_str());
  }
  Folder(const Folder &) = delete;

  std::string path;
};
} // namespace

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the machine code that a command such as "ptxas -O0" produces from
/// PTX.
static std::string assemble(const std::string &command,
                            const tdm_image &image) {
  Folder folder;
  std::ofstream(folder.path + "/in.ptx", std::ios::binary)
      .write(static_cast<const char *>(image.data), std::streamsize(image.size))
      .flush();
  std::string line = command + " -arch=" + image.target + " " + folder.path +
                     "/in.ptx -o " + folder.path + "/out.cubin >" +
                     folder.path + "/log 2>&1";
  int status = std::system(line.c_str());
  std::string made = readFile(folder.path + "/out.cubin");
  if (status || made.empty())
    throw Error("'" + command +
                "' does not assemble it: " + readFile(folder.path + "/log"));
  return made;
}

/// Returns the images of a kind.
static std::vector<tdm_image> imagesOf(const tdm_kernel_info &info,
                                       const std::string &kind) {
  std::vector<tdm_image> images;
  for (uint32_t i = 0; i < info.num_images; ++i)
    if (info.images[i].kind == kind)
      images.push_back(info.images[i]);
  if (images.empty())
    throw Absent("the package has no " + kind);
  return images;
}

static KernelHandle create(tdm_device *gpu, tdm_kernel_info info,
                           const std::vector<tdm_image> &images) {
  info.images = images.data();
  info.num_images = uint32_t(images.size());
  KernelHandle kernel;
  require(tdm_kernel_load(gpu, &info, &kernel.kernel));
  return kernel;
}

KernelHandle gpucheck::loadOnGPU(tdm_device *gpu, const tdm_package *package,
                                 const tdm_kernel_info &info,
                                 const ImageChoice &choice) {
  KernelHandle kernel;
  if (!choice.ptxas.empty()) {
    std::vector<tdm_image> images = imagesOf(info, "PTX");
    images.resize(1);
    std::string made = assemble(choice.ptxas, images[0]);
    images[0] = {"cubin",
                 images[0].target,
                 made.data(),
                 made.size(),
                 /*sha256=*/nullptr,
                 /*assembler=*/nullptr,
                 /*level=*/0};
    return create(gpu, info, images);
  }
  if (choice.kind == "ptx")
    return create(gpu, info, imagesOf(info, "PTX"));
  if (choice.kind == "cubin")
    return create(gpu, info, imagesOf(info, "cubin"));
  require(tdm_package_load(package, info.name, gpu, /*target=*/nullptr,
                           &kernel.kernel));
  return kernel;
}
