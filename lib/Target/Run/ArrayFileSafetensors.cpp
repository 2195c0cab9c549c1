//===- ArrayFileSafetensors.cpp - The .safetensors format -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the .safetensors format: the header's length in eight
// bytes, a JSON header, then the elements of all arrays without gaps.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/ArrayFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;

static constexpr StringLiteral metadataKey("__metadata__");
static constexpr StringLiteral
    rewrite("write the file again with a safetensors library");

/// The largest header in bytes that the format's own library accepts.
static constexpr uint64_t maxHeaderSize = 100'000'000;

static StringRef getSafetensorsName(DType type) {
  switch (type) {
  case DType::Bool:
    return "BOOL";
  case DType::U8:
    return "U8";
  case DType::I8:
    return "I8";
  case DType::F8E4M3FN:
    return "F8_E4M3";
  case DType::F8E5M2:
    return "F8_E5M2";
  case DType::U16:
    return "U16";
  case DType::I16:
    return "I16";
  case DType::F16:
    return "F16";
  case DType::BF16:
    return "BF16";
  case DType::U32:
    return "U32";
  case DType::I32:
    return "I32";
  case DType::F32:
    return "F32";
  case DType::U64:
    return "U64";
  case DType::I64:
    return "I64";
  case DType::F64:
    return "F64";
  }
  llvm_unreachable("every type is listed");
}

//===----------------------------------------------------------------------===//
// Checks before the JSON parser runs
//===----------------------------------------------------------------------===//

namespace {

/// Finds what the JSON parser does not guard against: nesting that would
/// overflow its stack, and duplicate keys, of which it keeps the last. Leaves
/// it to the parser to refuse text that is not JSON.
class HeaderScan {
public:
  explicit HeaderScan(StringRef text) : rest(text) {}

  /// Returns a description of the problem, or an empty string.
  std::string run();

private:
  std::string scanString();
  bool skipString(StringRef &literal);

  /// The header is an object of objects of arrays.
  static constexpr size_t maxDepth = 3;

  StringRef rest;
  SmallVector<StringSet<>> keys;
};

} // namespace

std::string HeaderScan::run() {
  while (!rest.empty()) {
    char next = rest.front();
    if (next == '"') {
      if (std::string problem = scanString(); !problem.empty())
        return problem;
      continue;
    }
    rest = rest.drop_front();
    if (next == '{' || next == '[') {
      keys.emplace_back();
      if (keys.size() > maxDepth)
        return "the header is nested too deeply";
    } else if ((next == '}' || next == ']') && !keys.empty()) {
      keys.pop_back();
    }
  }
  return "";
}

/// Consumes a string literal. If it is a key, it must be new in its object.
std::string HeaderScan::scanString() {
  StringRef literal;
  if (!skipString(literal))
    return "";
  rest = rest.ltrim(" \t\n\r");
  if (!rest.starts_with(":") || keys.empty())
    return "";
  Expected<json::Value> key = json::parse(literal);
  if (!key) {
    consumeError(key.takeError());
    return "";
  }
  std::optional<StringRef> text = key->getAsString();
  if (text && !keys.back().insert(*text).second)
    return ("the header has the key '" + *text + "' twice").str();
  return "";
}

bool HeaderScan::skipString(StringRef &literal) {
  for (size_t i = 1; i < rest.size(); ++i) {
    if (rest[i] == '\\') {
      ++i;
    } else if (rest[i] == '"') {
      literal = rest.take_front(i + 1);
      rest = rest.drop_front(i + 1);
      return true;
    }
  }
  rest = StringRef();
  return false;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// One array as the header describes it.
struct Entry {
  StringRef name;
  DType type;
  SmallVector<int64_t> shape;
  uint64_t begin, end;
};

class SafetensorsReader {
public:
  SafetensorsReader(StringRef bytes, StringRef file)
      : data(bytes), file(file) {}

  Expected<ArrayMap> read(ArrayMetadata *metadata);

private:
  Error splitHeader(StringRef &text);
  Error readMetadata(const json::Value &value, ArrayMetadata *metadata);
  Error readEntry(StringRef name, const json::Value &value);
  Error readKeys(StringRef name, const json::Object &object);
  Error readType(const json::Object &object, Entry &entry);
  Error readShape(const json::Object &object, Entry &entry);
  Error readOffsets(const json::Object &object, Entry &entry);
  Error checkLayout();
  Expected<ArrayMap> copyArrays();

  Error refuse(StringRef array, const Twine &problem) {
    return makeArrayError(file, array, problem, rewrite);
  }

  StringRef data;
  StringRef file;
  std::vector<Entry> entries;
};

} // namespace

/// Splits the header off the front of the data.
Error SafetensorsReader::splitHeader(StringRef &text) {
  if (data.size() < 8)
    return refuse("", "the file has " + Twine(data.size()) +
                          " bytes, fewer than the 8 of the header's length");
  uint64_t length = support::endian::read64le(data.data());
  data = data.drop_front(8);
  if (length > maxHeaderSize)
    return refuse("", "the header's length of " + Twine(length) +
                          " bytes is over the format's limit of " +
                          Twine(maxHeaderSize));
  if (length > data.size())
    return refuse("", "the header has " + Twine(length) + " bytes, but only " +
                          Twine(data.size()) + " are left");
  text = data.take_front(length);
  data = data.drop_front(length);
  if (!text.starts_with("{"))
    return refuse("", "the header does not begin with '{'");
  if (std::string problem = HeaderScan(text).run(); !problem.empty())
    return refuse("", problem);
  return Error::success();
}

Expected<ArrayMap> SafetensorsReader::read(ArrayMetadata *metadata) {
  StringRef text;
  if (Error error = splitHeader(text))
    return error;
  Expected<json::Value> header = json::parse(text);
  if (!header)
    return refuse("",
                  "the header is not JSON: " + toString(header.takeError()));
  for (const auto &[key, value] : *header->getAsObject()) {
    Error error = StringRef(key) == metadataKey ? readMetadata(value, metadata)
                                                : readEntry(key, value);
    if (error)
      return error;
  }
  if (Error error = checkLayout())
    return error;
  return copyArrays();
}

Error SafetensorsReader::readMetadata(const json::Value &value,
                                      ArrayMetadata *metadata) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return refuse("", "'__metadata__' is not an object of strings");
  for (const auto &[key, text] : *object) {
    std::optional<StringRef> string = text.getAsString();
    if (!string)
      return refuse("", "the metadata '" + key.str() + "' is not a string");
    if (metadata)
      (*metadata)[key.str()] = string->str();
  }
  return Error::success();
}

Error SafetensorsReader::readEntry(StringRef name, const json::Value &value) {
  const json::Object *object = value.getAsObject();
  if (!object)
    return refuse(name, "its entry is not an object");
  Entry entry{name, DType::U8, {}, 0, 0};
  if (Error error = readKeys(name, *object))
    return error;
  if (Error error = readType(*object, entry))
    return error;
  if (Error error = readShape(*object, entry))
    return error;
  if (Error error = readOffsets(*object, entry))
    return error;
  entries.push_back(std::move(entry));
  return Error::success();
}

/// Refuses unknown keys, since these could change the meaning of the known
/// ones.
Error SafetensorsReader::readKeys(StringRef name, const json::Object &object) {
  for (const auto &member : object)
    if (!is_contained({"dtype", "shape", "data_offsets"},
                      StringRef(member.first)))
      return refuse(name, "its entry has the unknown key '" +
                              StringRef(member.first) + "'");
  return Error::success();
}

Error SafetensorsReader::readType(const json::Object &object, Entry &entry) {
  std::optional<StringRef> name = object.getString("dtype");
  if (!name)
    return refuse(entry.name, "'dtype' is missing or not a string");
  std::string known;
  for (DType type : getAllDTypes()) {
    if (*name == getSafetensorsName(type)) {
      entry.type = type;
      return Error::success();
    }
    known += (known.empty() ? "" : ", ") + getSafetensorsName(type).str();
  }
  return makeArrayError(file, entry.name,
                        "the dtype '" + *name + "' is not known",
                        "convert it to one of " + known);
}

Error SafetensorsReader::readShape(const json::Object &object, Entry &entry) {
  const json::Array *shape = object.getArray("shape");
  if (!shape)
    return refuse(entry.name, "'shape' is missing or not a list");
  for (const json::Value &value : *shape) {
    std::optional<uint64_t> dimension = value.getAsUINT64();
    if (!dimension || *dimension > uint64_t(INT64_MAX))
      return refuse(entry.name, "'shape' has a dimension that is not an "
                                "integer from 0 to 2^63 - 1");
    entry.shape.push_back(*dimension);
  }
  return Error::success();
}

Error SafetensorsReader::readOffsets(const json::Object &object, Entry &entry) {
  const json::Array *offsets = object.getArray("data_offsets");
  if (!offsets || offsets->size() != 2)
    return refuse(entry.name, "'data_offsets' is not a list of two integers");
  std::optional<uint64_t> begin = (*offsets)[0].getAsUINT64();
  std::optional<uint64_t> end = (*offsets)[1].getAsUINT64();
  if (!begin || !end)
    return refuse(entry.name, "'data_offsets' is not a list of two integers");
  if (*begin > *end || *end > data.size())
    return refuse(entry.name, "the offsets " + Twine(*begin) + " to " +
                                  Twine(*end) + " do not lie in the " +
                                  Twine(data.size()) + " bytes of the data");
  std::optional<int64_t> size = countBytes(entry.type, entry.shape);
  if (!size)
    return makeArrayError(file, entry.name, "the shape is too large",
                          "split the array");
  if (*end - *begin != uint64_t(*size))
    return refuse(entry.name, "the elements take " + Twine(*size) +
                                  " bytes, but the offsets span " +
                                  Twine(*end - *begin));
  entry.begin = *begin;
  entry.end = *end;
  return Error::success();
}

/// Checks that every byte of the data belongs to exactly one array, as the
/// format requires.
Error SafetensorsReader::checkLayout() {
  llvm::sort(entries, [](const Entry &a, const Entry &b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t position = 0;
  for (const Entry &entry : entries) {
    if (entry.begin < position)
      return refuse(entry.name, "it begins at " + Twine(entry.begin) +
                                    ", inside the array before it");
    if (entry.begin > position)
      return refuse(entry.name, "before it, " + Twine(entry.begin - position) +
                                    " bytes belong to no array");
    position = entry.end;
  }
  if (position != data.size())
    return refuse("", Twine(data.size() - position) +
                          " bytes at the end belong to no array");
  return Error::success();
}

Expected<ArrayMap> SafetensorsReader::copyArrays() {
  ArrayMap arrays;
  for (Entry &entry : entries) {
    StringRef bytes = data.slice(entry.begin, entry.end);
    Array array{entry.type, std::move(entry.shape),
                AlignedBytes(bytes.bytes_begin(), bytes.bytes_end())};
    if (Error error = checkArray(file, entry.name, array))
      return error;
    arrays.emplace(entry.name.str(), std::move(array));
  }
  return arrays;
}

Expected<ArrayMap> tandem::parseSafetensors(StringRef bytes, StringRef file,
                                            ArrayMetadata *metadata) {
  return SafetensorsReader(bytes, file).read(metadata);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

using NamedArray = ArrayMap::value_type;

/// Refuses names that are not Unicode, which JSON cannot hold, and the one name
/// that the format reserves.
static Error checkNames(StringRef file, const ArrayMap &arrays,
                        const ArrayMetadata &metadata) {
  for (const NamedArray &array : arrays) {
    if (array.first == metadataKey)
      return makeArrayError(file, array.first,
                            "the format keeps this name for its metadata",
                            "rename the array");
    if (!json::isUTF8(array.first))
      return makeArrayError(file, array.first, "the name is not UTF-8",
                            "rename the array");
  }
  for (const auto &[key, text] : metadata)
    if (!json::isUTF8(key) || !json::isUTF8(text))
      return makeArrayError(file, "", "the metadata '" + key + "' is not UTF-8",
                            "give it as UTF-8");
  return Error::success();
}

/// Orders arrays by decreasing element size, so that each begins at a multiple
/// of that size.
static SmallVector<const NamedArray *> orderArrays(const ArrayMap &arrays) {
  SmallVector<const NamedArray *> order;
  for (const NamedArray &array : arrays)
    order.push_back(&array);
  llvm::stable_sort(order, [](const NamedArray *a, const NamedArray *b) {
    return a->second.getElementSize() > b->second.getElementSize();
  });
  return order;
}

static void printEntry(json::OStream &json, const Array &array,
                       uint64_t begin) {
  json.attribute("dtype", getSafetensorsName(array.type));
  json.attributeArray("shape", [&] {
    for (int64_t dimension : array.shape)
      json.value(dimension);
  });
  json.attributeArray("data_offsets", [&] {
    json.value(begin);
    json.value(begin + array.bytes.size());
  });
}

static std::string printHeader(ArrayRef<const NamedArray *> order,
                               const ArrayMetadata &metadata) {
  std::string header;
  raw_string_ostream os(header);
  json::OStream json(os);
  json.object([&] {
    if (!metadata.empty())
      json.attributeObject(metadataKey, [&] {
        for (const auto &[key, text] : metadata)
          json.attribute(key, text);
      });
    uint64_t begin = 0;
    for (const NamedArray *array : order) {
      json.attributeObject(array->first,
                           [&] { printEntry(json, array->second, begin); });
      begin += array->second.bytes.size();
    }
  });
  // Pad the header with spaces, so that the data begin at a multiple of eight.
  header.resize(alignTo(header.size(), 8), ' ');
  return header;
}

Error tandem::printSafetensors(raw_ostream &os, StringRef file,
                               const ArrayMap &arrays,
                               const ArrayMetadata &metadata) {
  if (Error error = checkNames(file, arrays, metadata))
    return error;
  for (const NamedArray &array : arrays)
    if (Error error = checkArray(file, array.first, array.second))
      return error;
  SmallVector<const NamedArray *> order = orderArrays(arrays);
  std::string header = printHeader(order, metadata);
  if (header.size() > maxHeaderSize)
    return makeArrayError(file, "",
                          "the header would have " + Twine(header.size()) +
                              " bytes, over the format's limit",
                          "split the arrays over several files");
  char length[8];
  support::endian::write64le(length, header.size());
  os.write(length, sizeof(length));
  os << header;
  for (const NamedArray *array : order)
    os.write(reinterpret_cast<const char *>(array->second.bytes.data()),
             array->second.bytes.size());
  return Error::success();
}
