//===- InterpreterKernel.cpp - One launch of a kernel ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of kernels at any stage of their lowering:
// the prologue once, the body for each group of elements, operation by
// operation.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterBlocks.h"
#include "tandem/Reference/InterpreterStorage.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::reference;

using Results = SmallVector<Datum, 1>;
using Operands = ArrayRef<const Datum *>;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {
/// The operations of a body that see memory. Lanes beyond the last element read
/// zeros and write nothing.
class KernelMemory : public Environment {
public:
  KernelMemory(KernelOp kernel, MachineState &state)
      : kernel(kernel), state(state) {}

  llvm::Error bind();
  uint64_t getNumElements() const { return bound.numElements; }
  /// Lane 0 becomes this element; a scalar has `numElements` lanes.
  void moveTo(uint64_t element, uint64_t numElements) {
    base = element;
    numScalarLanes = numElements;
  }

  std::optional<llvm::Expected<Results>> execute(Operation *op,
                                                 Operands operands) override;

private:
  Results load(LoadOp op) const;
  Results store(StoreOp op, const Datum &value) const;
  llvm::Expected<Results> loadPlane(LoadPlaneOp op) const;
  Results storePlane(StorePlaneOp op, const Datum &value) const;
  Results drawBits(RandomBitsOp op, Operands operands) const;
  Results getIndices(ElementIndexOp op) const;

  const BoundTensor &getTensor(Value value) const {
    return bound.tensors[cast<BlockArgument>(value).getArgNumber()];
  }
  unsigned countLanes(Type type) const {
    return isa<VectorType>(type) ? getNumLanes(type) : numScalarLanes;
  }
  bool isInside(unsigned lane) const { return base + lane < bound.numElements; }
  Codes read(const BoundTensor &tensor, unsigned lane) const {
    return isInside(lane) ? tensor.read(base + lane)
                          : Codes(tensor.planes.size(), 0);
  }

  KernelOp kernel;
  MachineState &state;
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
      .Case<LoadPlaneOp>([&](auto load) { return loadPlane(load); })
      .Case<StorePlaneOp>(
          [&](auto store) { return storePlane(store, *operands[0]); })
      .Case<RandomBitsOp>([&](auto draw) { return drawBits(draw, operands); })
      .Case<ElementIndexOp>([&](auto index) { return getIndices(index); })
      .Case<TensorKeyOp>(
          [&](auto) { return Results{Datum{Lane{Integer(32, state.key)}}}; })
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

Results KernelMemory::store(StoreOp op, const Datum &value) const {
  const BoundTensor &tensor = getTensor(op.getTensor());
  bool isReal = getElementTypeOrSelf(op.getValue().getType()).isF32();
  for (unsigned i = 0, e = countLanes(op.getValue().getType()); i < e; ++i) {
    if (!isInside(i))
      continue;
    Components components;
    for (const Number &number : getLane(value, i))
      components.push_back(std::get<SoftFloat>(number));
    uint16_t random =
        tensor.storage.usesRandomBits() ? drawRandomBits(state, base + i) : 0;
    tensor.write(base + i,
                 isReal ? encodeReal(tensor.storage, components[0], random)
                        : encodeComponents(tensor.storage, components));
  }
  return {};
}

llvm::Expected<Results> KernelMemory::loadPlane(LoadPlaneOp op) const {
  const PlaneData &plane = *getTensor(op.getTensor()).data[op.getPlane()];
  Type element = getElementTypeOrSelf(op.getType());
  Datum datum(countLanes(op.getType()));
  for (auto [i, lane] : llvm::enumerate(datum)) {
    llvm::Expected<Number> number =
        numberFromBits(element, isInside(i) ? plane.elements[base + i] : 0);
    if (!number)
      return number.takeError();
    lane.push_back(*number);
  }
  return Results{std::move(datum)};
}

Results KernelMemory::storePlane(StorePlaneOp op, const Datum &value) const {
  PlaneData &plane = *getTensor(op.getTensor()).data[op.getPlane()];
  for (unsigned i = 0, e = countLanes(op.getValue().getType()); i < e; ++i)
    if (isInside(i))
      plane.elements[base + i] = getBits(getLane(value, i).front());
  return {};
}

//===----------------------------------------------------------------------===//
// Indices and random bits
//===----------------------------------------------------------------------===//

Results KernelMemory::getIndices(ElementIndexOp op) const {
  Datum datum;
  for (unsigned i = 0, e = countLanes(op.getType()); i < e; ++i)
    datum.push_back({Integer(64, uint64_t(state.first) + base + i)});
  return {datum};
}

Results KernelMemory::drawBits(RandomBitsOp op, Operands operands) const {
  // The tensor, which comes first, has no numbers.
  auto word = [&](unsigned i) {
    return std::get<Integer>(operands[i]->front().front()).bits;
  };
  uint64_t seed = word(1) | word(2) << 32;
  Datum datum;
  for (unsigned i = 0, e = countLanes(op.getType()); i < e; ++i) {
    uint64_t element = uint64_t(state.first) + base + i;
    datum.push_back({Integer(
        32, reference::drawRandomBits(seed, state.key, word(3), element))});
  }
  return {datum};
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

/// The uniform values, once a launch.
static llvm::Expected<SmallVector<Datum>> runPrologue(KernelOp kernel,
                                                      MachineState &state) {
  SmallVector<Datum> arguments;
  for (Attribute attribute : kernel.getScalarRoles()) {
    auto role = cast<RoleAttr>(attribute);
    if (llvm::Error error = checkScalar(role, state, kernel.getCompute()))
      return error;
    arguments.push_back({Lane{getScalar(role, state)}});
  }
  return BlockInterpreter().run(kernel.getPrologueBlock(), arguments);
}

/// Whether a body means the same run for many elements at once, which is
/// faster: it has neither vectors nor operations that depend on a condition.
static bool isElementwise(KernelOp kernel) {
  auto isVector = llvm::IsaPred<VectorType>;
  return llvm::none_of(kernel.getBodyBlock(), [&](Operation &op) {
    return op.getNumRegions() != 0 || isa<func::CallOp>(op) ||
           llvm::any_of(op.getOperandTypes(), isVector) ||
           llvm::any_of(op.getResultTypes(), isVector);
  });
}

static llvm::Error runKernel(KernelOp kernel, MachineState &state) {
  KernelMemory memory(kernel, state);
  if (llvm::Error error = memory.bind())
    return error;
  llvm::Expected<SmallVector<Datum>> uniforms = runPrologue(kernel, state);
  if (!uniforms)
    return uniforms.takeError();
  BlockInterpreter interpreter(&memory);
  for (auto [argument, datum] : llvm::zip(kernel.getUniforms(), *uniforms))
    interpreter.bind(argument, datum);
  constexpr uint64_t kManyElements = 512;
  bool isScalar = kernel.getWidth() == 1 && isElementwise(kernel);
  uint64_t step = isScalar ? kManyElements : kernel.getWidth();
  for (uint64_t element = 0; element < memory.getNumElements();
       element += step) {
    uint64_t left = memory.getNumElements() - element;
    memory.moveTo(element, isScalar ? std::min(step, left) : 1);
    auto done = interpreter.run(kernel.getBodyBlock(), {});
    if (!done)
      return done.takeError();
  }
  return llvm::Error::success();
}

llvm::Error reference::interpretKernel(KernelOp kernel, MachineState &state) {
  MachineState next = state;
  if (llvm::Error error = runKernel(kernel, next))
    return error;
  state = std::move(next);
  return llvm::Error::success();
}
