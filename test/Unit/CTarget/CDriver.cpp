//===- CDriver.cpp - A driver for kernels compiled from C -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a runtime driver that loads the shared libraries of
// target "c". It does not depend on the compiler.
//
//===----------------------------------------------------------------------===//

#include "CTarget.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

static tdm_status count(void *, int32_t *count) {
  *count = 1;
  return TDM_OK;
}

static tdm_status query(void *, int32_t, tdm_device_info *info) {
  std::strcpy(info->name, "C");
  std::strcpy(info->target, "c");
  info->multiprocessors = 1;
  return TDM_OK;
}

static int64_t rank(void *, int32_t, const tdm_image *image) {
  return !std::strcmp(image->kind, ctarget::imageKind) &&
         !std::strcmp(image->target, "c");
}

/// Loads a library through a file, which is removed once it is mapped.
static tdm_status load(void *, int32_t, const tdm_image *image, void **code) {
  char path[] = "/tmp/tandem-c-XXXXXX";
  int file = mkstemp(path);
  if (file < 0)
    return tdm_driver_fail(TDM_UNAVAILABLE, "no file can be made in /tmp");
  bool isWritten =
      write(file, image->data, image->size) == ssize_t(image->size);
  close(file);
  *code = isWritten ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  if (*code)
    return TDM_OK;
  std::string reason = isWritten ? dlerror() : "the disk is full";
  return tdm_driver_fail(TDM_UNAVAILABLE,
                         ("its library cannot be loaded: " + reason).c_str());
}

static void *find(void *, void *code, const char *name) {
  return dlsym(code, name);
}

static void unload(void *, void *code) { dlclose(code); }

tdm_status ctarget::registerDriver() {
  tdm_driver driver = {sizeof(driver), "c",   /*context=*/nullptr,
                       count,          query, rank,
                       load,           find,  unload};
  return tdm_driver_register(&driver);
}
