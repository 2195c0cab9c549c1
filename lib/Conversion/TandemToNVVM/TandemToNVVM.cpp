//===- TandemToNVVM.cpp - Kernels as NVVM functions -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to NVVM kernels of the launch
// ABI.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Support/SequenceBuilder.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTONVVM
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// Threads per block that the generated kernels are launched with.
static constexpr int32_t blockSize = 256;
/// Bytes of the widest memory access.
static constexpr int64_t accessBytes = 16;

namespace {
/// Builds a kernel whose blocks stride over chunks and whose threads take
/// `width` consecutive elements a step.
class NVVMKernelBuilder {
public:
  explicit NVVMKernelBuilder(KernelOp kernel)
      : kernel(kernel), builder(kernel), launch(kernel, builder),
        loc(kernel.getLoc()), width(kernel.getWidth()),
        planes(launch.getPlanes()) {}

  void build();

private:
  template <typename OpTy>
  Value sreg() {
    Value word = OpTy::create(builder, loc, builder.getI32Type());
    return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), word);
  }
  void markKernel(LLVM::LLVMFuncOp function, int32_t threads);
  /// The chunk's pointers in the global address space; whether all of them
  /// allow the widest access.
  Value prepareChunk(Chunk &chunk);
  void buildStep(const Chunk &chunk, Value index, Value isAligned);
  SmallVector<Value> buildLoads(const Chunk &chunk, Value index, Value isWide);
  SmallVector<Value> loadWide(const Chunk &chunk, Value index);
  SmallVector<Value> loadLanes(const Chunk &chunk, Value index);
  void buildStores(const Chunk &chunk, Value index, Value isWide);
  Value pointerTo(const Chunk &chunk, unsigned plane, Value index);
  unsigned planeOf(Operation *access);
  Value laneExists(const Chunk &chunk, Value index, int64_t lane);

  KernelOp kernel;
  OpBuilder builder;
  LaunchBuilder launch;
  Location loc;
  int64_t width;
  SmallVector<LaunchBuilder::PlaneInfo> planes;
  SmallVector<LoadPlaneOp> loads;
  SmallVector<StorePlaneOp> stores;
  IRMapping mapping;
};
} // namespace

void NVVMKernelBuilder::markKernel(LLVM::LLVMFuncOp function, int32_t threads) {
  function->setAttr("nvvm.kernel", builder.getUnitAttr());
  function->setAttr("nvvm.maxntid", builder.getDenseI32ArrayAttr({threads}));
}

void NVVMKernelBuilder::build() {
  kernel.getBodyBlock().walk([&](LoadPlaneOp op) { loads.push_back(op); });
  kernel.getBodyBlock().walk([&](StorePlaneOp op) { stores.push_back(op); });
  markKernel(launch.createPrologue(), 1);
  LLVM::LLVMFuncOp entry = launch.createEntry();
  markKernel(entry, blockSize);
  builder.setInsertionPointToStart(&entry.getBody().front());
  SequenceBuilder b(builder, loc);
  Value block = sreg<NVVM::BlockIdXOp>(), blocks = sreg<NVVM::GridDimXOp>();
  Value thread = sreg<NVVM::ThreadIdXOp>(), threads = sreg<NVVM::BlockDimXOp>();
  auto chunkLoop =
      scf::ForOp::create(builder, loc, b.addi(entry.getArgument(5), block),
                         entry.getArgument(6), blocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(chunkLoop.getBody()->getTerminator());
  Chunk chunk = launch.readChunk(entry, chunkLoop.getInductionVar());
  Value isAligned = prepareChunk(chunk);
  Value lanes = launch.i64(width);
  auto steps = scf::ForOp::create(builder, loc,
                                  b.addi(chunk.begin, b.muli(thread, lanes)),
                                  chunk.end, b.muli(threads, lanes));
  builder.setInsertionPoint(steps.getBody()->getTerminator());
  buildStep(chunk, steps.getInductionVar(), isAligned);
}

Value NVVMKernelBuilder::prepareChunk(Chunk &chunk) {
  SequenceBuilder b(builder, loc);
  auto global = LLVM::LLVMPointerType::get(builder.getContext(), 1);
  Value combined;
  for (Value &pointer : chunk.planes) {
    pointer = LLVM::AddrSpaceCastOp::create(builder, loc, global, pointer);
    Value address =
        LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), pointer);
    combined = combined ? b.ori(combined, address) : address;
  }
  Value low = b.andi(combined, b.like(combined, accessBytes - 1));
  Value offset = b.andi(chunk.begin, b.like(chunk.begin, width - 1));
  Value misaligned = b.ori(low, offset);
  return b.compare(arith::CmpIPredicate::eq, misaligned, b.like(misaligned, 0));
}

void NVVMKernelBuilder::buildStep(const Chunk &chunk, Value index,
                                  Value isAligned) {
  SequenceBuilder b(builder, loc);
  Value isWhole = b.compare(arith::CmpIPredicate::sge, b.subi(chunk.end, index),
                            launch.i64(width));
  Value isWide = b.andi(isWhole, isAligned);
  for (auto [uniform, value] : llvm::zip(kernel.getUniforms(), chunk.uniforms))
    mapping.map(Value(uniform), value);
  SmallVector<Value> loaded = buildLoads(chunk, index, isWide);
  for (auto [op, value] : llvm::zip(loads, loaded))
    mapping.map(op.getResult(), value);
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    if (isa<LoadPlaneOp, StorePlaneOp>(op))
      continue;
    if (auto draw = dyn_cast<RandomBitsOp>(op)) {
      RandomSource source = chunk.getRandomSource(b, draw, index, mapping);
      Value bits =
          b.resize(buildRandomBits(b, source, width), builder.getI32Type());
      mapping.map(draw.getResult(), bits);
      continue;
    }
    builder.clone(op, mapping);
  }
  buildStores(chunk, index, isWide);
}

unsigned NVVMKernelBuilder::planeOf(Operation *access) {
  if (auto load = dyn_cast<LoadPlaneOp>(access))
    return launch.getPlaneIndex(load.getTensor(), load.getPlane());
  auto store = cast<StorePlaneOp>(access);
  return launch.getPlaneIndex(store.getTensor(), store.getPlane());
}

Value NVVMKernelBuilder::pointerTo(const Chunk &chunk, unsigned plane,
                                   Value index) {
  return launch.advance(chunk.planes[plane], index, planes[plane].bytes);
}

SmallVector<Value> NVVMKernelBuilder::buildLoads(const Chunk &chunk,
                                                 Value index, Value isWide) {
  if (loads.empty())
    return {};
  SmallVector<Type> types =
      llvm::map_to_vector(loads, [](LoadPlaneOp op) { return op.getType(); });
  auto branch = scf::IfOp::create(builder, loc, types, isWide,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, loadWide(chunk, index));
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, loadLanes(chunk, index));
  return SmallVector<Value>(branch.getResults());
}

SmallVector<Value> NVVMKernelBuilder::loadWide(const Chunk &chunk,
                                               Value index) {
  return llvm::map_to_vector(loads, [&](LoadPlaneOp op) -> Value {
    unsigned plane = planeOf(op);
    int64_t alignment =
        std::min<int64_t>(accessBytes, width * planes[plane].bytes);
    return LLVM::LoadOp::create(builder, loc, op.getType(),
                                pointerTo(chunk, plane, index), alignment);
  });
}

Value NVVMKernelBuilder::laneExists(const Chunk &chunk, Value index,
                                    int64_t lane) {
  SequenceBuilder b(builder, loc);
  return b.compare(arith::CmpIPredicate::slt, b.addi(index, launch.i64(lane)),
                   chunk.end);
}

/// Element by element, each only if it exists.
SmallVector<Value> NVVMKernelBuilder::loadLanes(const Chunk &chunk,
                                                Value index) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> vectors;
  SmallVector<Type> types;
  for (LoadPlaneOp op : loads) {
    vectors.push_back(b.zero(op.getType()));
    types.push_back(op.getType());
  }
  for (int64_t lane = 0; lane < width; ++lane) {
    auto branch = scf::IfOp::create(builder, loc, types,
                                    laneExists(chunk, index, lane), true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, vectors);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value position = b.addi(index, launch.i64(lane));
    for (auto [op, vector] : llvm::zip(loads, vectors)) {
      unsigned plane = planeOf(op);
      Value element = LLVM::LoadOp::create(
          builder, loc, getElementTypeOrSelf(op.getType()),
          pointerTo(chunk, plane, position), planes[plane].bytes);
      vector = vector::InsertOp::create(builder, loc, element, vector, lane);
    }
    scf::YieldOp::create(builder, loc, vectors);
    vectors.assign(branch.getResults().begin(), branch.getResults().end());
  }
  return vectors;
}

void NVVMKernelBuilder::buildStores(const Chunk &chunk, Value index,
                                    Value isWide) {
  SequenceBuilder b(builder, loc);
  auto branch = scf::IfOp::create(builder, loc, isWide, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  for (StorePlaneOp op : stores) {
    unsigned plane = planeOf(op);
    int64_t alignment =
        std::min<int64_t>(accessBytes, width * planes[plane].bytes);
    LLVM::StoreOp::create(builder, loc, mapping.lookup(op.getValue()),
                          pointerTo(chunk, plane, index), alignment);
  }
  builder.setInsertionPointToStart(branch.elseBlock());
  for (int64_t lane = 0; lane < width; ++lane) {
    auto exists =
        scf::IfOp::create(builder, loc, laneExists(chunk, index, lane));
    OpBuilder::InsertionGuard inner(builder);
    builder.setInsertionPointToStart(exists.thenBlock());
    Value position = b.addi(index, launch.i64(lane));
    for (StorePlaneOp op : stores) {
      unsigned plane = planeOf(op);
      Value element = vector::ExtractOp::create(
          builder, loc, mapping.lookup(op.getValue()), lane);
      LLVM::StoreOp::create(builder, loc, element,
                            pointerTo(chunk, plane, position),
                            planes[plane].bytes);
    }
  }
}

namespace {
struct ConvertTandemToNVVMPass
    : public tandem::impl::ConvertTandemToNVVMBase<ConvertTandemToNVVMPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (kernel.getWidth() < 2) {
        kernel.emitError("a GPU kernel takes at least 2 elements a thread; run "
                         "-tandem-widen first");
        return signalPassFailure();
      }
      if (!kernel.getBodyBlock().getOps<MetricOp>().empty()) {
        kernel.emitError("metrics are measured by CPU kernels; compile for a "
                         "GPU without them");
        return signalPassFailure();
      }
      if (failed(verifyLowered(kernel)))
        return signalPassFailure();
      NVVMKernelBuilder(kernel).build();
      kernel.erase();
      ++numKernels;
    }
  }
};
} // namespace
