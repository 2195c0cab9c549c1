//===- TandemAttrs.cpp - Roles and compute policies -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parsers, printers and verifiers of the tandem
// attributes.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectImplementation.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

/// Parses `tensor`, `row`, a number of elements, or the rows and columns of a
/// block.
static ParseResult parseGroup(AsmParser &parser, Group &group) {
  for (auto [keyword, known] :
       {std::pair("tensor", Group::tensor()), {"row", Group::row()}})
    if (succeeded(parser.parseOptionalKeyword(keyword))) {
      group = known;
      return success();
    }
  SMLoc location = parser.getCurrentLocation();
  SmallVector<int64_t> sizes;
  if (parser.parseDimensionList(sizes, /*allowDynamic=*/false,
                                /*withTrailingX=*/false))
    return failure();
  if (sizes.empty() || sizes.size() > 2)
    return parser.emitError(location)
           << "a group is 'tensor', 'row', a number of elements, or a block "
              "such as 128x128";
  group = {sizes.back(), sizes.size() == 2 ? sizes.front() : 1};
  return success();
}

static void printGroup(AsmPrinter &printer, Group group) {
  if (group.isTensor())
    printer << "tensor";
  else if (group.isRow())
    printer << "row";
  else if (group.rows == 1)
    printer << group.columns;
  else
    printer << group.rows << "x" << group.columns;
}

#include "tandem/Dialect/Tandem/IR/StorageInterface.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemAttrs.cpp.inc"

void TandemDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "tandem/Dialect/Tandem/IR/TandemAttrs.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// RoleAttr
//===----------------------------------------------------------------------===//

namespace {
/// The optional fields of a role while it is parsed.
struct RoleFields {
  Moment moment = Moment::none;
  Domain domain = Domain::any;
  FloatAttr defaultValue;
  Granularity per = Granularity::element;
  Consumer consumer = Consumer::nonlinear;
  Flow flow = Flow::activation;
  StringAttr external;
  Type format;
};
} // namespace

static ParseResult parseRoleField(AsmParser &parser, RoleFields &fields) {
  StringRef key, value;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&key) || parser.parseEqual())
    return failure();
  if (key == "default")
    return parser.parseAttribute(fields.defaultValue,
                                 parser.getBuilder().getF64Type());
  if (key == "external")
    return parser.parseAttribute(fields.external);
  if (key == "format")
    return parser.parseType(fields.format);
  if (parser.parseKeyword(&value))
    return failure();
  if (key == "moment")
    if (std::optional<Moment> moment = symbolizeMoment(value)) {
      fields.moment = *moment;
      return success();
    }
  if (key == "domain")
    if (std::optional<Domain> domain = symbolizeDomain(value)) {
      fields.domain = *domain;
      return success();
    }
  if (key == "per")
    if (std::optional<Granularity> per = symbolizeGranularity(value);
        per && *per <= Granularity::column) {
      fields.per = *per;
      return success();
    }
  if (key == "consumer")
    if (std::optional<Consumer> consumer = symbolizeConsumer(value)) {
      fields.consumer = *consumer;
      return success();
    }
  if (key == "flow")
    if (std::optional<Flow> flow = symbolizeFlow(value)) {
      fields.flow = *flow;
      return success();
    }
  return parser.emitError(location)
         << "unknown role field '" << key << " = " << value
         << "'; expected moment = none|first|second|average|slow, domain = "
            "any|nonneg|unit|epsilon, per = element|row|column, consumer = "
            "nonlinear|linear|opaque, flow = activation|gradient, external = "
            "\"<name>\", format = <type> or default = <number>";
}

LogicalResult RoleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               RoleKind kind, StringAttr name, Moment, Domain,
                               FloatAttr, Granularity, Consumer, Flow,
                               StringAttr external, Type format) {
  // (C1)
  bool isExchanged = kind == RoleKind::sent || kind == RoleKind::received;
  if (bool(external) == isExchanged && bool(format) == isExchanged)
    return success();
  return emitError() << "the " << stringifyRoleKind(kind) << " " << name
                     << (isExchanged ? " needs external = \"<name>\" and "
                                       "format = <type>"
                                     : " has no external and no format, which "
                                       "belong to what is sent or received");
}

Attribute RoleAttr::parse(AsmParser &parser, Type) {
  StringRef keyword;
  std::string name;
  RoleFields fields;
  if (parser.parseLess())
    return {};
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return {};
  std::optional<RoleKind> kind = symbolizeRoleKind(keyword);
  if (!kind) {
    parser.emitError(location)
        << "unknown role '" << keyword
        << "'; expected param, grad, state, input, output, saved, restored, "
           "sent, received, hyper, step or seed";
    return {};
  }
  if (parser.parseString(&name))
    return {};
  while (succeeded(parser.parseOptionalComma()))
    if (parseRoleField(parser, fields))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RoleAttr>(
      location, parser.getContext(), *kind,
      parser.getBuilder().getStringAttr(name), fields.moment, fields.domain,
      fields.defaultValue, fields.per, fields.consumer, fields.flow,
      fields.external, fields.format);
}

void RoleAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyRoleKind(getKind()) << " " << getName();
  if (getMoment() != Moment::none)
    printer << ", moment = " << stringifyMoment(getMoment());
  if (getDomain() != Domain::any)
    printer << ", domain = " << stringifyDomain(getDomain());
  if (getPer() != Granularity::element)
    printer << ", per = " << stringifyGranularity(getPer());
  if (getConsumer() != Consumer::nonlinear)
    printer << ", consumer = " << stringifyConsumer(getConsumer());
  if (getFlow() != Flow::activation)
    printer << ", flow = " << stringifyFlow(getFlow());
  if (getExternal())
    printer << ", external = " << getExternal();
  if (getFormat())
    printer << ", format = " << getFormat();
  if (getDefaultValue()) {
    printer << ", default = ";
    printer.printAttributeWithoutType(getDefaultValue());
  }
  printer << ">";
}

Granularity RoleAttr::getGranularity(const Plane &plane) const {
  Granularity group = plane.isOfElements() ? Granularity::element
                                           : plane.group.getGranularity();
  bool isPart = group == Granularity::element || group == Granularity::group;
  return isPart && getPer() != Granularity::element ? getPer() : group;
}

//===----------------------------------------------------------------------===//
// ComputeAttr
//===----------------------------------------------------------------------===//

LogicalResult ComputeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  Policy policy, Type format) {
  // (C1)
  if (policy == Policy::f32 && !format.isF32())
    return emitError() << "the f32 policy computes in f32, got " << format;
  if (policy == Policy::component &&
      !isa<BFloat16Type, Float16Type, Float32Type>(format))
    return emitError() << "a component policy rounds to bf16, f16 or f32, got "
                       << format;
  return success();
}
