//===- PrintSaves.cpp - Print what passes keep ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that prints how much memory forward passes keep
// for their backward passes, and what could be recomputed instead.
//
//===----------------------------------------------------------------------===//

#include "Recomputation.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/Support/Format.h"

namespace tandem {
#define GEN_PASS_DEF_PRINTSAVES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// The number of bits for a token.
struct Bits {
  double payload = 0, scales = 0;

  Bits &operator+=(const Bits &other) {
    payload += other.payload;
    scales += other.scales;
    return *this;
  }
};
} // namespace

static RankedTensorType getLogical(BlockArgument argument) {
  if (auto stored = dyn_cast<StoredType>(argument.getType()))
    return stored.getLogical();
  return dyn_cast<RankedTensorType>(argument.getType());
}

/// Returns the number of elements of a token.
static double countElements(BlockArgument argument, int64_t hidden) {
  RankedTensorType type = getLogical(argument);
  if (getRole(argument).getPer() == Granularity::row)
    return 1;
  int64_t columns = type.getRank() == 0 ? 1 : type.getShape().back();
  return double(ShapedType::isDynamic(columns) ? hidden : columns);
}

/// Counts the bits of a token. A group of its elements has one entry, each row
/// of a block has its share of one, and entries of a whole tensor do not count.
static Bits countBits(BlockArgument argument, int64_t hidden) {
  Bits bits;
  double elements = countElements(argument, hidden);
  auto storage = cast<StoredType>(argument.getType()).getStorage();
  for (const Plane &plane : storage.getPlanes()) {
    unsigned width = plane.elementType.getIntOrFloatBitWidth();
    if (plane.isOfElements())
      bits.payload += std::ceil(elements / plane.packed) * width;
    else if (!plane.group.isTensor())
      bits.scales += std::ceil(elements / double(plane.group.columns)) * width /
                     double(plane.group.rows);
  }
  return bits;
}

/// Returns the role of a saved tensor, even if an argument already holds it, or
/// null.
static RoleAttr getSaved(func::FuncOp function, BlockArgument argument) {
  RoleAttr role = getRole(argument);
  if (role.getKind() == RoleKind::saved)
    return role;
  auto kept =
      function->getAttrOfType<DictionaryAttr>(TandemDialect::getKeptAttrName());
  return kept ? kept.getAs<RoleAttr>(role.getName()) : RoleAttr();
}

/// Returns an argument's tensor: its new value if there is one, or else its
/// value.
static Value getTensor(func::FuncOp function, BlockArgument argument) {
  SmallVector<BlockArgument> updated = getUpdatedArguments(function);
  auto *place = llvm::find(updated, argument);
  if (place == updated.end())
    return argument;
  Operation *terminator = function.getBody().front().getTerminator();
  return terminator->getOperand(place - updated.begin());
}

/// Returns the names of the inputs of the passes that restore what `forward`
/// saves.
static llvm::DenseSet<StringAttr> findInputsBehind(func::FuncOp forward) {
  llvm::DenseSet<StringAttr> names;
  for (auto function :
       forward->getParentOfType<ModuleOp>().getOps<func::FuncOp>()) {
    auto name = function->getAttrOfType<FlatSymbolRefAttr>(
        TandemDialect::getForwardAttrName());
    if (!name || name.getAttr() != forward.getSymNameAttr())
      continue;
    for (BlockArgument argument : function.getArguments())
      if (RoleAttr role = getRole(argument);
          role && role.getKind() == RoleKind::input)
        names.insert(role.getName());
  }
  return names;
}

/// Finds the tensors that a backward pass has: saved ones, and inputs that it
/// takes too.
static Sources findSources(func::FuncOp function) {
  Sources sources;
  llvm::DenseSet<StringAttr> inputs = findInputsBehind(function);
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument), saved = getSaved(function, argument);
    bool isInput =
        role.getKind() == RoleKind::input && inputs.contains(role.getName());
    if (saved || isInput)
      sources[resolve(getTensor(function, argument))] =
          (saved ? saved : role).getName().getValue();
  }
  return sources;
}

/// Returns the operations for each of some elements, such as "3 + exp".
static std::string describeWork(const Recomputation &work, double elements) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](double count) {
    double each = count / elements;
    os << llvm::format("%.*f", each == std::floor(each) ? 0 : 1, each);
  };
  print(work.operations);
  for (auto [name, count] : work.functions) {
    os << " + ";
    if (count != elements) {
      print(count);
      os << " ";
    }
    os << name;
  }
  return text;
}

namespace {
struct PrintSavesPass : public tandem::impl::PrintSavesBase<PrintSavesPass> {
  using PrintSavesBase::PrintSavesBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (isGraph(function) && failed(print(function, llvm::errs())))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult print(func::FuncOp function, llvm::raw_ostream &os) {
    auto saved =
        llvm::filter_to_vector(function.getArguments(), [&](auto argument) {
          return bool(getSaved(function, argument));
        });
    if (saved.empty())
      return success();
    FailureOr<int64_t> unit = findHidden(function);
    if (failed(unit))
      return failure();
    os << "@" << function.getSymName() << " keeps for a token, in U = " << *unit
       << " * 2 bytes:\n";
    printRow(os, "", "payload", "and scales", "consumer", "storage");
    Bits total;
    for (BlockArgument argument : saved) {
      if (!isa<StoredType>(argument.getType()))
        return function.emitError(
            "has no storages; run -tandem-apply-strategy first");
      Bits bits = countBits(argument, *unit);
      total += bits;
      RoleAttr role = getSaved(function, argument);
      printRow(os, role.getName().getValue(), inUnits(bits.payload, *unit),
               inUnits(bits.payload + bits.scales, *unit),
               stringifyConsumer(role.getConsumer()),
               toString(cast<StoredType>(argument.getType()).getStorage()));
    }
    printRow(os, "total", inUnits(total.payload, *unit),
             inUnits(total.payload + total.scales, *unit), "", "");
    printTrades(function, *unit, os);
    return success();
  }

  /// Prints the saved tensors that could be recomputed from the rest, and the
  /// outputs that others might keep.
  static void printTrades(func::FuncOp function, int64_t unit,
                          llvm::raw_ostream &os) {
    Sources sources = findSources(function);
    bool isFirst = true;
    for (BlockArgument argument : function.getArguments()) {
      RoleAttr saved = getSaved(function, argument);
      if (!saved && getRole(argument).getKind() != RoleKind::output)
        continue;
      auto work =
          findRecomputation(getTensor(function, argument), sources, unit);
      if (!work)
        continue;
      if (std::exchange(isFirst, false))
        printRow(os, "computed again instead", "payload", "and scales",
                 "operations", "of");
      Bits bits = saved ? countBits(argument, unit) : Bits();
      auto spared = [&](double bits) {
        return saved ? inUnits(bits, unit) : std::string("-");
      };
      printRow(os, (saved ? saved : getRole(argument)).getName().getValue(),
               spared(bits.payload), spared(bits.payload + bits.scales),
               describeWork(*work, countElements(argument, unit)),
               llvm::join(work->sources, ", "));
    }
  }

  FailureOr<int64_t> findHidden(func::FuncOp function) {
    if (hidden > 0)
      return int64_t(hidden);
    for (BlockArgument argument : function.getArguments())
      if (RankedTensorType type = getLogical(argument);
          type && type.getRank() == 2 && !type.isDynamicDim(1))
        return type.getDimSize(1);
    return function.emitError("has no tensor whose columns are known; say how "
                              "many elements a token has: hidden=N");
  }

  static std::string inUnits(double bits, int64_t unit) {
    std::string text;
    llvm::raw_string_ostream(text)
        << llvm::format("%.4f", bits / (16.0 * double(unit)));
    return text;
  }

  static std::string toString(Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  }

  static void printRow(llvm::raw_ostream &os, StringRef name, StringRef payload,
                       StringRef whole, StringRef consumer, StringRef storage) {
    std::string line;
    llvm::raw_string_ostream row(line);
    row << "  " << llvm::left_justify(name, 28)
        << llvm::right_justify(payload, 9) << llvm::right_justify(whole, 12)
        << "  " << llvm::left_justify(consumer, 10) << " " << storage;
    os << StringRef(line).rtrim() << "\n";
  }
};
} // namespace
