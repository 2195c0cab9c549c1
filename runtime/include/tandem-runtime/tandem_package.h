//===- tandem_package.h - Packages of kernels, C interface ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C interface of packages: files of compiled kernels
// with all that a program must know to launch them. Reading one needs no
// compiler. The format is described in Package.fbs.
//
// A package holds code, which runs with the rights of the process that loads
// it. The checks refuse what is damaged, cut short, foreign or of another
// version; they cannot know who wrote a package.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_PACKAGE_H
#define TANDEM_RUNTIME_TANDEM_PACKAGE_H

#include "tandem-runtime/tandem_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of packages that the compiler writes, and the oldest that this
/// runtime reads. Before version 5, kernels knew nothing of the rows of an
/// unsharded tensor: they do not take shards of what they reduce.
#define TDM_PACKAGE_VERSION 5u
#define TDM_OLDEST_PACKAGE_VERSION 4u

/// The kinds of images that packages store as numbers, which count from 0.
/// Others are stored by their names, under the number that follows.
#define TDM_NUMBERED_IMAGE_KINDS(VALUE)                                        \
  VALUE("PTX") VALUE("cubin") VALUE(TDM_IMAGE_LIBRARY)

/// An open package. Immutable, so that any number of threads may use it.
typedef struct tdm_package tdm_package;

/// Reads the package in the file at \p path.
TDM_API tdm_status tdm_package_open(const char *path, tdm_package **package);

/// Reads a package of \p size bytes, which are copied. Messages call it
/// \p name.
TDM_API tdm_status tdm_package_open_memory(const void *bytes, size_t size,
                                           const char *name,
                                           tdm_package **package);

/// Closes \p package. Kernels loaded from it stay usable; what
/// tdm_package_kernel has told of it does not. NULL is allowed.
TDM_API void tdm_package_close(tdm_package *package);

/// Returns the compiler that wrote the package, such as "tandem 0.1.0,
/// LLVM 22.1.8"; empty for NULL.
TDM_API const char *tdm_package_compiler(const tdm_package *package);

/// Returns the number of kernels, at least 1; 0 for NULL.
TDM_API uint32_t tdm_package_num_kernels(const tdm_package *package);

/// The description of a kernel, which the compiler makes, packages store and
/// hosts read. All that it points to lives as long as the package, or as the
/// compiled kernel.
typedef struct tdm_kernel_info {
  /// sizeof(tdm_kernel_info), set by the caller.
  size_t struct_size;
  /// The name that tdm_package_load takes to find the kernel.
  const char *name;
  /// The names of the graph and of the strategy, which may be empty.
  const char *graph;
  const char *strategy;
  /// The compute policy: "component bf16".
  const char *compute;
  /// The kernel on planes, as MLIR text.
  const char *ir;
  /// The kernel's description, without code: its functions are NULL.
  const tdm_kernel_desc *desc;
  /// The names of the functions: the prologue, the launches of a step, of which
  /// the last one writes, and what follows them.
  const char *prologue;
  const tdm_part_info *phases;
  const tdm_part_info *epilogues;
  const tdm_image *images;
  uint32_t num_phases;
  uint32_t num_epilogues;
  uint32_t num_images;
  /// The TDM_FLAG_* bits that a launch may raise.
  uint32_t flags;
  /// The version of the package that the kernel is from; 0 if it is from none.
  uint32_t format;
} tdm_kernel_info;

/// The fields of a tdm_kernel_info, except the description, the lists and
/// their lengths.
#define TDM_KERNEL_INFO_FIELDS(VALUE, FLAG)                                    \
  VALUE(name)                                                                  \
  VALUE(graph)                                                                 \
  VALUE(strategy)                                                              \
  VALUE(compute)                                                               \
  VALUE(ir)                                                                    \
  VALUE(prologue)                                                              \
  VALUE(flags)

/// Tells about kernel number \p index.
TDM_API tdm_status tdm_package_kernel(const tdm_package *package,
                                      uint32_t index, tdm_kernel_info *info);

/// Stores in \p index the number of the kernel called \p name, or of the only
/// one if \p name is NULL.
TDM_API tdm_status tdm_package_find(const tdm_package *package,
                                    const char *name, uint32_t *index);

/// Creates a kernel on a device from what tdm_package_kernel has told, whose
/// images may be replaced by others of the same functions. The device gets the
/// image that serves it best: its own machine code, then that of an earlier one
/// that it runs, then what its driver can compile; those of other devices are
/// passed over. What a driver compiles is kept on disk, in the directory that
/// the environment variable TANDEM_CACHE_DIR names, by default ~/.cache/tandem;
/// an empty name keeps nothing.
TDM_API tdm_status tdm_kernel_load(const tdm_device *device,
                                   const tdm_kernel_info *info,
                                   tdm_kernel **kernel);

/// Creates a kernel of a package in the same way. \p name may be NULL if there
/// is one kernel only, and \p device for the CPU. \p target is one of the
/// images' targets, such as "x86-64-v3", or NULL for the best one; the same
/// bits result from each.
TDM_API tdm_status tdm_package_load(const tdm_package *package,
                                    const char *name, const tdm_device *device,
                                    const char *target, tdm_kernel **kernel);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_PACKAGE_H
