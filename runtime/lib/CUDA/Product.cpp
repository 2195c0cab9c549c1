//===- Product.cpp - Matrix products on a GPU -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements matrix products on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Product.h"

#include "CUDADriver.h"

#include <algorithm>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

static constexpr uint32_t alignment = 16, workspaceAlignment = 256;

static DataType dataTypeOf(uint32_t factor) {
  return factor == TDM_FACTOR_E4M3   ? DataType::E4M3
         : factor == TDM_FACTOR_E5M2 ? DataType::E5M2
                                     : DataType::BF16;
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

Product::~Product() {
  if (operation)
    library.descDestroy(operation);
  for (MatrixLayout layout : {x, w, y})
    if (layout)
      library.layoutDestroy(layout);
}

tdm_status Product::create() {
  if (tdm_status status = createDesc())
    return status;
  return createLayouts();
}

tdm_status Product::createDesc() {
  if (tdm_status status = library.call(library.descCreate, &operation,
                                       ComputeType::F32, DataType::F32))
    return status;
  if (tdm_status status = set(MatmulAttribute::TransA, operationTranspose))
    return status;
  if (tdm_status status = set(MatmulAttribute::TransB, operationNone))
    return status;
  if (desc.bias) {
    if (tdm_status status = set(MatmulAttribute::Epilogue, epilogueBias))
      return status;
    if (tdm_status status = set(MatmulAttribute::BiasDataType, DataType::BF16))
      return status;
  }
  if (desc.fast && isNarrow())
    return set(MatmulAttribute::FastAccumulation, int8_t(1));
  return TDM_OK;
}

tdm_status Product::createLayouts() {
  auto create = [&](MatrixLayout &layout, DataType type, int64_t rows,
                    int64_t columns) {
    return library.call(library.layoutCreate, &layout, type, uint64_t(columns),
                        uint64_t(rows), columns);
  };
  if (tdm_status status =
          create(w, dataTypeOf(desc.w), desc.columns, desc.depth))
    return status;
  if (tdm_status status = create(x, dataTypeOf(desc.x), desc.rows, desc.depth))
    return status;
  return create(y, DataType::BF16, desc.rows, desc.columns);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

tdm_status Product::setPointers(const tdm_product_args &args) {
  if (desc.bias)
    if (tdm_status status = set(MatmulAttribute::BiasPointer, args.bias))
      return status;
  if (!isNarrow())
    return TDM_OK;
  if (tdm_status status = set(MatmulAttribute::AScalePointer, args.w_scale))
    return status;
  return set(MatmulAttribute::BScalePointer, args.x_scale);
}

tdm_status Product::askForAlgorithm(Preference preference, size_t bytes) {
  auto set = [&](PreferenceAttribute attribute, auto value) {
    return library.call(library.preferenceSetAttribute, preference, attribute,
                        static_cast<const void *>(&value), sizeof(value));
  };
  if (tdm_status status =
          set(PreferenceAttribute::MaxWorkspaceBytes, uint64_t(bytes)))
    return status;
  for (auto attribute :
       {PreferenceAttribute::MinAlignmentA, PreferenceAttribute::MinAlignmentB,
        PreferenceAttribute::MinAlignmentC, PreferenceAttribute::MinAlignmentD})
    if (tdm_status status = set(attribute, alignment))
      return status;
  HeuristicResult result = {};
  int count = 0;
  if (tdm_status status =
          library.call(library.getHeuristic, session->handle, operation, w, x,
                       y, y, preference, 1, &result, &count))
    return status;
  if (!count || result.state)
    return Failure(TDM_UNAVAILABLE)
           << "cuBLASLt has no product of " << desc.rows << " x " << desc.depth
           << " by " << desc.depth << " x " << desc.columns
           << " for this GPU; use a framework's product";
  algorithm = result.algorithm;
  workspaceBytes = result.workspaceBytes;
  isFound = true;
  return TDM_OK;
}

tdm_status Product::findAlgorithm(size_t bytes) {
  Preference preference = nullptr;
  if (tdm_status status = library.call(library.preferenceCreate, &preference))
    return status;
  tdm_status status = askForAlgorithm(preference, bytes);
  library.preferenceDestroy(preference);
  return status;
}

static tdm_status checkAddress(const char *name, const void *address,
                               uint32_t multiple) {
  if (address && reinterpret_cast<uintptr_t>(address) % multiple == 0)
    return TDM_OK;
  return Failure(TDM_INVALID_ARGUMENT)
         << "tdm_product_launch: " << name << " is at " << address
         << ", which is not a multiple of " << multiple;
}

tdm_status Product::checkArguments(const tdm_product_args &args) const {
  const std::pair<const char *, const void *> tensors[] = {
      {"x", args.x}, {"w", args.w}, {"y", args.y}};
  for (auto [name, address] : tensors)
    if (tdm_status status = checkAddress(name, address, alignment))
      return status;
  if (desc.bias)
    if (tdm_status status = checkAddress("bias", args.bias, alignment))
      return status;
  if (args.workspace_bytes)
    if (tdm_status status =
            checkAddress("workspace", args.workspace, workspaceAlignment))
      return status;
  for (auto [name, scale] :
       {std::pair("x_scale", args.x_scale), std::pair("w_scale", args.w_scale)})
    if (isNarrow())
      if (tdm_status status = checkAddress(name, scale, sizeof(float)))
        return status;
  bool hasMore = (!isNarrow() && (args.x_scale || args.w_scale)) ||
                 (!desc.bias && args.bias);
  if (hasMore)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_product_launch: there is a scale or a bias that the "
           << "product's description does not have; pass NULL";
  return TDM_OK;
}

tdm_status Product::launchOn(const tdm_product_args &args) {
  if (tdm_status status = setPointers(args))
    return status;
  if (!isFound)
    if (tdm_status status = findAlgorithm(args.workspace_bytes))
      return status;
  if (args.workspace_bytes < workspaceBytes)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_product_launch: workspace_bytes is " << args.workspace_bytes
           << ", and the first launch's way takes " << workspaceBytes
           << "; pass as many as before";
  constexpr float one = 1.0f, zero = 0.0f;
  return library.call(
      library.matmul, session->handle, operation,
      static_cast<const void *>(&one), args.w, w, args.x, x,
      static_cast<const void *>(&zero), static_cast<const void *>(args.y), y,
      args.y, y, static_cast<const Algorithm *>(&algorithm), args.workspace,
      args.workspace_bytes, static_cast<Stream>(args.stream));
}

tdm_status Product::launch(const tdm_product_args &args) {
  if (tdm_status status = checkArguments(args))
    return status;
  std::lock_guard<std::mutex> lock(mutex);
  return session->device->inContext([&] { return launchOn(args); });
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

struct tdm_product : Product {
  using Product::Product;
};

static tdm_status failIn(const char *function, const char *problem) {
  return Failure(TDM_INVALID_ARGUMENT) << function << ": " << problem;
}

static tdm_status checkTypes(const tdm_product_desc &desc) {
  for (uint32_t factor : {desc.x, desc.w})
    if (factor > TDM_FACTOR_BF16)
      return failIn("tdm_product_create",
                    "x or w is not a tdm_factor; pass TDM_FACTOR_E4M3, "
                    "TDM_FACTOR_E5M2 or TDM_FACTOR_BF16");
  bool isMixed = (desc.x == TDM_FACTOR_BF16) != (desc.w == TDM_FACTOR_BF16);
  bool isRange = desc.x == TDM_FACTOR_E5M2 && desc.w == TDM_FACTOR_E5M2;
  if (isMixed || isRange)
    return failIn("tdm_product_create",
                  "x and w are 8-bit floats, not both E5M2, or both bf16");
  return TDM_OK;
}

static tdm_status checkSizes(const tdm_product_desc &desc) {
  int64_t multiple = desc.x == TDM_FACTOR_BF16 ? 8 : 16;
  const std::pair<const char *, int64_t> sizes[] = {
      {"rows", desc.rows}, {"columns", desc.columns}, {"depth", desc.depth}};
  for (auto [name, size] : sizes)
    if (size <= 0 || size % multiple)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_product_create: " << name << " is " << size
             << "; cuBLASLt takes multiples of " << multiple;
  return TDM_OK;
}

static tdm_status checkDevice(const CUDADevice &device,
                              const tdm_product_desc &desc) {
  int needed = desc.x == TDM_FACTOR_BF16 ? 80 : 89;
  if (device.getCapability() >= needed)
    return TDM_OK;
  return Failure(TDM_UNAVAILABLE)
         << "tdm_product_create: the GPU is an sm_" << device.getCapability()
         << ", and such products begin with sm_" << needed
         << "; use a framework's product";
}

tdm_status tdm_product_create(const tdm_device *device,
                              const tdm_product_desc *desc,
                              tdm_product **product) {
  if (!device || !desc || !product)
    return failIn("tdm_product_create", "device, desc or product is NULL");
  if (desc->struct_size != sizeof(tdm_product_desc))
    return failIn("tdm_product_create",
                  "struct_size is not that of this runtime; set it to "
                  "sizeof(tdm_product_desc) of the matching header");
  if (device->driver != &getDriver())
    return failIn("tdm_product_create", "device is not a GPU; pass one");
  return guarded("tdm_product_create", [&]() -> tdm_status {
    auto gpu = std::static_pointer_cast<const CUDADevice>(device->device);
    if (tdm_status status = checkTypes(*desc))
      return status;
    if (tdm_status status = checkSizes(*desc))
      return status;
    if (tdm_status status = checkDevice(*gpu, *desc))
      return status;
    std::shared_ptr<const CublasLtSession> session;
    if (tdm_status status = CublasLtSession::get(gpu, session))
      return status;
    auto fresh = std::make_unique<tdm_product>(std::move(session), *desc);
    if (tdm_status status = fresh->create())
      return status;
    *product = fresh.release();
    return TDM_OK;
  });
}

tdm_status tdm_product_launch(tdm_product *product,
                              const tdm_product_args *args) {
  if (!product || !args)
    return failIn("tdm_product_launch", "product or args is NULL");
  if (args->struct_size != sizeof(tdm_product_args))
    return failIn("tdm_product_launch",
                  "struct_size is not that of this runtime; set it to "
                  "sizeof(tdm_product_args) of the matching header");
  return guarded("tdm_product_launch",
                 [&]() -> tdm_status { return product->launch(*args); });
}

void tdm_product_destroy(tdm_product *product) { delete product; }
