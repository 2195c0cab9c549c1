//===- HostExecutable.cpp - Code that is in this process ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a kernel's code as functions of this process.
//
//===----------------------------------------------------------------------===//

#include "HostExecutable.h"

#include "CPUPlan.h"

using namespace tandem::runtime;

HostExecutable::HostExecutable(const tdm_kernel_desc &desc)
    : prologue(desc.prologue) {
  for (uint32_t i = 0; i < desc.num_reduction_entries; ++i) {
    uint32_t per =
        desc.reduction_granularities ? desc.reduction_granularities[i] : 0;
    phases.push_back(
        {desc.reduction_entries[i], static_cast<tdm_granularity>(per)});
  }
  phases.push_back({desc.entry, TDM_PER_ELEMENT});
  const HostPart wanted[] = {{desc.epilogue_rows, TDM_PER_ROW},
                             {desc.epilogue_columns, TDM_PER_COLUMN},
                             {desc.epilogue_blocks, TDM_PER_BLOCK},
                             {desc.epilogue, TDM_PER_ELEMENT}};
  for (const HostPart &part : wanted)
    if (part.entry)
      epilogues.push_back(part);
}

tdm_status HostExecutable::link(const Kernel &kernel,
                                const tdm_kernel_info &info,
                                std::shared_ptr<const HostLibrary> library,
                                std::shared_ptr<const Executable> &result) {
  std::shared_ptr<HostExecutable> linked(new HostExecutable());
  const char *missing = nullptr;
  auto find = [&](const char *name) {
    void *code = library->find(name);
    if (!code)
      missing = name;
    return code;
  };
  auto findPart = [&](const tdm_part_info &part) {
    return HostPart{reinterpret_cast<tdm_cpu_entry>(find(part.entry)),
                    part.per};
  };
  if (kernel.numScalars)
    linked->prologue = reinterpret_cast<tdm_cpu_prologue>(find(info.prologue));
  for (uint32_t i = 0; i < info.num_phases; ++i)
    linked->phases.push_back(findPart(info.phases[i]));
  for (uint32_t i = 0; i < info.num_epilogues; ++i)
    linked->epilogues.push_back(findPart(info.epilogues[i]));
  if (missing)
    return kernel.failMissing(missing);
  linked->library = std::move(library);
  result = std::move(linked);
  return TDM_OK;
}

std::unique_ptr<Plan>
HostExecutable::createPlan(std::shared_ptr<const Kernel> kernel) const {
  return std::make_unique<CPUPlan>(std::move(kernel), *this);
}
