//===- ConversionKernels.cpp - Kernels that no graph has ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernels that move values between storages.
//
//===----------------------------------------------------------------------===//

#include "ConversionKernels.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// KernelBuilder
//===----------------------------------------------------------------------===//

namespace {
/// Builds one kernel with the f32 policy in a module of its own.
class KernelBuilder {
public:
  KernelBuilder(MLIRContext *context, StringRef name,
                const ConversionTensors &tensors)
      : tensors(tensors), builder(context), b(builder, builder.getUnknownLoc()),
        module(ModuleOp::create(b.loc)) {
    builder.setInsertionPointToStart(module->getBody());
    createKernel(name);
  }

  Value loadTarget(unsigned index) { return load(index); }
  Value loadSource(unsigned index) {
    return load(tensors.targets.size() + index);
  }
  void storeTarget(Value value, unsigned index) {
    StoreOp::create(builder, b.loc, value, getTensor(index));
  }
  void measureSaturation(unsigned index) {
    SaturationOp::create(builder, b.loc, getTensor(index));
  }

  /// Terminates the body and returns the module.
  OwningOpRef<ModuleOp> finish() {
    YieldOp::create(builder, b.loc, ValueRange());
    return std::move(module);
  }

private:
  BlockArgument getTensor(unsigned index) {
    return kernel.getBodyBlock().getArgument(index);
  }
  Value load(unsigned index) {
    return LoadOp::create(builder, b.loc, builder.getF32Type(),
                          getTensor(index));
  }

  void addRoles(RoleKind kind, StringRef prefix, size_t count,
                SmallVectorImpl<Attribute> &roles) {
    bool isSecond = kind == RoleKind::state && tensors.hasFloor;
    for (size_t i = 0; i < count; ++i)
      roles.push_back(RoleAttr::get(
          builder.getContext(), kind, builder.getStringAttr(prefix + Twine(i)),
          isSecond ? Moment::second : Moment::none,
          isSecond ? Domain::nonneg : Domain::any,
          /*defaultValue=*/{}, Granularity::element, Consumer::nonlinear,
          Flow::activation, StringAttr(), Type()));
  }

  void addTensor(StorageAttrInterface storage) {
    SmallVector<int64_t> shape(tensors.isMatrix ? 2 : 1, ShapedType::kDynamic);
    auto logical = RankedTensorType::get(shape, builder.getF32Type());
    kernel.getBodyBlock().addArgument(
        StoredType::get(builder.getContext(), logical, storage), b.loc);
  }

  /// Creates the kernel with an empty prologue, and moves the builder into its
  /// body.
  void createKernel(StringRef name) {
    SmallVector<Attribute> roles;
    addRoles(RoleKind::state, "to", tensors.targets.size(), roles);
    addRoles(RoleKind::grad, "from", tensors.sources.size(), roles);
    auto compute = ComputeAttr::get(builder.getContext(), Policy::f32,
                                    builder.getF32Type());
    kernel =
        KernelOp::create(builder, b.loc, name, compute,
                         builder.getArrayAttr(roles), builder.getArrayAttr({}));
    builder.setInsertionPointToStart(&kernel.getPrologue().emplaceBlock());
    YieldOp::create(builder, b.loc, ValueRange());
    kernel.getBody().emplaceBlock();
    for (StorageAttrInterface storage :
         llvm::concat<const StorageAttrInterface>(tensors.targets,
                                                  tensors.sources))
      addTensor(storage);
    builder.setInsertionPointToStart(&kernel.getBodyBlock());
  }

  const ConversionTensors &tensors;
  OpBuilder builder;

public:
  SequenceBuilder b;

private:
  OwningOpRef<ModuleOp> module;
  KernelOp kernel;
};
} // namespace

OwningOpRef<ModuleOp> tandem::buildConversion(MLIRContext *context,
                                              const ConversionTensors &tensors,
                                              bool adds) {
  KernelBuilder kernel(context, "convert", tensors);
  Value value = kernel.loadSource(0);
  if (adds)
    value = kernel.b.add(kernel.loadTarget(0), value);
  kernel.storeTarget(value, 0);
  return kernel.finish();
}

OwningOpRef<ModuleOp> tandem::buildSum(MLIRContext *context,
                                       const ConversionTensors &tensors) {
  KernelBuilder kernel(context, "convert", tensors);
  std::vector<Value> values;
  for (size_t i = 0; i < tensors.sources.size(); ++i)
    values.push_back(kernel.loadSource(i));
  Value sum = values.front();
  for (Value value : llvm::drop_begin(values))
    sum = kernel.b.add(sum, value);
  kernel.storeTarget(sum, 0);
  kernel.measureSaturation(0);
  return kernel.finish();
}

OwningOpRef<ModuleOp> tandem::buildLoads(MLIRContext *context,
                                         const ConversionTensors &tensors) {
  KernelBuilder kernel(context, "check", tensors);
  for (size_t i = 0; i < tensors.sources.size(); ++i)
    kernel.loadSource(i);
  return kernel.finish();
}

//===----------------------------------------------------------------------===//
// Renormalization
//===----------------------------------------------------------------------===//

namespace {
/// Splits a sum of f32 values into floats of another format.
class Renormalizer {
public:
  Renormalizer(SequenceBuilder &b, SmallVector<Value> terms)
      : b(b), terms(std::move(terms)),
        pair(mcf::ExpansionType::get(b.builder.getF32Type(), 2)) {}

  /// Subtracts from the sum its rounding to the format, and returns that as an
  /// f32.
  Value cut(Type format) {
    addUp();
    Value rounded = b.convert(b.convert(terms[0], format), terms[0].getType());
    terms[0] = b.sub(terms[0], rounded);
    return rounded;
  }

private:
  /// Moves the whole sum into the first term. The other terms get its rounding
  /// errors.
  void addUp() {
    for (size_t i = terms.size() - 1; i-- > 0;) {
      auto sum =
          mcf::TwoSumOp::create(b.builder, b.loc, pair, terms[i], terms[i + 1]);
      Type f32 = b.builder.getF32Type();
      auto parts =
          mcf::ComponentsOp::create(b.builder, b.loc, TypeRange{f32, f32}, sum);
      terms[i] = parts.getResult(0);
      terms[i + 1] = parts.getResult(1);
    }
  }

  SequenceBuilder &b;
  SmallVector<Value> terms;
  Type pair;
};
} // namespace

/// Returns the storages of the planes of a sum, each a tensor of plain floats.
static SmallVector<StorageAttrInterface> getPlaneTensors(PlaneSum sum) {
  StorageAttrInterface storage = FloatStorageAttr::get(
      sum.format.getContext(), sum.format, RoundingMode::nearest);
  return SmallVector<StorageAttrInterface>(sum.count, storage);
}

OwningOpRef<ModuleOp> tandem::buildRenormalization(MLIRContext *context,
                                                   PlaneSum source,
                                                   PlaneSum target) {
  ConversionTensors tensors;
  tensors.targets = getPlaneTensors(target);
  tensors.sources = getPlaneTensors(source);
  KernelBuilder kernel(context, "convert", tensors);
  SequenceBuilder &b = kernel.b;
  Value zero = b.real(b.builder.getF32Type(), 0.0);
  SmallVector<Value> terms, planes;
  for (unsigned i = 0; i < source.count; ++i)
    terms.push_back(kernel.loadSource(i));
  Renormalizer renormalizer(b, std::move(terms));
  for (unsigned i = 0; i < target.count; ++i)
    planes.push_back(renormalizer.cut(target.format));
  // Only the first plane represents infinity and NaN.
  Value isFinite =
      b.compare(arith::CmpFPredicate::OEQ, b.sub(planes[0], planes[0]), zero);
  for (auto [index, plane] : llvm::enumerate(planes))
    kernel.storeTarget(index ? b.select(isFinite, plane, zero) : plane, index);
  return kernel.finish();
}
