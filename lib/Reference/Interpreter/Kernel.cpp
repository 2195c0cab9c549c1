//===- Kernel.cpp - One launch of a kernel --------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of kernels at any stage of their lowering.
// The prologue runs once, the body for many elements, operation by operation.
// The blocks of a group run in lockstep, since a reduction needs them all; with
// a reduction over the whole tensor, all blocks do.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Blocks.h"
#include "tandem/Reference/Interpreter/Storage.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

using Results = SmallVector<Datum, 1>;
using Operands = ArrayRef<const Datum *>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The results of the reductions that earlier phases have completed.
using Totals = SmallVector<std::optional<Number>>;

namespace {
/// Executes the operations of a body that access memory. Lanes past the last
/// element read zeros and write nothing.
class KernelMemory : public Environment {
public:
  KernelMemory(ProgramOpInterface kernel, MachineState &state, Totals &totals)
      : kernel(kernel), state(state), totals(totals) {}

  llvm::Error bind();
  uint64_t getNumElements() const { return bound.numElements; }
  /// Makes this element lane 0. Scalars get `numElements` lanes.
  void moveTo(uint64_t element, uint64_t numElements) {
    base = element;
    numScalarLanes = numElements;
  }
  bool isInside(unsigned lane) const { return base + lane < bound.numElements; }

  std::optional<llvm::Expected<Results>> execute(Operation *op,
                                                 Operands operands) override;

  /// Sets the result of a reduction for later phases.
  void setTotal(PartialOp op, Number result) const {
    totals[op.getIndex()] = result;
  }

  /// Stores the values of whole groups, which begin at lane 0.
  void storeGroups(StoreOp op, ArrayRef<SoftFloat> values) const {
    getTensor(op.getTensor()).writeGroups(state, base, values);
  }

private:
  Results load(LoadOp op) const;
  Results store(StoreOp op, const Datum &value) const;
  llvm::Expected<Results> visible(VisibleOp op, const Datum &value) const;
  Codes encode(ProgramOpInterface program, Value tensor, Type type,
               const Lane &value, unsigned lane) const;
  llvm::Expected<Results> loadPlane(LoadPlaneOp op) const;
  Results storePlane(StorePlaneOp op, const Datum &value) const;
  Results loadHistory(LoadHistoryOp op) const;
  Results pushHistory(PushHistoryOp op, const Datum &value) const;
  Results drawBits(RandomBitsOp op, Operands operands) const;
  Results setFlag(SetFlagOp op, const Datum &condition);

  const BoundTensor &getTensor(Value value) const {
    return bound.tensors[cast<BlockArgument>(value).getArgNumber()];
  }
  unsigned countLanes(Type type) const {
    return isa<VectorType>(type) ? getNumLanes(type) : numScalarLanes;
  }
  Codes read(const BoundTensor &tensor, unsigned lane) const {
    return isInside(lane) ? tensor.read(base + lane)
                          : Codes(tensor.planes.size(), 0);
  }

  ProgramOpInterface kernel;
  MachineState &state;
  Totals &totals;
  BoundTensors bound;
  uint64_t base = 0, numScalarLanes = 1;
};
} // namespace

llvm::Error KernelMemory::bind() {
  SmallVector<RoleAttr> roles;
  SmallVector<StorageAttrInterface> storages;
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i) {
    roles.push_back(kernel.getTensorRole(i));
    storages.push_back(kernel.getTensorType(i).getStorage());
  }
  llvm::Expected<BoundTensors> found = bindTensors(roles, storages, state);
  if (!found)
    return found.takeError();
  bound = std::move(*found);
  return llvm::Error::success();
}

std::optional<llvm::Expected<Results>>
KernelMemory::execute(Operation *op, Operands operands) {
  using Answer = std::optional<llvm::Expected<Results>>;
  return llvm::TypeSwitch<Operation *, Answer>(op)
      .Case<LoadOp>([&](auto load) { return this->load(load); })
      .Case<StoreOp>(
          [&](auto store) { return this->store(store, *operands[0]); })
      .Case<VisibleOp>([&](auto seen) { return visible(seen, *operands[0]); })
      .Case<LoadPlaneOp>([&](auto load) { return loadPlane(load); })
      .Case<StorePlaneOp>(
          [&](auto store) { return storePlane(store, *operands[0]); })
      .Case<LoadHistoryOp>(
          [&](auto loaded) { return this->loadHistory(loaded); })
      .Case<PushHistoryOp>(
          [&](auto pushed) { return this->pushHistory(pushed, *operands[0]); })
      .Case<SetFlagOp>([&](auto set) { return setFlag(set, *operands[0]); })
      .Case<RandomBitsOp>([&](auto draw) { return drawBits(draw, operands); })
      .Case<ReductionResultOp>([&](auto total) {
        return Results{{Lane{*totals[total.getIndex()]}}};
      })
      .Case<SizeOp>(
          [&](auto) { return Results{{Lane{Integer(64, bound.numElements)}}}; })
      .Default([](Operation *) { return std::nullopt; });
}

//===----------------------------------------------------------------------===//
// Values and planes
//===----------------------------------------------------------------------===//

Results KernelMemory::load(LoadOp op) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  Type element = getElementTypeOrSelf(op.getType());
  std::optional<Format> format = getFormat(element);
  if (auto expansion = dyn_cast<mcf::ExpansionType>(element))
    format = getFormat(expansion.getLeading());
  Datum datum(countLanes(op.getType()));
  for (auto [i, lane] : llvm::enumerate(datum)) {
    Codes codes = read(tensor, i);
    if (element.isF32()) {
      lane.push_back(decodeReal(tensor.storage, codes));
      continue;
    }
    Components components = decodeComponents(tensor.storage, codes, *format);
    lane.append(components.begin(), components.end());
  }
  return {datum};
}

/// Returns the codes of a lane's new value, if each element has its own.
Codes KernelMemory::encode(ProgramOpInterface program, Value tensor, Type type,
                           const Lane &value, unsigned lane) const {
  const BoundTensor &bound = getTensor(tensor);
  Components components;
  for (const Number &number : value)
    components.push_back(std::get<SoftFloat>(number));
  if (!getElementTypeOrSelf(type).isF32())
    return encodeComponents(bound.storage, components);
  bool hasFloor =
      bound.hasFloor() && program.getCompute().getPolicy() == Policy::f32;
  ElementRounding rounding{bound.drawBits(state, base + lane), hasFloor};
  return encodeReal(bound.storage, components[0], rounding);
}

Results KernelMemory::store(StoreOp op, const Datum &value) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  Type type = op.getValue().getType();
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  for (unsigned i = 0, e = countLanes(type); i < e; ++i)
    if (isInside(i))
      tensor.write(base + i,
                   encode(kernel, op.getTensor(), type, getLane(value, i), i));
  return {};
}

llvm::Expected<Results> KernelMemory::visible(VisibleOp op,
                                              const Datum &value) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  if (getGroup(tensor.storage) != 1)
    return makeError("'tandem.visible' is of a tensor whose elements share "
                     "scales, as " +
                     describe(tensor.storage) +
                     "; run the kernel after -tandem-lower-storage");
  Type type = op.getValue().getType();
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  unsigned plane = *tensor.storage.getVisiblePlane();
  Format format = *getFormat(tensor.planes[plane].elementType);
  Datum datum(countLanes(type));
  for (auto [i, lane] : llvm::enumerate(datum)) {
    Codes codes = encode(kernel, op.getTensor(), type, getLane(value, i), i);
    lane.push_back(
        SoftFloat::fromBits(format, codes[plane]).convert(Format::F32));
  }
  return Results{std::move(datum)};
}

llvm::Expected<Results> KernelMemory::loadPlane(LoadPlaneOp op) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  Type element = getElementTypeOrSelf(op.getType());
  Datum datum(countLanes(op.getType()));
  for (auto [i, lane] : llvm::enumerate(datum)) {
    uint64_t bits = isInside(i) ? tensor.readPlane(op.getPlane(), base + i) : 0;
    llvm::Expected<Number> number = numberFromBits(element, bits);
    if (!number)
      return number.takeError();
    lane.push_back(*number);
  }
  return Results{std::move(datum)};
}

Results KernelMemory::storePlane(StorePlaneOp op, const Datum &value) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  for (unsigned i = 0, e = countLanes(op.getValue().getType()); i < e; ++i)
    if (isInside(i))
      tensor.writePlane(op.getPlane(), base + i,
                        getBits(getLane(value, i).front()));
  return {};
}

Results KernelMemory::loadHistory(LoadHistoryOp op) const {
  const PlaneData &plane = *getTensor(op.getTensor()).data[op.getPlane()];
  uint64_t largest = 0;
  for (uint64_t bits : ArrayRef(plane.elements).drop_back()) {
    auto value = SoftFloat::fromBits(Format::F32, bits);
    if (value.isFinite() && !value.isNegative())
      largest = std::max(largest, bits);
  }
  return {{Lane{Integer(32, largest)}}};
}

Results KernelMemory::pushHistory(PushHistoryOp op, const Datum &value) const {
  PlaneData &plane = *getTensor(op.getTensor()).data[op.getPlane()];
  plane.elements.insert(plane.elements.begin(),
                        getBits(getLane(value, 0).front()));
  plane.elements.pop_back();
  return {};
}

//===----------------------------------------------------------------------===//
// Flags and random bits
//===----------------------------------------------------------------------===//

Results KernelMemory::setFlag(SetFlagOp op, const Datum &condition) {
  for (unsigned i = 0, e = countLanes(op.getCondition().getType()); i < e; ++i)
    if (isInside(i) && getBits(getLane(condition, i).front()))
      state.flags |= uint32_t(1) << op.getFlag();
  return {};
}

Results KernelMemory::drawBits(RandomBitsOp op, Operands operands) const {
  // The first operand, the tensor, has no numbers.
  auto word = [&](unsigned i) {
    return std::get<Integer>(operands[i]->front().front()).bits;
  };
  uint64_t seed = word(1) | word(2) << 32;
  Datum datum;
  for (unsigned i = 0, e = countLanes(op.getType()); i < e; ++i) {
    uint64_t element = uint64_t(state.first) + base + i;
    uint16_t bits =
        op.getDither()
            ? drawDitherBits(seed, state.key, getTensorNumber(op.getTensor()),
                             word(3), element)
            : drawRandomBits(seed, state.key, word(3), element);
    datum.push_back({Integer(32, bits)});
  }
  return {datum};
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

namespace {
/// The blocks of the largest group, which run in lockstep.
class Tile {
public:
  Tile(ProgramOpInterface kernel, KernelMemory &memory);

  /// Returns the number of elements in the tile, which is at least one block.
  uint64_t getSize() const { return blocks.size() * width; }
  llvm::Error checkGroups(const MachineState &state);
  void bind(Value value, const Datum &datum);
  /// Runs the body for the tile that begins at an element.
  llvm::Error run(uint64_t element);

private:
  llvm::Error execute(Operation *op);
  llvm::Error reduce(ReduceOp op);
  llvm::Error reduce(PartialOp op);
  void bindToGroup(uint64_t begin, uint64_t size, Value value, Number number);
  llvm::Error store(StoreOp op);
  llvm::Expected<SmallVector<Lane>> gather(Value value);
  void moveTo(unsigned block);

  ProgramOpInterface kernel;
  KernelMemory &memory;
  /// Whether scalars have a lane for each of many elements, which a body on
  /// single elements allows.
  bool isScalar;
  /// The number of elements of a block.
  uint64_t width;
  std::vector<BlockInterpreter> blocks;
  uint64_t begin = 0;
};
} // namespace

/// Returns the number of elements that an operation needs at once.
static uint64_t getGroup(Operation *op) {
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.endsPhase() ? Group::all : reduce.getGroup();
  if (isa<PushHistoryOp, PartialOp>(op))
    return Group::all;
  if (auto store = dyn_cast<StoreOp>(op))
    return getGroup(store.getTensor().getType().getStorage());
  return 1;
}

/// Returns whether a body may run for many elements at once, which is faster:
/// it has no vectors, no operations that depend on a condition, and no groups
/// except the whole tensor.
static bool isElementwise(ProgramOpInterface kernel) {
  auto isVector = llvm::IsaPred<VectorType>;
  return llvm::none_of(kernel.getBodyBlock(), [&](Operation &op) {
    return op.getNumRegions() != 0 || isa<func::CallOp>(op) ||
           (getGroup(&op) > 1 && getGroup(&op) < Group::all) ||
           llvm::any_of(op.getOperandTypes(), isVector) ||
           llvm::any_of(op.getResultTypes(), isVector);
  });
}

Tile::Tile(ProgramOpInterface kernel, KernelMemory &memory)
    : kernel(kernel), memory(memory),
      isScalar(kernel.getWidth() == 1 && isElementwise(kernel)),
      width(isScalar ? 512 : kernel.getWidth()) {
  uint64_t size = width;
  bool isWhole = false;
  for (Operation &op : kernel.getBodyBlock()) {
    isWhole |= getGroup(&op) == Group::all;
    if (getGroup(&op) < Group::all)
      size = std::max(size, getGroup(&op));
  }
  if (isWhole)
    size = llvm::alignTo(std::max<uint64_t>(memory.getNumElements(), 1), size);
  blocks.resize(size / width, BlockInterpreter(&memory));
}

void Tile::moveTo(unsigned block) {
  uint64_t element = begin + block * width;
  uint64_t end = std::min(element + width, memory.getNumElements());
  memory.moveTo(element, isScalar ? end - element : 1);
}

llvm::Error Tile::checkGroups(const MachineState &state) {
  for (Operation &op : kernel.getBodyBlock())
    if (llvm::Error error = checkFirst(state, getGroup(&op),
                                       "'" + describe(op.getName()) + "'"))
      return error;
  return llvm::Error::success();
}

void Tile::bind(Value value, const Datum &datum) {
  for (BlockInterpreter &block : blocks)
    block.bind(value, datum);
}

/// Returns whether an operation writes a value that all elements of a tensor
/// share.
static bool isLast(Operation *op) {
  if (auto store = dyn_cast<StorePlaneOp>(op)) {
    auto storage = store.getTensor().getType().getStorage();
    return storage.getPlanes()[store.getPlane()].group.isTensor();
  }
  return isa<StoreOp, PushHistoryOp>(op) && getGroup(op) == Group::all;
}

/// Runs the body. Operations that write shared entries run last, so that all
/// elements read the old entries.
llvm::Error Tile::run(uint64_t element) {
  begin = element;
  auto body = kernel.getBodyBlock().without_terminator();
  for (bool last : {false, true})
    for (Operation &op : body)
      if (isLast(&op) == last)
        if (llvm::Error error = execute(&op))
          return error;
  return llvm::Error::success();
}

llvm::Error Tile::execute(Operation *op) {
  if (auto reduceOp = dyn_cast<ReduceOp>(op))
    return reduce(reduceOp);
  if (auto partial = dyn_cast<PartialOp>(op))
    return reduce(partial);
  if (auto storeOp = dyn_cast<StoreOp>(op); storeOp && getGroup(op) > 1)
    return store(storeOp);
  for (auto [i, block] : llvm::enumerate(blocks)) {
    moveTo(i);
    if (llvm::Error error = block.execute(op))
      return error;
    // Elements share a history, which is pushed to once.
    if (isa<PushHistoryOp>(op))
      break;
  }
  return llvm::Error::success();
}

/// Returns a value for all elements of the tile, except those past the end of
/// the tensor.
llvm::Expected<SmallVector<Lane>> Tile::gather(Value value) {
  SmallVector<Lane> lanes;
  for (auto [i, block] : llvm::enumerate(blocks)) {
    moveTo(i);
    llvm::Expected<const Datum *> datum = block.get(value);
    if (!datum)
      return datum.takeError();
    for (auto [j, lane] : llvm::enumerate(**datum))
      if (memory.isInside(j))
        lanes.push_back(lane);
  }
  return lanes;
}

static SoftFloat reduceNumbers(bool isMax, ArrayRef<Lane> group) {
  SoftFloat result = std::get<SoftFloat>(group.front().front());
  for (const Lane &lane : group.drop_front()) {
    const auto &next = std::get<SoftFloat>(lane.front());
    result = isMax ? result.maximum(next) : result.minimum(next);
  }
  return result;
}

static Number reduceGroup(ReduceKind kind, ArrayRef<Lane> group) {
  if (kind == ReduceKind::sum) {
    std::vector<SoftFloat> summands;
    for (const Lane &lane : group)
      summands.push_back(std::get<SoftFloat>(lane.front()));
    return sumTree(std::move(summands));
  }
  bool isMax = kind == ReduceKind::max;
  if (!group.empty() && std::holds_alternative<SoftFloat>(group[0].front()))
    return reduceNumbers(isMax, group);
  uint64_t result = isMax || group.empty() ? 0 : ~uint64_t(0);
  for (const Lane &lane : group) {
    uint64_t bits = std::get<Integer>(lane.front()).bits;
    result = isMax ? std::max(result, bits) : std::min(result, bits);
  }
  return Integer(32, result);
}

/// Reduces the groups of the tile one after the other. A reduction over the
/// model covers only this tensor.
llvm::Error Tile::reduce(ReduceOp op) {
  llvm::Expected<SmallVector<Lane>> lanes = gather(op.getValue());
  if (!lanes)
    return lanes.takeError();
  uint64_t size = std::min(getGroup(op), getSize());
  ArrayRef<Lane> left = *lanes;
  for (uint64_t at = 0; at < getSize(); at += size) {
    ArrayRef<Lane> group = left.take_front(size);
    left = left.drop_front(group.size());
    bindToGroup(at, size, op.getResult(), reduceGroup(op.getKind(), group));
  }
  return llvm::Error::success();
}

llvm::Error Tile::reduce(PartialOp op) {
  llvm::Expected<SmallVector<Lane>> lanes = gather(op.getValue());
  if (!lanes)
    return lanes.takeError();
  memory.setTotal(op, reduceGroup(op.getKind(), *lanes));
  return llvm::Error::success();
}

void Tile::bindToGroup(uint64_t begin, uint64_t size, Value value,
                       Number number) {
  for (uint64_t i = begin; i < begin + size; i += width)
    blocks[i / width].bind(value, Datum{Lane{number}});
}

llvm::Error Tile::store(StoreOp op) {
  llvm::Expected<SmallVector<Lane>> lanes = gather(op.getValue());
  if (!lanes)
    return lanes.takeError();
  SmallVector<SoftFloat> values;
  for (const Lane &lane : *lanes)
    values.push_back(std::get<SoftFloat>(lane.front()));
  memory.moveTo(begin, 1);
  memory.storeGroups(op, values);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

/// Computes the uniform values, once per launch.
static llvm::Expected<SmallVector<Datum>>
runPrologue(ProgramOpInterface program, MachineState &state) {
  SmallVector<Datum> arguments;
  for (auto role : program.getScalarRoles().getAsRange<RoleAttr>()) {
    if (llvm::Error error = checkScalar(role, state, program.getCompute()))
      return error;
    arguments.push_back({Lane{getScalar(role, state)}});
  }
  return BlockInterpreter().run(program.getPrologueBlock(), arguments);
}

/// Returns whether a body of a component policy is still written in f32.
static bool lacksPolicy(ProgramOpInterface program) {
  ComputeAttr compute = program.getCompute();
  return compute.getPolicy() == Policy::component &&
         llvm::any_of(program.getBodyBlock().getOps<LoadOp>(), [&](LoadOp op) {
           auto storage = op.getTensor().getType().getStorage();
           return op.getType() != storage.getValueType(compute);
         });
}

/// Checks that the interpreter supports a kernel, or all launches of a step.
static llvm::Error checkProgram(ProgramOpInterface program, StringRef name) {
  if (program.isMatrix())
    return makeError("kernel '" + name +
                     "' has rows and columns; the interpreter takes the graph "
                     "of such a kernel");
  if (lacksPolicy(program))
    return makeError("kernel '" + name +
                     "' computes in components that its body does not have "
                     "yet; run -tandem-apply-policy first, or interpret the "
                     "graph");
  return llvm::Error::success();
}

static llvm::Error runProgram(ProgramOpInterface program, MachineState &state,
                              Totals &totals) {
  KernelMemory memory(program, state, totals);
  if (llvm::Error error = memory.bind())
    return error;
  llvm::Expected<SmallVector<Datum>> uniforms = runPrologue(program, state);
  if (!uniforms)
    return uniforms.takeError();
  Tile tile(program, memory);
  if (llvm::Error error = tile.checkGroups(state))
    return error;
  for (auto [argument, datum] : llvm::zip(program.getUniforms(), *uniforms))
    tile.bind(argument, datum);
  // An epilogue writes the same values for all elements.
  uint64_t end = memory.getNumElements();
  if (program.getPer() == Granularity::tensor)
    end = std::min<uint64_t>(end, 1);
  for (uint64_t element = 0; element < end; element += tile.getSize())
    if (llvm::Error error = tile.run(element))
      return error;
  return llvm::Error::success();
}

llvm::Error reference::interpretKernel(KernelOp kernel, MachineState &state) {
  if (llvm::Error error = checkProgram(kernel, kernel.getSymName()))
    return error;
  MachineState next = state;
  auto roles = llvm::to_vector(kernel.getTensorRoles().getAsRange<RoleAttr>());
  llvm::Error error = computeExternals(roles, next, [&](MachineState &machine) {
    Totals none;
    return runProgram(kernel, machine, none);
  });
  if (error)
    return error;
  state = std::move(next);
  return llvm::Error::success();
}

llvm::Error reference::interpretStep(StepOp step, MachineState &state) {
  MachineState next = state;
  Totals totals(step.getReductions());
  for (LaunchOp launch : step.getLaunchOps()) {
    if (llvm::Error error = checkProgram(launch, step.getSymName()))
      return error;
    if (llvm::Error error = runProgram(launch, next, totals))
      return error;
    if (ArrayAttr names = launch.getExternalsAttr())
      for (auto name : names.getAsRange<StringAttr>())
        if (llvm::Error error = callExternal(name, next))
          return error;
  }
  state = std::move(next);
  return llvm::Error::success();
}
