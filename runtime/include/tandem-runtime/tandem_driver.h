//===- tandem_driver.h - Device drivers, C interface ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares drivers that a program adds to those of the runtime. Such
// a driver loads images of its own kinds, and gives functions that this process
// can call; the runtime launches them over memory of the process, on its
// threads, as it does on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_DRIVER_H
#define TANDEM_RUNTIME_TANDEM_DRIVER_H

#include "tandem-runtime/tandem_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A driver: a table of functions, each of which gets the context first. Any
/// thread may call them at any time. Those that return a tdm_status leave the
/// message by tdm_driver_fail.
typedef struct tdm_driver {
  /// sizeof(tdm_driver).
  size_t struct_size;
  /// The name that tdm_device_open takes to find the driver.
  const char *name;
  void *context;
  /// Stores how many devices there are: none where the system lacks them.
  tdm_status (*count)(void *context, int32_t *count);
  /// Fills what is known of device number \p ordinal; the driver's name and the
  /// ordinal are there already, and the rest is 0.
  tdm_status (*query)(void *context, int32_t ordinal, tdm_device_info *info);
  /// Ranks how well an image serves the device: 0 if the device cannot run it.
  /// The image of the highest rank is loaded.
  int64_t (*rank)(void *context, int32_t ordinal, const tdm_image *image);
  /// Loads an image, whose bytes are what its hash says, and stores in \p code
  /// what the next two take.
  tdm_status (*load)(void *context, int32_t ordinal, const tdm_image *image,
                     void **code);
  /// The address of a function of \p code, a tdm_cpu_entry or, for the
  /// prologue, a tdm_cpu_prologue; NULL if there is none.
  void *(*find)(void *context, void *code, const char *name);
  /// Gives back what load made; the kernels and plans of it are gone.
  void (*unload)(void *context, void *code);
} tdm_driver;

/// Adds a driver until the process ends. The table and the name are copied;
/// what they point to stays valid by the caller's care.
TDM_API tdm_status tdm_driver_register(const tdm_driver *driver);

/// Leaves \p message for tdm_last_error() and returns \p status.
TDM_API tdm_status tdm_driver_fail(tdm_status status, const char *message);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_DRIVER_H
