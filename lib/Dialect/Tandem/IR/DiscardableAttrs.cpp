//===- DiscardableAttrs.cpp - Attributes on other dialects' operations ----===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the checks of the attributes that the tandem dialect
// puts on functions, their arguments and reductions.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

/// Verifies that an argument of this type can have the role.
static LogicalResult verifyRoleType(Operation *op, RoleAttr role, Type type) {
  auto fail = [&](StringRef wanted) {
    return op->emitError() << "a " << stringifyRoleKind(role.getKind())
                           << " argument must be " << wanted << ", but '"
                           << role.getName().getValue() << "' is " << type;
  };
  if (role.isTensor()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (isa<StoredType>(type) || (tensor && tensor.getElementType().isF32()))
      return success();
    return fail("a tensor of f32 (f32 stands for a real number; the strategy "
                "chooses the format)");
  }
  if (role.getKind() == RoleKind::hyper)
    return type.isF64() || type.isF32() ? success() : fail("f64 or f32");
  return type.isSignlessInteger(64) ? success() : fail("i64");
}

LogicalResult TandemDialect::verifyRegionArgAttribute(Operation *op,
                                                      unsigned regionIndex,
                                                      unsigned argIndex,
                                                      NamedAttribute attr) {
  if (attr.getName() != getRoleAttrName())
    return op->emitError() << "'" << attr.getName().getValue()
                           << "' is not an argument attribute of tandem; use '"
                           << getRoleAttrName() << "'";
  auto role = dyn_cast<RoleAttr>(attr.getValue());
  if (!role)
    return op->emitError() << "'" << getRoleAttrName()
                           << "' must be a #tandem.role, got "
                           << attr.getValue();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return op->emitError("only a function's arguments have roles");
  return verifyRoleType(op, role, function.getArgumentTypes()[argIndex]);
}

LogicalResult TandemDialect::verifyRegionResultAttribute(Operation *op,
                                                         unsigned regionIndex,
                                                         unsigned resultIndex,
                                                         NamedAttribute attr) {
  return op->emitError() << "result " << resultIndex << " has '"
                         << attr.getName().getValue()
                         << "', but results have no attributes of tandem; "
                            "leave it out";
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Returns whether each of a dictionary's values is the role of a saved tensor.
static bool isSavedRoles(Attribute value) {
  auto roles = dyn_cast<DictionaryAttr>(value);
  return roles && llvm::all_of(roles, [](NamedAttribute entry) {
           auto role = dyn_cast<RoleAttr>(entry.getValue());
           return role && role.getKind() == RoleKind::saved;
         });
}

static bool isReductionScope(Attribute value) {
  auto name = dyn_cast<StringAttr>(value);
  return name && (name == stringifyGranularity(Granularity::tensor) ||
                  name == stringifyGranularity(Granularity::model));
}

namespace {
/// The operations that may have a discardable attribute, and its valid values.
struct Rule {
  StringRef name;
  bool (*isOwner)(Operation *);
  StringRef owner;
  bool (*isValue)(Attribute);
  StringRef value;
};
} // namespace

static bool isFunction(Operation *op) { return isa<FunctionOpInterface>(op); }

template <typename AttrTy>
static bool isAttr(Attribute value) {
  return isa<AttrTy>(value);
}

static const Rule rules[] = {
    {TandemDialect::getForwardAttrName(), isFunction, "a function",
     isAttr<FlatSymbolRefAttr>, "the forward pass's symbol, as in @name"},
    {TandemDialect::getKeptAttrName(), isFunction, "a function", isSavedRoles,
     "a dictionary of #tandem.role<saved ...>"},
    {TandemDialect::getComputeAttrName(), isFunction, "a function",
     isAttr<ComputeAttr>, "a #tandem.compute"},
    {TandemDialect::getScopeAttrName(),
     [](Operation *op) { return isa<linalg::ReduceOp>(op); }, "a linalg.reduce",
     isReductionScope, "\"tensor\" or \"model\""},
};

LogicalResult TandemDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  StringRef name = attr.getName().getValue();
  const Rule *rule =
      llvm::find_if(rules, [&](const Rule &rule) { return rule.name == name; });
  if (rule == std::end(rules))
    return op->emitOpError("has '")
           << name
           << "', which is not an operation's attribute of tandem; those are "
           << llvm::join(
                  llvm::map_range(
                      rules, [](const Rule &rule) { return rule.name.str(); }),
                  ", ")
           << (name == getRoleAttrName() ? ", and tandem.role is an argument's"
                                         : "");
  if (!rule->isOwner(op))
    return op->emitOpError("has '")
           << name << "', which belongs on " << rule->owner << "; leave it out";
  if (!rule->isValue(attr.getValue()))
    return op->emitOpError("attribute '") << name << "' must be " << rule->value
                                          << ", got " << attr.getValue();
  return success();
}
