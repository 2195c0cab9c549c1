//===- MCFDialect.cpp - Multi-component float dialect ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the mcf dialect and its expansion type.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::mcf;

#include "tandem/Dialect/MCF/IR/MCFDialect.cpp.inc"
#include "tandem/Dialect/MCF/IR/MCFEnums.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/MCF/IR/MCFTypes.cpp.inc"

void MCFDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "tandem/Dialect/MCF/IR/MCFTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/MCF/IR/MCFOps.cpp.inc"
      >();
}

bool tandem::mcf::isComponentFormat(Type type) {
  return isa<BFloat16Type, Float16Type, Float32Type, Float8E4M3FNType,
             Float8E5M2Type>(type);
}

Type tandem::mcf::withElementType(Type shape, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(shape))
    return shaped.clone(element);
  return element;
}

Type tandem::mcf::getLeadingLike(Type type) {
  auto expansion = dyn_cast<ExpansionType>(getElementTypeOrSelf(type));
  return expansion ? withElementType(type, expansion.getLeading()) : type;
}

//===----------------------------------------------------------------------===//
// ExpansionType
//===----------------------------------------------------------------------===//

ExpansionType ExpansionType::get(Type component, unsigned length) {
  SmallVector<Type> components(length, component);
  return get(component.getContext(), ArrayRef<Type>(components));
}

FailureOr<SmallVector<Type>>
tandem::mcf::parseComponentList(AsmParser &parser) {
  SmallVector<Type> components(1);
  if (parser.parseType(components[0]))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("x"))) {
    unsigned length = 0;
    SMLoc location = parser.getCurrentLocation();
    if (parser.parseInteger(length))
      return failure();
    if (length < 2 || length > 3)
      return parser.emitError(location,
                              "an expansion has 2 or 3 components, got ")
             << length;
    components.assign(length, components[0]);
    return components;
  }
  while (succeeded(parser.parseOptionalComma()))
    if (parser.parseType(components.emplace_back()))
      return failure();
  return components;
}

void tandem::mcf::printComponentList(AsmPrinter &printer,
                                     ArrayRef<Type> components) {
  if (llvm::all_equal(components))
    printer << components[0] << " x " << components.size();
  else
    llvm::interleaveComma(components, printer);
}

Type ExpansionType::parse(AsmParser &parser) {
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  FailureOr<SmallVector<Type>> components = parseComponentList(parser);
  if (failed(components) || parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(location); },
                    parser.getContext(), ArrayRef<Type>(*components));
}

void ExpansionType::print(AsmPrinter &printer) const {
  printer << "<";
  printComponentList(printer, getComponents());
  printer << ">";
}

LogicalResult
ExpansionType::verify(function_ref<InFlightDiagnostic()> emitError,
                      ArrayRef<Type> components) {
  // (C1)
  if (components.size() < 2 || components.size() > 3)
    return emitError() << "an expansion has 2 or 3 components, got "
                       << components.size();
  // (C2)
  for (Type component : components)
    if (!isComponentFormat(component))
      return emitError() << "a component is bf16, f16, f32, f8E4M3FN or "
                            "f8E5M2, got "
                         << component;
  // (C3)
  if (llvm::all_equal(components))
    return success();
  if (components.size() == 2 && components[0].getIntOrFloatBitWidth() > 8 &&
      components[1].getIntOrFloatBitWidth() == 8)
    return success();
  return emitError() << "a mixed expansion is a bf16, f16 or f32 followed by "
                        "one f8E4M3FN or f8E5M2";
}
