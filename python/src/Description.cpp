//===- Description.cpp - Descriptions of kernels in Python ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a kernel's description for Python. Fields and values
// come from the lists in the runtime's header.
//
//===----------------------------------------------------------------------===//

#include "Description.h"
#include <algorithm>

namespace nb = nanobind;

/// Converts a text of a description; NULL becomes empty.
static nb::object show(const char *text) { return nb::str(text ? text : ""); }
template <typename Value>
static nb::object show(Value value) {
  return nb::cast(value);
}

#define SHOW_VALUE(name) fields[#name] = show(desc.name);
#define SHOW_FLAG(name) fields[#name] = show(desc.name != 0);

nb::dict getFields(const tdm_plane_desc &desc) {
  nb::dict fields;
  TDM_PLANE_FIELDS(SHOW_VALUE, SHOW_FLAG)
  // 0 means 1.
  fields["group"] = show(std::max(desc.group, 1u));
  fields["rows"] = show(std::max(desc.rows, 1u));
  return fields;
}

static nb::dict getSharing(uint32_t group, uint32_t rows, uint32_t per) {
  tdm_plane_desc desc = {};
  desc.group = group;
  desc.rows = rows;
  desc.per = static_cast<tdm_granularity>(per);
  tdm_plane_sharing sharing;
  tdm_plane_get_sharing(&desc, &sharing);
  nb::dict fields;
  fields["rows"] = sharing.rows;
  fields["columns"] = sharing.columns;
  fields["elements"] = tdm_plane_elements_per_entry(&desc);
  fields["text"] = sharing.text;
  return fields;
}

nb::dict getFields(const tdm_hyper_desc &desc) {
  nb::dict fields;
  TDM_HYPER_FIELDS(SHOW_VALUE, SHOW_FLAG)
  fields["default"] = desc.has_default ? show(desc.default_value) : nb::none();
  return fields;
}

nb::dict getFields(const tdm_integer_desc &desc) {
  nb::dict fields;
  TDM_INTEGER_FIELDS(SHOW_VALUE, SHOW_FLAG)
  return fields;
}

nb::dict getFields(const tdm_reduction_desc &desc) {
  nb::dict fields;
  TDM_REDUCTION_FIELDS(SHOW_VALUE, SHOW_FLAG)
  return fields;
}

nb::dict getFields(const tdm_external_desc &desc) {
  nb::dict fields;
  TDM_EXTERNAL_FIELDS(SHOW_VALUE, SHOW_FLAG)
  return fields;
}

nb::dict getFields(const tdm_part_info &desc) {
  nb::dict fields;
  TDM_PART_FIELDS(SHOW_VALUE, SHOW_FLAG)
  return fields;
}

static void addFields(const tdm_kernel_desc &desc, nb::dict &fields){
    TDM_KERNEL_DESC_FIELDS(SHOW_VALUE, SHOW_FLAG)}

nb::dict getFields(const tdm_kernel_info &desc) {
  nb::dict fields;
  TDM_KERNEL_INFO_FIELDS(SHOW_VALUE, SHOW_FLAG)
  addFields(*desc.desc, fields);
  return fields;
}

std::string toUpper(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  return name;
}

void bindDescription(nb::module_ &m) {
  {
    nb::enum_<tdm_role> type(m, "RoleKind", nb::is_arithmetic(),
                             "What an argument of a graph is.");
    TDM_ROLES(TANDEM_ADD_VALUE)
  }
  {
    nb::enum_<tdm_granularity> type(
        m, "Granularity", nb::is_arithmetic(),
        "What a tensor has entries for, or a phase runs over.");
    TDM_GRANULARITIES(TANDEM_ADD_VALUE)
  }
  {
    nb::enum_<tdm_reduction_kind> type(
        m, "ReductionKind", nb::is_arithmetic(),
        "What a reduction makes of its elements.");
    TDM_REDUCTION_KINDS(TANDEM_ADD_VALUE)
  }
  {
    nb::enum_<tdm_scope> type(m, "Scope", nb::is_arithmetic(),
                              "What meets in a reduction.");
    TDM_SCOPES(TANDEM_ADD_VALUE)
  }
  m.attr("ACCESS_READ") = TDM_ACCESS_READ;
  m.attr("ACCESS_WRITE") = TDM_ACCESS_WRITE;
  m.attr("NON_FINITE") = TDM_FLAG_NON_FINITE;
  m.attr("WHOLE_TENSOR") = TDM_WHOLE_TENSOR;
  m.attr("WHOLE_ROW") = TDM_WHOLE_ROW;
  m.attr("WHOLE_AXIS") = TDM_WHOLE_AXIS;
  m.def(
      "get_sharing", getSharing, nb::arg("group"), nb::arg("rows"),
      nb::arg("per"),
      "The elements that share an entry of a plane: how many rows and columns "
      "they are, how many elements, and in words.");
  m.attr("PLANE_DEFAULTS") = getFields(tdm_plane_desc());
}
