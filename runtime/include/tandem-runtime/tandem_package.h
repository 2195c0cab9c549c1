//===- tandem_package.h - Packages of kernels, C interface ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C interface of packages: files of compiled kernels
// with everything that a program needs to launch them. Reading one needs no
// compiler. The format is described in Package.fbs.
//
// A package holds code, which runs with the privileges of the process that
// loads it. Files that are damaged, truncated, not packages or of another
// version are refused, but no check establishes who wrote a package.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_PACKAGE_H
#define TANDEM_RUNTIME_TANDEM_PACKAGE_H

#include "tandem-runtime/tandem_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The version of packages that the compiler writes, and the oldest that this
/// runtime reads. Kernels from before version 5 do not know the number of rows
/// of an unsharded tensor, so they refuse shards of tensors that they reduce.
#define TDM_PACKAGE_VERSION 5u
#define TDM_OLDEST_PACKAGE_VERSION 4u

/// The kinds of images that packages store as numbers, which count from 0.
/// Other kinds have the next number and are stored by name.
#define TDM_NUMBERED_IMAGE_KINDS(VALUE)                                        \
  VALUE("PTX") VALUE("cubin") VALUE(TDM_IMAGE_LIBRARY)

/// An open package. Immutable, so that any number of threads may use it.
typedef struct tdm_package tdm_package;

/// Reads the package in the file at \p path.
TDM_API tdm_status tdm_package_open(const char *path, tdm_package **package);

/// Reads a package of \p size bytes, which are copied. Messages refer to it as
/// \p name.
TDM_API tdm_status tdm_package_open_memory(const void *bytes, size_t size,
                                           const char *name,
                                           tdm_package **package);

/// Closes \p package. Kernels loaded from it stay usable; descriptions from
/// tdm_package_kernel become invalid. NULL is allowed.
TDM_API void tdm_package_close(tdm_package *package);

/// Returns the compiler that wrote the package, such as "tandem 0.1.0,
/// LLVM 22.1.8"; empty for NULL.
TDM_API const char *tdm_package_compiler(const tdm_package *package);

/// Returns the number of kernels, at least 1; 0 for NULL.
TDM_API uint32_t tdm_package_num_kernels(const tdm_package *package);

/// A tensor of a kernel, which is stored in planes.
typedef struct tdm_tensor_info {
  const char *role;
  /// Its storage, as MLIR spells it: "#tandem.float<bf16>".
  const char *storage;
  /// Nonzero if it is a second moment of gradients, which is never negative.
  uint32_t second_moment;
} tdm_tensor_info;

#define TDM_TENSOR_INFO_FIELDS(VALUE, FLAG)                                    \
  VALUE(role)                                                                  \
  VALUE(storage)                                                               \
  FLAG(second_moment)

/// The description of a kernel, which the compiler creates, packages store and
/// hosts read. All data that it points to live as long as the package or the
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
  /// The names of the functions: the prologue, the phases of a step, the last
  /// of which writes, and the epilogues that follow them.
  const char *prologue;
  const tdm_part_info *phases;
  const tdm_part_info *epilogues;
  const tdm_image *images;
  uint32_t num_phases;
  uint32_t num_epilogues;
  uint32_t num_images;
  /// The TDM_FLAG_* bits that a launch may raise.
  uint32_t flags;
  /// The version of the package that the kernel comes from; 0 if there is none.
  uint32_t format;
  /// The tensors in the order of their planes; none in a package of an earlier
  /// compiler.
  const tdm_tensor_info *tensors;
  uint32_t num_tensors;
} tdm_kernel_info;

/// The fields of a tdm_kernel_info, except for the description, the lists and
/// their lengths.
#define TDM_KERNEL_INFO_FIELDS(VALUE, FLAG)                                    \
  VALUE(name)                                                                  \
  VALUE(graph)                                                                 \
  VALUE(strategy)                                                              \
  VALUE(compute)                                                               \
  VALUE(ir)                                                                    \
  VALUE(prologue)                                                              \
  VALUE(flags)

/// Stores the description of kernel number \p index in \p info.
TDM_API tdm_status tdm_package_kernel(const tdm_package *package,
                                      uint32_t index, tdm_kernel_info *info);

/// Stores in \p index the number of the kernel called \p name, or of the only
/// one if \p name is NULL.
TDM_API tdm_status tdm_package_find(const tdm_package *package,
                                    const char *name, uint32_t *index);

/// Creates a kernel on a device from the description that tdm_package_kernel
/// stores; its images may be replaced by others with the same functions. The
/// device gets the best image that it can run: machine code for the device
/// itself, then machine code for an earlier one, then code that its driver can
/// compile. Code that a driver has compiled is kept in the cache on disk
/// (tandem_cache.h).
TDM_API tdm_status tdm_kernel_load(const tdm_device *device,
                                   const tdm_kernel_info *info,
                                   tdm_kernel **kernel);

/// Creates a kernel of a package in the same way. \p name may be NULL if the
/// package has only one kernel; a \p device of NULL is the CPU. \p target is
/// one of the images' targets, such as "x86-64-v3", or NULL for the best one;
/// all targets compute the same bits.
TDM_API tdm_status tdm_package_load(const tdm_package *package,
                                    const char *name, const tdm_device *device,
                                    const char *target, tdm_kernel **kernel);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_PACKAGE_H
