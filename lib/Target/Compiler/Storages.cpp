//===- Storages.cpp - What a host can know of a storage -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file describes storages.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Storages.h"
#include "StorageText.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tandem;

static bool isCoded(StorageAttrInterface storage) {
  Type first = storage.getPlanes().front().elementType;
  return !storage.getVisiblePlane() || first.getIntOrFloatBitWidth() < 16;
}

static bool hasF32Value(StorageAttrInterface storage) {
  MLIRContext *context = storage.getContext();
  return bool(storage.getValueType(
      ComputeAttr::get(context, Policy::f32, Float32Type::get(context))));
}

/// Returns the signedness of the dynamic code that the storage contains at any
/// depth, or no value if it contains none.
static std::optional<scaled::Signedness>
findDynamicCode(StorageAttrInterface storage) {
  std::optional<scaled::Signedness> found;
  storage.walk([&](scaled::DynamicCodeAttr code) {
    found = code.getSignedness();
    return WalkResult::interrupt();
  });
  return found;
}

static int64_t getPlainGroup(StorageAttrInterface storage) {
  auto scaled = dyn_cast<ScaledStorageAttr>(storage);
  if (!scaled)
    return 0;
  auto plain = ScaledStorageAttr::get(
      storage.getContext(), scaled.getCode(), scaled.getGroup(),
      Float32Type::get(storage.getContext()), scaled::Recipe::current,
      /*history=*/0, /*margin=*/0, /*transposed=*/false,
      /*tensorScale=*/false);
  Group group = scaled.getGroup();
  bool isNeighbours = group.rows == 1 && !group.isRow();
  return plain == scaled && isNeighbours && !scaled.getCode().getRange()
             ? group.columns
             : 0;
}

/// Returns the storage of the same codes with f32 scales that the caller gives,
/// whatever format its scales have. Returns null if it has no such codes.
static StorageAttrInterface getGivenScales(StorageAttrInterface storage) {
  auto scaled = dyn_cast<ScaledStorageAttr>(storage);
  if (scaled && (scaled.getScale().isBF16() || scaled.getScale().isF16()))
    storage = ScaledStorageAttr::get(
        storage.getContext(), scaled.getCode(), scaled.getGroup(),
        Float32Type::get(storage.getContext()), scaled.getRecipe(),
        scaled.getHistory(), scaled.getMargin(), scaled.getTransposed(),
        scaled.getTensorScale());
  return storage.withGivenScales();
}

/// Describes a storage. The caller must hold the lock of its context.
static StorageDescription describe(StorageAttrInterface storage) {
  StorageDescription result;
  result.text = printStorage(storage);
  for (auto [index, plane] : llvm::enumerate(storage.getPlanes()))
    result.planes.push_back(describePlane(
        plane, /*role=*/"", storage.getVisiblePlane() == index, result.texts));
  result.isCoded = isCoded(storage);
  result.isPlain = isa<FloatStorageAttr, MaskedStorageAttr>(storage);
  result.hasF32Value = hasF32Value(storage);
  result.dynamicCode = findDynamicCode(storage);
  result.plainGroup = getPlainGroup(storage);
  if (StorageAttrInterface given = getGivenScales(storage))
    result.withGivenScales = printStorage(given);
  result.withoutHistory = printStorage(storage.withoutHistory());
  result.withoutTranspose = printStorage(withoutTranspose(storage));
  result.toNearest = printStorage(storage.getNearest());
  return result;
}

static llvm::Expected<StorageDescription>
describe(llvm::Expected<StorageAttrInterface> storage) {
  if (!storage)
    return storage.takeError();
  return describe(*storage);
}

llvm::Expected<StorageDescription> tandem::describeStorage(StringRef text) {
  SessionModule session;
  return describe(parseStorage(session, text));
}

//===----------------------------------------------------------------------===//
// Storages that hosts make
//===----------------------------------------------------------------------===//

/// Describes the storage that `make` builds from a format, or returns the error
/// that it emits.
static llvm::Expected<StorageDescription> describeMade(
    SessionModule &session, StringRef format,
    llvm::function_ref<StorageAttrInterface(function_ref<InFlightDiagnostic()>,
                                            Type)>
        make) {
  auto type = parseFormat(session, format);
  if (!type)
    return type.takeError();
  Location unknown = UnknownLoc::get(session.getContext());
  StorageAttrInterface storage =
      make([&] { return emitError(unknown); }, *type);
  if (!storage)
    return session.diagnostics.takeError(TandemErrorStorage);
  return describe(storage);
}

llvm::Expected<StorageDescription> tandem::describeFloats(StringRef format) {
  SessionModule session;
  return describe(makeFloats(session, format));
}

llvm::Expected<StorageDescription> tandem::describeSums(StringRef format) {
  StringRef text = llvm::StringSwitch<StringRef>(format)
                       .Case("f32", "#tandem.remainder")
                       .Case("bf16x2", "#tandem.expansion<bf16 x 2>")
                       .Case("bf16+i8", "#tandem.residual<bf16, i8>")
                       .Default("");
  if (text.empty())
    return ErrorBuilder(TandemErrorArgument)
           << "gradients add up in 'f32', 'bf16x2' or 'bf16+i8', got '" +
                  format + "'";
  return describeStorage(text);
}

llvm::Expected<StorageDescription> tandem::describeWorking(StringRef format,
                                                           StringRef codes) {
  SessionModule session;
  auto storage = parseStorage(session, codes);
  if (!storage)
    return storage.takeError();
  return describeMade(session, format, [&](auto emitError, Type type) {
    return WorkingStorageAttr::getChecked(emitError, session.getContext(), type,
                                          *storage);
  });
}

llvm::Expected<StorageDescription>
tandem::describeMatrixCodes(StringRef format, bool isTransposed) {
  SessionModule session;
  auto make = [&](function_ref<InFlightDiagnostic()> emitError,
                  Type type) -> StorageAttrInterface {
    MLIRContext *context = session.getContext();
    scaled::CodeAttrInterface code = scaled::FloatCodeAttr::getChecked(
        emitError, context, type, RoundingMode::nearest);
    if (!code)
      return {};
    Type scale = Float32Type::get(context);
    int64_t none = 0;
    return ScaledStorageAttr::getChecked(
        emitError, context, code, Group::tensor(), scale,
        scaled::Recipe::current, /*history=*/none, /*margin=*/none,
        isTransposed, /*tensorScale=*/false);
  };
  return describeMade(session, format, make);
}

//===----------------------------------------------------------------------===//
// Masked floats
//===----------------------------------------------------------------------===//

namespace {
/// The widths of a float's fields in bits.
struct Widths {
  unsigned exponent = 0, mantissa = 0;

  /// Parses ExMy.
  static std::optional<Widths> parse(StringRef text);
};
} // namespace

std::optional<Widths> Widths::parse(StringRef text) {
  Widths widths;
  if (!text.consume_front("E") || text.consumeInteger(10, widths.exponent) ||
      !text.consume_front("M") || text.consumeInteger(10, widths.mantissa) ||
      !text.empty())
    return std::nullopt;
  return widths;
}

/// Parses the name of a number format and checks its widths.
static llvm::Expected<Widths> parseWidths(StringRef number) {
  auto widths = Widths::parse(number);
  if (!widths || widths->exponent < 2 || widths->exponent > 8 ||
      widths->mantissa > 23)
    return ErrorBuilder(TandemErrorStorage)
           << "there is no float '" << Named{TDM_MESSAGE_FORMAT, number}
           << "'; write ExMy with 2 to 8 exponent and 0 to 23 mantissa bits, "
              "such as E8M3";
  return *widths;
}

/// Refuses numbers with more bits than the floats that store them have.
static llvm::Error checkHeld(StringRef number, Widths widths, Type type) {
  if (!isa<BFloat16Type, Float16Type, Float32Type>(type))
    return llvm::Error::success(); // The storage's own verifier refuses these.
  FloatFormat held = FloatFormat::get(type);
  if (widths.exponent <= held.exponentBits &&
      widths.mantissa <= held.mantissaBits)
    return llvm::Error::success();
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return ErrorBuilder(TandemErrorStorage)
         << Named{TDM_MESSAGE_FORMAT, name} << " cannot hold the numbers of "
         << Named{TDM_MESSAGE_FORMAT, number}
         << ", it is E" + Twine(held.exponentBits) + "M" +
                Twine(held.mantissaBits) +
                "; take fewer bits, or tensors of a wider type";
}

/// Returns the range of exponents that clamping leaves, or no value if it
/// leaves all of f32's.
static llvm::Expected<std::optional<scaled::ExponentRange>>
findExponents(Widths widths, StringRef clamp) {
  bool isInside = clamp == "inside" || clamp == "both";
  bool isOutside = clamp == "outside" || clamp == "both";
  if (!isInside && !isOutside && clamp != "none")
    return ErrorBuilder(TandemErrorArgument)
           << "clamp is 'inside', 'outside', 'both' or 'none', got '" + clamp +
                  "'";
  int64_t bias = (int64_t(1) << (widths.exponent - 1)) - 1;
  scaled::ExponentRange range{isInside ? 1 - bias : -126,
                              isOutside ? bias : 127};
  if (range == scaled::ExponentRange{-126, 127})
    return std::nullopt;
  return range;
}

/// Returns the code of a masked float, which has f32's exponents.
static scaled::CodeAttrInterface
makeMask(function_ref<InFlightDiagnostic()> emitError, MLIRContext *context,
         Widths widths, RoundingMode rounding,
         std::optional<scaled::ExponentRange> exponents) {
  Specials specials = widths.mantissa ? Specials::ieee : Specials::nan;
  return scaled::MinifloatCodeAttr::getChecked(
      emitError, context, /*exponent=*/8u, widths.mantissa,
      /*bias=*/int64_t(127), specials, rounding, exponents);
}

llvm::Expected<StorageDescription> tandem::describeMasked(StringRef format,
                                                          StringRef number,
                                                          StringRef rounding,
                                                          StringRef clamp) {
  SessionModule session;
  auto type = parseFormat(session, format);
  if (!type)
    return type.takeError();
  auto widths = parseWidths(number);
  if (!widths)
    return widths.takeError();
  if (llvm::Error error = checkHeld(number, *widths, *type))
    return error;
  auto exponents = findExponents(*widths, clamp);
  if (!exponents)
    return exponents.takeError();
  auto mode = symbolizeRoundingMode(rounding);
  if (!mode || *mode == RoundingMode::dither)
    return ErrorBuilder(TandemErrorArgument)
           << "rounding is 'toward_zero', 'nearest' or 'stochastic', got '" +
                  rounding + "'";
  return describeMade(session, format, [&](auto emitError, Type element) {
    scaled::CodeAttrInterface code =
        makeMask(emitError, session.getContext(), *widths, *mode, *exponents);
    return code ? MaskedStorageAttr::getChecked(emitError, session.getContext(),
                                                element, code)
                : MaskedStorageAttr();
  });
}
