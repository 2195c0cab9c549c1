//===- tandem_driver.h - Device drivers, C interface ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares drivers that a program adds to those of the runtime. Such
// a driver loads images of its own kinds and returns functions that this
// process can call. The runtime launches them on its threads over memory of the
// process, as it does on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_DRIVER_H
#define TANDEM_RUNTIME_TANDEM_DRIVER_H

#include "tandem-runtime/tandem_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A driver: a table of functions, each of which takes the context first. Any
/// thread may call them at any time. A function that returns a failing
/// tdm_status sets the message with tdm_driver_fail.
typedef struct tdm_driver {
  /// sizeof(tdm_driver).
  size_t struct_size;
  /// The name that tdm_device_open takes to find the driver.
  const char *name;
  void *context;
  /// Stores the number of devices, which may be 0.
  tdm_status (*count)(void *context, int32_t *count);
  /// Fills in the properties of device number \p ordinal. The driver's name and
  /// the ordinal are already set, and all other fields are 0.
  tdm_status (*query)(void *context, int32_t ordinal, tdm_device_info *info);
  /// Ranks an image for the device; 0 means that the device cannot run it. The
  /// image with the highest rank is loaded.
  int64_t (*rank)(void *context, int32_t ordinal, const tdm_image *image);
  /// Loads an image, whose hash has been checked, and stores in \p code the
  /// handle that find and unload take.
  tdm_status (*load)(void *context, int32_t ordinal, const tdm_image *image,
                     void **code);
  /// Returns the address of a function in \p code, a tdm_cpu_entry or, for the
  /// prologue, a tdm_cpu_prologue; NULL if there is none.
  void *(*find)(void *context, void *code, const char *name);
  /// Releases the handle from load. All kernels and plans that use it are
  /// destroyed by then.
  void (*unload)(void *context, void *code);
} tdm_driver;

/// Registers a driver until the process ends. The table and the name are
/// copied; the caller keeps the functions and the context valid.
TDM_API tdm_status tdm_driver_register(const tdm_driver *driver);

/// Sets \p message as tdm_last_error() and returns \p status.
TDM_API tdm_status tdm_driver_fail(tdm_status status, const char *message);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_DRIVER_H
