//===- Description.h - Descriptions of kernels in Python --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a kernel's description for Python: each struct of the
// runtime as a dictionary of its fields.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_DESCRIPTION_H
#define TANDEM_PYTHON_DESCRIPTION_H

#include "tandem-runtime/tandem_package.h"
#include <nanobind/nanobind.h>
#include <string>

/// Return the fields that are not lists.
nanobind::dict getFields(const tdm_kernel_info &info);
nanobind::dict getFields(const tdm_plane_desc &desc);
nanobind::dict getFields(const tdm_hyper_desc &desc);
nanobind::dict getFields(const tdm_integer_desc &desc);
nanobind::dict getFields(const tdm_reduction_desc &desc);
nanobind::dict getFields(const tdm_external_desc &desc);
nanobind::dict getFields(const tdm_part_info &desc);

/// Returns the fields of each struct of a list.
template <typename Desc>
nanobind::list getAllFields(const Desc *descs, uint32_t count) {
  nanobind::list result;
  for (uint32_t i = 0; i < count; ++i)
    result.append(getFields(descs[i]));
  return result;
}

/// Returns "PARAM" for "param".
std::string toUpper(std::string name);

/// Adds a value from an enumeration's list, such as TDM_ROLES, to the
/// nanobind::enum_ `type`.
#define TANDEM_ADD_VALUE(enumerator, name)                                     \
  type.value(toUpper(#name).c_str(), enumerator);

/// Adds the runtime's enumerations and constants.
void bindDescription(nanobind::module_ &m);

#endif // TANDEM_PYTHON_DESCRIPTION_H
