//===- ArrayFileNpy.cpp - The .npy format ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the .npy format: a header that is a Python dictionary,
// followed by the elements. It reads versions 1 to 3, and writes version 1, or
// version 2 if the header is too long for that.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/ArrayFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;

static constexpr StringLiteral magic("\x93NUMPY");
static constexpr StringLiteral rewrite("write the file again with numpy.save");

namespace {
struct NpyType {
  StringLiteral description;
  DType type;
};
} // namespace

/// The types by description. The first entry of a type is written; the others
/// are only read. ml_dtypes writes bfloat16 as raw two bytes (V2) and its 8-bit
/// floats as V1 and f1, which do not tell these floats apart.
static const NpyType types[] = {
    {"|b1", DType::Bool}, {"|u1", DType::U8},  {"|i1", DType::I8},
    {"<u2", DType::U16},  {"<i2", DType::I16}, {"<f2", DType::F16},
    {"<u4", DType::U32},  {"<i4", DType::I32}, {"<f4", DType::F32},
    {"<u8", DType::U64},  {"<i8", DType::I64}, {"<f8", DType::F64},
    {"|V1", DType::U8},   {"<V1", DType::U8},  {"<f1", DType::U8},
    {"|f1", DType::U8},   {"|V2", DType::U16}, {"<V2", DType::U16},
};

//===----------------------------------------------------------------------===//
// Header
//===----------------------------------------------------------------------===//

namespace {

/// Parses the header's dictionary. Each function returns false after it has
/// described the problem.
class NpyHeader {
public:
  explicit NpyHeader(StringRef text) : rest(text) {}

  bool parse();

  std::string description;
  bool isFortranOrder = false;
  SmallVector<int64_t> shape;
  std::string problem;
  StringRef remedy = rewrite;

private:
  bool fail(const Twine &text) {
    problem = text.str();
    return false;
  }
  bool consume(StringRef token) {
    rest = rest.ltrim(" \t\n\r\f");
    return rest.consume_front(token);
  }
  bool parseEntry();
  bool parseString(std::string &text);
  bool parseDescription();
  bool parseOrder();
  bool parseShape();
  bool parseDimension();
  bool checkComplete();

  StringRef rest;
  bool hasDescription = false, hasOrder = false, hasShape = false;
};

} // namespace

bool NpyHeader::parse() {
  if (!consume("{"))
    return fail("the header is not a Python dictionary");
  while (!consume("}")) {
    if (!parseEntry())
      return false;
    if (consume(","))
      continue;
    if (!consume("}"))
      return fail("the header lacks ',' or '}' after an entry");
    break;
  }
  if (!rest.trim(" \t\n\r\f").empty())
    return fail("the header goes on after its dictionary");
  return checkComplete();
}

bool NpyHeader::checkComplete() {
  if (!hasDescription)
    return fail("the header lacks 'descr'");
  if (!hasOrder)
    return fail("the header lacks 'fortran_order'");
  if (!hasShape)
    return fail("the header lacks 'shape'");
  return true;
}

bool NpyHeader::parseEntry() {
  std::string key;
  if (!parseString(key))
    return false;
  if (!consume(":"))
    return fail("the header lacks ':' after '" + key + "'");
  bool *seen = StringSwitch<bool *>(key)
                   .Case("descr", &hasDescription)
                   .Case("fortran_order", &hasOrder)
                   .Case("shape", &hasShape)
                   .Default(nullptr);
  if (!seen)
    return fail("the header has the unknown key '" + key + "'");
  if (*seen)
    return fail("the header has '" + key + "' twice");
  *seen = true;
  if (seen == &hasDescription)
    return parseDescription();
  return seen == &hasOrder ? parseOrder() : parseShape();
}

bool NpyHeader::parseString(std::string &text) {
  char quote = consume("'") ? '\'' : consume("\"") ? '"' : 0;
  if (!quote)
    return fail("the header lacks a quoted string where one is expected");
  size_t end = rest.find(quote);
  if (end == StringRef::npos)
    return fail("a string in the header does not end");
  text = rest.take_front(end).str();
  rest = rest.drop_front(end + 1);
  return true;
}

bool NpyHeader::parseDescription() {
  if (consume("[")) {
    remedy = "save each field as an array of its own";
    return fail("the elements are structures");
  }
  return parseString(description);
}

bool NpyHeader::parseOrder() {
  isFortranOrder = consume("True");
  if (isFortranOrder || consume("False"))
    return true;
  return fail("'fortran_order' is neither True nor False");
}

/// Parses a tuple: (), (3,) or (3, 4).
bool NpyHeader::parseShape() {
  if (!consume("("))
    return fail("'shape' is not a tuple of integers");
  while (!consume(")")) {
    if (!parseDimension())
      return false;
    if (consume(","))
      continue;
    if (shape.size() == 1 || !consume(")"))
      return fail("'shape' is not a tuple of integers");
    break;
  }
  return true;
}

bool NpyHeader::parseDimension() {
  if (consume("-"))
    return fail("'shape' has a negative dimension");
  consume("");
  StringRef digits = rest.take_while(isDigit);
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0'))
    return fail("'shape' is not a tuple of integers");
  int64_t dimension;
  if (digits.getAsInteger(10, dimension))
    return fail("the dimension " + digits.take_front(40) + " is too large");
  rest = rest.drop_front(digits.size());
  rest.consume_front("L"); // Python 2 wrote it
  shape.push_back(dimension);
  return true;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Splits the file into the header's text and the elements.
static Error splitNpy(StringRef &header, StringRef &data, StringRef file,
                      StringRef name) {
  auto refuse = [&](const Twine &problem) {
    return makeArrayError(file, name, problem, rewrite);
  };
  if (!data.starts_with(magic))
    return refuse("this is not a .npy file, or it is cut short");
  data = data.drop_front(magic.size());
  if (data.size() < 2)
    return refuse("the file ends before its version");
  unsigned major = uint8_t(data[0]), minor = uint8_t(data[1]);
  if (major < 1 || major > 3 || minor != 0)
    return refuse("version " + Twine(major) + "." + Twine(minor) +
                  " is not 1.0, 2.0 or 3.0");
  data = data.drop_front(2);
  size_t width = major == 1 ? 2 : 4;
  if (data.size() < width)
    return refuse("the file ends before the header's length");
  uint32_t length = width == 2 ? support::endian::read16le(data.data())
                               : support::endian::read32le(data.data());
  data = data.drop_front(width);
  if (data.size() < length)
    return refuse("the header has " + Twine(length) + " bytes, but only " +
                  Twine(data.size()) + " are left");
  header = data.take_front(length);
  data = data.drop_front(length);
  return Error::success();
}

static Expected<DType> findType(StringRef description, StringRef file,
                                StringRef name) {
  for (const NpyType &known : types)
    if (known.description == description)
      return known.type;
  if (description.starts_with(">"))
    return makeArrayError(file, name,
                          "the elements ('" + description + "') are big-endian",
                          "save array.astype(array.dtype.newbyteorder('<'))");
  return makeArrayError(file, name,
                        "the type '" + description + "' is not known",
                        "convert to a bool, integer or float of at most 64 "
                        "bits before numpy.save");
}

Expected<Array> tandem::parseNpy(StringRef bytes, StringRef file,
                                 StringRef name) {
  StringRef text, data = bytes;
  if (Error error = splitNpy(text, data, file, name))
    return error;
  NpyHeader header(text);
  if (!header.parse())
    return makeArrayError(file, name, header.problem, header.remedy);
  if (header.isFortranOrder)
    return makeArrayError(file, name, "the elements are in Fortran order",
                          "save numpy.ascontiguousarray(array)");
  Expected<DType> type = findType(header.description, file, name);
  if (!type)
    return type.takeError();
  std::optional<int64_t> size = countBytes(*type, header.shape);
  if (!size)
    return makeArrayError(file, name, "the shape is too large",
                          "split the array");
  if (data.size() != uint64_t(*size))
    return makeArrayError(file, name,
                          "the elements take " + Twine(*size) +
                              " bytes, but the file holds " +
                              Twine(data.size()),
                          rewrite);
  Array array{*type, std::move(header.shape),
              AlignedBytes(data.bytes_begin(), data.bytes_end())};
  if (Error error = checkArray(file, name, array))
    return error;
  return array;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Returns the description of a type. NumPy has neither bf16 nor 8-bit floats,
/// so that their bits are written as integers.
static StringRef getDescription(DType type) {
  if (type == DType::BF16)
    type = DType::U16;
  if (type == DType::F8E4M3FN || type == DType::F8E5M2)
    type = DType::U8;
  for (const NpyType &known : types)
    if (known.type == type)
      return known.description;
  llvm_unreachable("every other type is in the table");
}

void tandem::printNpy(raw_ostream &os, const Array &array) {
  std::string header;
  raw_string_ostream text(header);
  text << "{'descr': '" << getDescription(array.type)
       << "', 'fortran_order': False, 'shape': (";
  interleave(array.shape, text, ", ");
  text << (array.shape.size() == 1 ? ",), }" : "), }");

  // The elements start at a multiple of 64; a newline ends the header. A shape
  // that does not fit into version 1's 16-bit length takes version 2.
  size_t prefix = magic.size() + 4;
  bool isLong = alignTo(prefix + header.size() + 1, 64) - prefix > UINT16_MAX;
  if (isLong)
    prefix += 2;
  size_t length = alignTo(prefix + header.size() + 1, 64) - prefix;
  header.resize(length - 1, ' ');

  os << magic << char(isLong ? 2 : 1) << '\0';
  char size[4];
  support::endian::write32le(size, length);
  os.write(size, isLong ? 4 : 2);
  os << header << '\n';
  os.write(reinterpret_cast<const char *>(array.bytes.data()),
           array.bytes.size());
}
