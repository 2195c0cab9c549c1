//===- LaunchABI.cpp - The launch ABI -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements access to the launch tables and the prologue.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/LaunchABI.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem-runtime/tandem_launch.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

static constexpr int64_t slotBytes = sizeof(tdm_launch_scalar);
static constexpr int64_t totalBytes = sizeof(tdm_launch_total);
static constexpr int64_t partBytes = sizeof(tdm_launch_part);

static_assert(KernelOp::maxSums == TDM_LAUNCH_MAX_SUMS,
              "the dialect and the launch ABI have one limit");
static_assert(ScaledStorageAttr::minGroup == TDM_LAUNCH_MIN_BLOCK &&
                  ScaledStorageAttr::maxGroup == TDM_LAUNCH_MAX_BLOCK,
              "blocks are as large as the launch ABI has them");

std::string tandem::getEntryName(StringRef kernel) {
  return ("tandem_" + kernel).str();
}
std::string tandem::getPrologueName(StringRef kernel) {
  return ("tandem_" + kernel + TDM_LAUNCH_PROLOGUE).str();
}

/// Returns the value that an operation reads, writes or reduces for each
/// element, or null if the operation handles many elements at once.
static Value getElement(Operation &op) {
  return llvm::TypeSwitch<Operation *, Value>(&op)
      .Case([](LoadPlaneOp load) {
        return load.getElementsPerEntry() == 1 ? load.getResult() : Value();
      })
      .Case([](StorePlaneOp store) {
        return store.getElementsPerEntry() == 1 ? store.getValue() : Value();
      })
      .Case([](LoadReductionResultOp total) {
        return total.differsInRow() ? total.getResult() : Value();
      })
      .Case<ReduceOp, PartialOp, MetricOp>(
          [](auto reduction) { return reduction.getValue(); })
      .Case([](RandomBitsOp draw) { return draw.getResult(); })
      .Case([](SetFlagOp setFlag) { return setFlag.getCondition(); })
      .Default(Value());
}

/// Checks that an operation handles as many elements at once as its kernel.
static LogicalResult verifyWidth(LaunchOp kernel, Operation &op) {
  int64_t width = kernel.getWidth();
  Value element = getElement(op);
  if (!element)
    return success();
  auto vector = dyn_cast<VectorType>(element.getType());
  int64_t lanes = vector ? vector.getNumElements() : 1;
  if (lanes == width && (width > 1 || !vector))
    return success();
  return op.emitError("takes ")
         << lanes << " elements at once in a kernel of width " << width
         << "; write the kernel with width 1 and run -tandem-widen";
}

/// Checks that no Tandem operations are left except those of a lowered body.
static LogicalResult verifyLowered(LaunchOp launch) {
  for (Operation &op : launch.getBodyBlock().without_terminator()) {
    if (isa<TandemDialect>(op.getDialect()) &&
        !isa<LoadPlaneOp, StorePlaneOp, LoadHistoryOp, PushHistoryOp,
             RandomBitsOp, MetricOp, SetFlagOp, ReduceOp, PartialOp,
             ReductionResultOp, LoadReductionResultOp, SizeOp, LookupOp>(op))
      return op.emitError("'") << op.getName()
                               << "' is not lowered; run -tandem-apply-policy "
                                  "and -tandem-lower-storage first";
    if (failed(verifyWidth(launch, op)))
      return failure();
  }
  return success();
}

LogicalResult tandem::verifyLowered(ModuleOp module) {
  for (auto kernel : module.getOps<KernelOp>())
    return kernel.emitError("kernel '")
           << kernel.getSymName()
           << "' has no launches yet; run -tandem-split-phases first";
  for (auto step : module.getOps<StepOp>())
    for (LaunchOp launch : step.getLaunchOps())
      if (failed(::verifyLowered(launch)))
        return failure();
  return success();
}

RandomSource Chunk::getRandomSource(SequenceBuilder &b, RandomBitsOp op,
                                    Value index,
                                    const IRMapping &mapping) const {
  return {mapping.lookup(op.getSeedLow()), mapping.lookup(op.getSeedHigh()),
          mapping.lookup(op.getStep()), key, b.addi(first, index)};
}

Value LaunchBuilder::i64(int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI64IntegerAttr(value));
}

Value LaunchBuilder::advance(Value base, Value index, int64_t stride,
                             int64_t offset) {
  Value bytes = arith::MulIOp::create(builder, loc, index, i64(stride));
  bytes = arith::AddIOp::create(builder, loc, bytes, i64(offset));
  return LLVM::GEPOp::create(builder, loc, base.getType(), builder.getI8Type(),
                             base, ValueRange{bytes});
}

Value LaunchBuilder::load(Value base, Type type, int64_t offset,
                          unsigned alignment) {
  Value pointer = base;
  if (offset)
    pointer =
        LLVM::GEPOp::create(builder, loc, base.getType(), builder.getI8Type(),
                            base, ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  return LLVM::LoadOp::create(builder, loc, type, pointer, alignment);
}

LLVM::LLVMFuncOp LaunchBuilder::createEntry(StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  SmallVector<Type> types(5, pointer);
  types.append({i64, i64});
  auto entry = LLVM::LLVMFuncOp::create(
      builder, loc, getEntryName(name),
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types));
  entry.addEntryBlock(builder);
  return entry;
}

scf::ForOp LaunchBuilder::createRange(LLVM::LLVMFuncOp entry) {
  return scf::ForOp::create(builder, loc,
                            entry.getArgument(EntryArgument::begin),
                            entry.getArgument(EntryArgument::end), i64(1));
}

std::pair<Value, Value>
LaunchBuilder::getRangeUnlessSkipped(LLVM::LLVMFuncOp entry) {
  SequenceBuilder b(builder, loc);
  Value begin = entry.getArgument(EntryArgument::begin),
        end = entry.getArgument(EntryArgument::end);
  Value word = load(entry.getArgument(EntryArgument::flags),
                    builder.getI32Type(), offsetof(tdm_launch_flags, skip));
  Value runs = b.compare(arith::CmpIPredicate::eq, word, b.like(word, 0));
  return {begin, b.select(runs, end, begin)};
}

Value LaunchBuilder::readSlot(Value row, unsigned slot, Type type) {
  SequenceBuilder b(builder, loc);
  Value word = load(row, builder.getI32Type(), slot * slotBytes);
  Type bits = getBitsType(type);
  return b.bitcast(b.resize(word, bits), type);
}

Chunk LaunchBuilder::readChunk(LLVM::LLVMFuncOp entry, Value index) {
  Type i64Type = builder.getI64Type();
  Value record = advance(entry.getArgument(EntryArgument::chunks), index,
                         sizeof(tdm_launch_chunk));
  Chunk chunk = readTensor(
      entry, load(record, i64Type, offsetof(tdm_launch_chunk, tensor)));
  chunk.begin = load(record, i64Type, offsetof(tdm_launch_chunk, begin));
  chunk.end = load(record, i64Type, offsetof(tdm_launch_chunk, end));
  loadEntries(chunk);
  if (kernel.isMatrix())
    return chunk;
  return getRow(chunk, load(record, i64Type, offsetof(tdm_launch_chunk, row)));
}

void LaunchBuilder::loadEntries(Chunk &chunk) {
  for (auto op : kernel.getBodyBlock().getOps<LoadPlaneOp>())
    if (isLoadedOnce(op)) {
      unsigned plane = getPlaneIndex(op.getTensor(), op.getPlane());
      chunk.entries.push_back(load(chunk.planes[plane], op.getType()));
    }
}

Chunk LaunchBuilder::readTile(LLVM::LLVMFuncOp entry, Value index) {
  Value record = advance(entry.getArgument(EntryArgument::chunks), index,
                         sizeof(tdm_launch_tile));
  auto word = [&](int64_t offset) {
    return load(record, builder.getI64Type(), offset);
  };
  Chunk tile = readTensor(entry, word(offsetof(tdm_launch_tile, tensor)));
  tile.firstRow = word(offsetof(tdm_launch_tile, first_row));
  tile.endRow = word(offsetof(tdm_launch_tile, end_row));
  tile.begin = word(offsetof(tdm_launch_tile, first_column));
  tile.end = word(offsetof(tdm_launch_tile, end_column));
  tile.rowParts = word(offsetof(tdm_launch_tile, row_parts));
  tile.columnParts = word(offsetof(tdm_launch_tile, column_parts));
  loadEntries(tile);
  return tile;
}

Value LaunchBuilder::getRowOffset(const PlaneInfo &plane, const Chunk &tile,
                                  Value row) {
  SequenceBuilder b(builder, loc);
  if (plane.entries == Granularity::tensor ||
      plane.entries == Granularity::column)
    return {};
  Group group = plane.ownGroup;
  if (group.isRow() || plane.isTransposed)
    return b.muli(row, i64(plane.bytes));
  unsigned shift = llvm::Log2_64(group.columns);
  if (plane.entries == Granularity::row)
    return b.muli(b.shr(row, shift), i64(plane.bytes));
  Value across = b.shr(b.addi(tile.columns, i64(group.columns - 1)), shift);
  if (plane.entries == Granularity::block)
    row = b.shr(row, shift);
  return b.muli(b.muli(row, across), i64(plane.bytes));
}

Chunk LaunchBuilder::getRow(const Chunk &tile, Value row) {
  SequenceBuilder b(builder, loc);
  Chunk chunk = tile;
  chunk.row = row;
  chunk.first = b.addi(tile.first, b.muli(row, tile.columns));
  for (auto [pointer, plane] : llvm::zip(chunk.planes, getPlanes()))
    if (plane.isUsed())
      if (Value offset = getRowOffset(plane, tile, row))
        pointer = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                      builder.getI8Type(), pointer,
                                      ValueRange{offset});
  return chunk;
}

Value LaunchBuilder::getPart(const Chunk &tile, PartialOp op, Value position) {
  SequenceBuilder b(builder, loc);
  bool isRow = op.getScope() == Granularity::row;
  Value entry = b.addi(isRow ? tile.rowParts : tile.columnParts, position);
  return advance(tile.parts[op.getIndex()], entry, totalBytes);
}

Value LaunchBuilder::getBlockNumber(const Chunk &chunk, Value row,
                                    Value column) {
  SequenceBuilder b(builder, loc);
  unsigned shift = llvm::Log2_64(kernel.getBlockSize());
  Value across =
      b.shr(b.addi(chunk.columns, i64(kernel.getBlockSize() - 1)), shift);
  Value blockInRow = b.shr(column, shift);
  return b.addi(b.muli(b.shr(row, shift), across), blockInRow);
}

Value LaunchBuilder::getAxisTotal(const Chunk &chunk, uint64_t index,
                                  Value position) {
  return advance(chunk.parts[index], position, totalBytes);
}

void LaunchBuilder::readReductions(Chunk &chunk, Value record) {
  Type i64Type = builder.getI64Type();
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  chunk.totals = load(record, pointer, offsetof(tdm_launch_tensor, totals));
  bool isColumn = kernel.getPer() == Granularity::column;
  chunk.firstChunk =
      load(record, i64Type,
           isColumn ? offsetof(tdm_launch_tensor, first_column_chunk)
                    : offsetof(tdm_launch_tensor, first_chunk));
  chunk.endChunk = load(record, i64Type,
                        isColumn ? offsetof(tdm_launch_tensor, end_column_chunk)
                                 : offsetof(tdm_launch_tensor, end_chunk));
  if (!kernel.isMatrix())
    return;
  chunk.partsOfRow =
      load(record, i64Type, offsetof(tdm_launch_tensor, tiles_across));
  chunk.partsOfColumn =
      load(record, i64Type, offsetof(tdm_launch_tensor, tiles_down));
  int64_t parts = tdm_launch_tensor_size(getPlanes().size(), 0);
  for (uint64_t i = 0; i < kernel.getReductions(); ++i)
    chunk.parts.push_back(load(record, pointer, parts + sizeof(void *) * i));
}

bool LaunchBuilder::isLoadedOnce(LoadPlaneOp op) {
  return op.getPlaneInfo().group.isTensor();
}

Value LaunchBuilder::readWholeSize(Value record) {
  auto sizes = kernel.getBodyBlock().getOps<SizeOp>();
  bool isRead = llvm::any_of(
      sizes, [](SizeOp op) { return op.getPer() != Granularity::column; });
  return isRead ? load(record, builder.getI64Type(),
                       offsetof(tdm_launch_tensor, num_elements))
                : Value();
}

Chunk LaunchBuilder::readTensor(LLVM::LLVMFuncOp entry, Value tensor) {
  SequenceBuilder b(builder, loc);
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64Type = builder.getI64Type();
  int64_t planes = getPlanes().size();
  Value record =
      advance(entry.getArgument(EntryArgument::tensors), tensor,
              tdm_launch_tensor_size(planes, kernel.getReductions()));
  auto word = [&](int64_t offset) { return load(record, i64Type, offset); };
  Chunk chunk;
  chunk.rows = word(offsetof(tdm_launch_tensor, rows));
  chunk.columns = word(offsetof(tdm_launch_tensor, columns));
  chunk.size = b.muli(chunk.rows, chunk.columns);
  chunk.wholeSize = readWholeSize(record);
  chunk.first = word(offsetof(tdm_launch_tensor, first));
  chunk.key =
      b.resize(word(offsetof(tdm_launch_tensor, key)), builder.getI32Type());
  Value scalarRow = word(offsetof(tdm_launch_tensor, scalar_row));
  for (int64_t plane = 0; plane < planes; ++plane)
    chunk.planes.push_back(
        load(record, pointer, tdm_launch_tensor_size(plane, 0)));
  if (kernel.getReductions() || kernel.isMatrix())
    readReductions(chunk, record);
  for (auto total : kernel.getBodyBlock().getOps<ReductionResultOp>())
    chunk.known.push_back(
        load(chunk.totals, total.getType(), total.getIndex() * totalBytes));
  auto uniforms = kernel.getUniforms();
  Value row = advance(entry.getArgument(EntryArgument::scalars), scalarRow,
                      slotBytes * int64_t(uniforms.size()));
  for (auto [slot, uniform] : llvm::enumerate(uniforms))
    chunk.uniforms.push_back(readSlot(row, slot, uniform.getType()));
  return chunk;
}

/// Returns the size of the unsharded tensor in elements, rows or columns.
static Value getSize(SequenceBuilder &b, const Chunk &chunk, Granularity per,
                     bool isMatrix) {
  switch (per) {
  case Granularity::row:
    return chunk.wholeSize;
  case Granularity::column:
    return chunk.columns;
  case Granularity::element:
    return isMatrix ? b.muli(chunk.wholeSize, chunk.columns) : chunk.wholeSize;
  default:
    llvm_unreachable("tandem.size counts elements, rows or columns");
  }
}

void LaunchBuilder::mapShared(const Chunk &chunk, IRMapping &mapping) {
  for (auto [uniform, value] : llvm::zip(kernel.getUniforms(), chunk.uniforms))
    mapping.map(Value(uniform), value);
  SequenceBuilder b(builder, loc);
  for (auto op : kernel.getBodyBlock().getOps<SizeOp>())
    mapping.map(op.getResult(),
                getSize(b, chunk, op.getPer(), kernel.isMatrix()));
  for (auto [op, value] : llvm::zip(
           kernel.getBodyBlock().getOps<ReductionResultOp>(), chunk.known))
    mapping.map(op.getResult(), value);
  // Code for a tensor as a whole, without its chunks, has no entries.
  const Value *entry = chunk.entries.begin();
  for (auto op : kernel.getBodyBlock().getOps<LoadPlaneOp>())
    if (!chunk.entries.empty() && isLoadedOnce(op))
      mapping.map(op.getResult(), *entry++);
}

//===----------------------------------------------------------------------===//
// Histories
//===----------------------------------------------------------------------===//

/// The bytes of one value in an entry's history, an f32.
static constexpr int64_t valueBytes = 4;

Value LaunchBuilder::loadHistory(LoadHistoryOp op, Value entry) {
  SequenceBuilder b(builder, loc);
  Type i32 = builder.getI32Type();
  Value zero = b.integer(i32, 0);
  Value step = i64(1), end = i64(op.getPlaneInfo().history - 1), begin = i64(0);
  auto loop = scf::ForOp::create(
      builder, loc, begin, end, step, zero,
      [&](OpBuilder &, Location, Value index, ValueRange largest) {
        Value value = load(advance(entry, index, valueBytes), i32);
        Value isNumber = b.compare(arith::CmpIPredicate::ult, value,
                                   b.like(value, f32Infinity));
        value = b.select(isNumber, value, zero);
        Value larger = arith::MaxUIOp::create(builder, loc, largest[0], value);
        scf::YieldOp::create(builder, loc, larger);
      });
  return loop.getResult(0);
}

void LaunchBuilder::pushHistory(PushHistoryOp op, Value entry, Value newest) {
  Value step = i64(1), end = i64(op.getPlaneInfo().history), begin = i64(0);
  scf::ForOp::create(builder, loc, begin, end, step, newest,
                     [&](OpBuilder &, Location, Value index, ValueRange newer) {
                       Value place = advance(entry, index, valueBytes);
                       Value older = load(place, newer[0].getType());
                       LLVM::StoreOp::create(builder, loc, newer[0], place);
                       scf::YieldOp::create(builder, loc, older);
                     });
}

Value LaunchBuilder::getSlots(Value workspace, Value chunkIndex) {
  int64_t slots = kernel.getReductions() + kernel.getNumMetrics();
  return advance(workspace, chunkIndex, partBytes * slots);
}

Value LaunchBuilder::getSlot(Value slots, Operation *op) {
  auto metric = dyn_cast<MetricOp>(op);
  int64_t slot = metric ? kernel.getReductions() + metric.getIndex()
                        : cast<PartialOp>(op).getIndex();
  return advance(slots, i64(slot), partBytes);
}

ArrayRef<LaunchBuilder::PlaneInfo> LaunchBuilder::getPlanes() {
  if (planes.empty())
    findPlanes();
  return planes;
}

void LaunchBuilder::findPlanes() {
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
    for (const Plane &plane :
         kernel.getTensorType(i).getStorage().getPlanes()) {
      Type bits = getBitsType(plane.elementType);
      planes.push_back({bits, bits.getIntOrFloatBitWidth() / 8, false, false,
                        kernel.getElementsPerEntry(i, plane),
                        kernel.getTensorRole(i).getGranularity(plane),
                        plane.group, plane.isTransposed, plane.packed});
    }
  for (Operation &op : kernel.getBodyBlock())
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      planes[getPlaneIndex(load.getTensor(), load.getPlane())].isRead = true;
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      planes[getPlaneIndex(store.getTensor(), store.getPlane())].isWritten =
          true;
    else if (auto loaded = dyn_cast<LoadHistoryOp>(op))
      planes[getPlaneIndex(loaded.getTensor(), loaded.getPlane())].isRead =
          true;
    else if (auto pushed = dyn_cast<PushHistoryOp>(op))
      planes[getPlaneIndex(pushed.getTensor(), pushed.getPlane())].isWritten =
          true;
}

Value LaunchBuilder::addressOf(const Chunk &chunk, unsigned plane,
                               Value element) {
  SequenceBuilder b(builder, loc);
  const PlaneInfo &info = getPlanes()[plane];
  if (info.isTransposed)
    element = b.muli(element, chunk.rows);
  unsigned shift = llvm::Log2_64(info.group) + llvm::Log2_64(info.packed);
  Value entry = shift ? b.shr(element, shift) : element;
  return advance(chunk.planes[plane], entry, info.bytes);
}

unsigned LaunchBuilder::getPlaneIndex(Value tensor, uint64_t plane) {
  return kernel.getFirstPlane(cast<BlockArgument>(tensor).getArgNumber()) +
         plane;
}

//===----------------------------------------------------------------------===//
// The prologue
//===----------------------------------------------------------------------===//

/// Builds the computation of one row of slots.
void LaunchBuilder::buildPrologueRow(LLVM::LLVMFuncOp function, Value row) {
  Block &prologue = kernel.getPrologueBlock();
  int64_t hypers = llvm::count_if(prologue.getArgumentTypes(),
                                  [](Type type) { return type.isF64(); });
  int64_t integers = prologue.getNumArguments() - hypers;
  Value hyperRow = advance(function.getArgument(0), row, 8 * hypers);
  Value integerRow = advance(function.getArgument(1), row, 8 * integers);
  int64_t nextHyper = 0, nextInteger = 0;
  IRMapping mapping;
  for (BlockArgument argument : prologue.getArguments()) {
    bool isHyper = argument.getType().isF64();
    int64_t &next = isHyper ? nextHyper : nextInteger;
    mapping.map(Value(argument), load(isHyper ? hyperRow : integerRow,
                                      argument.getType(), 8 * next++));
  }
  for (Operation &op : prologue.without_terminator())
    builder.clone(op, mapping);
  auto yielded = prologue.getTerminator()->getOperands();
  Value slots = advance(function.getArgument(2), row,
                        slotBytes * int64_t(yielded.size()));
  SequenceBuilder b(builder, loc);
  for (auto [slot, value] : llvm::enumerate(yielded)) {
    Value known = mapping.lookupOrDefault(value);
    Value bits = isa<FloatType>(known.getType()) ? b.bits(known) : known;
    Value place = advance(slots, i64(slot), slotBytes);
    LLVM::StoreOp::create(builder, loc, b.resize(bits, builder.getI32Type()),
                          place);
  }
}

LLVM::LLVMFuncOp LaunchBuilder::createPrologue() {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto function = LLVM::LLVMFuncOp::create(
      builder, loc, getPrologueName(kernel.getFunctionName()),
      LLVM::LLVMFunctionType::get(
          LLVM::LLVMVoidType::get(builder.getContext()),
          {pointer, pointer, pointer, builder.getI64Type()}));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(function.addEntryBlock(builder));
  Value step = i64(1), begin = i64(0);
  auto loop =
      scf::ForOp::create(builder, loc, begin, function.getArgument(3), step);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  buildPrologueRow(function, loop.getInductionVar());
  expandIntegerPowers(function);
  return function;
}

/// Expands a power: r = 1; 64 times: if (n & 1) r *= b; b *= b; n >>= 1.
static Value expandPower(math::FPowIOp op) {
  OpBuilder builder(op);
  SequenceBuilder b(builder, op.getLoc());
  Value exponent = op.getRhs();
  Value zero = b.like(exponent, 0);
  Value isNegative = b.compare(arith::CmpIPredicate::slt, exponent, zero);
  Value magnitude = b.select(isNegative, b.subi(zero, exponent), exponent);
  Value one = b.real(op.getType(), 1.0);
  auto loop = scf::ForOp::create(builder, op.getLoc(), b.like(exponent, 0),
                                 b.like(exponent, 64), b.like(exponent, 1),
                                 ValueRange{one, op.getLhs(), magnitude});
  builder.setInsertionPointToStart(loop.getBody());
  auto state = loop.getRegionIterArgs();
  Value isSet =
      b.compare(arith::CmpIPredicate::ne, b.andi(state[2], b.like(state[2], 1)),
                b.like(state[2], 0));
  Value product = b.select(isSet, b.mul(state[0], state[1]), state[0]);
  Value square = b.mul(state[1], state[1]);
  scf::YieldOp::create(builder, op.getLoc(),
                       ValueRange{product, square, b.shr(state[2], 1)});
  builder.setInsertionPointAfter(loop);
  Value power = loop.getResult(0);
  return b.select(isNegative, b.div(one, power), power);
}

void tandem::expandIntegerPowers(LLVM::LLVMFuncOp function) {
  SmallVector<math::FPowIOp> powers;
  function.walk([&](math::FPowIOp op) { powers.push_back(op); });
  for (math::FPowIOp op : powers) {
    op.replaceAllUsesWith(expandPower(op));
    op.erase();
  }
}
