//===- HeaderTest.c - The header in C -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file calls every function of the header from C99.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_cache.h"
#include "tandem-runtime/tandem_product.h"
#include "tandem-runtime/tandem_runtime.h"

/* ThreadTest.cpp calls this function, which has no header to declare it. */
tdm_status tandemRuntimeUseFromC(const tdm_kernel_desc *desc, void *plane);

tdm_status tandemRuntimeUseFromC(const tdm_kernel_desc *desc, void *plane) {
  tdm_kernel *kernel = NULL;
  tdm_plan *plan = NULL;
  void *planes[1];
  tdm_tensor tensor = {2, 3, 0, 0, 0, NULL};
  tdm_launch_info info = {sizeof(tdm_launch_info), 0, 0, 0};
  tdm_status status;
  planes[0] = plane;
  tensor.planes = planes;
  status = tdm_kernel_create(desc, &kernel);
  if (status == TDM_OK && tdm_kernel_target(kernel))
    status = TDM_INVALID_ARGUMENT; /* The code is in no image. */
  if (status == TDM_OK)
    status = tdm_plan_create(kernel, &tensor, 1, &plan);
  if (status == TDM_OK)
    status = tdm_plan_update(plan, &tensor, 1);
  if (status == TDM_OK)
    status = tdm_plan_launch(plan, NULL, NULL, 0, 1, &info);
  if (status == TDM_OK)
    status = tdm_plan_metrics(plan, TDM_ALL_TENSORS, NULL, 0);
  tdm_plan_destroy(plan);
  tdm_kernel_destroy(kernel);
  return status;
}
