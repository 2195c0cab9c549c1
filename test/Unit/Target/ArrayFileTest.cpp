//===- ArrayFileTest.cpp - Tests of .npy and .safetensors files -----------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the contents of array files, round trips, and the messages
// for malformed files.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/ArrayFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"
#include <random>

using namespace llvm;
using namespace tandem;

namespace {

//===----------------------------------------------------------------------===//
// Utilities
//===----------------------------------------------------------------------===//

/// Makes a directory that is removed after the test.
class ArrayFileTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(sys::fs::createUniqueDirectory("tandem-arrays", root));
  }
  void TearDown() override { sys::fs::remove_directories(root); }

  std::string path(StringRef name) {
    SmallString<128> result(root);
    sys::path::append(result, name);
    return result.str().str();
  }
  void store(StringRef name, StringRef bytes) {
    std::error_code code;
    raw_fd_ostream os(path(name), code);
    ASSERT_FALSE(code);
    os << bytes;
  }
  std::vector<std::string> list(StringRef name) {
    std::vector<std::string> names;
    std::error_code code;
    sys::fs::directory_iterator file(path(name), code), end;
    for (; !code && file != end; file.increment(code))
      names.push_back(sys::path::filename(file->path()).str());
    llvm::sort(names);
    return names;
  }

  SmallString<128> root;
};

void expectPart(StringRef message, StringRef part) {
  EXPECT_TRUE(message.contains(part))
      << "'" << message.str() << "' lacks '" << part.str() << "'";
}

/// Fails unless `result` is an error whose message contains all parts.
template <typename T>
void expectRefused(Expected<T> result, ArrayRef<StringRef> parts) {
  ASSERT_FALSE(bool(result));
  std::string message = toString(result.takeError());
  for (StringRef part : parts)
    expectPart(message, part);
}

void expectRefused(Error error, ArrayRef<StringRef> parts) {
  ASSERT_TRUE(bool(error));
  std::string message = toString(std::move(error));
  for (StringRef part : parts)
    expectPart(message, part);
}

Array makeArray(DType type, ArrayRef<int64_t> shape, uint8_t first = 0) {
  Array array = cantFail(Array::create(type, shape));
  for (uint8_t &byte : array.bytes)
    byte = type == DType::Bool ? first++ & 1 : first++;
  return array;
}

void expectSame(const Array &a, const Array &b) {
  EXPECT_EQ(getName(a.type).str(), getName(b.type).str());
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.bytes, b.bytes);
}

std::string npyBytes(StringRef dictionary, StringRef data,
                     StringRef version = StringRef("\1\0", 2)) {
  std::string length(version[0] == 1 ? 2 : 4, '\0');
  length[0] = dictionary.size() & 255;
  length[1] = dictionary.size() >> 8;
  return ("\x93NUMPY" + version + length + dictionary + data).str();
}

std::string safetensorsBytes(StringRef header, StringRef data = "") {
  std::string length(8, '\0');
  length[0] = header.size() & 255;
  length[1] = header.size() >> 8;
  return (length + header + data).str();
}

std::string printed(const Array &array) {
  std::string bytes;
  raw_string_ostream os(bytes);
  printNpy(os, array);
  return bytes;
}

std::string printed(const ArrayMap &arrays, const ArrayMetadata &metadata) {
  std::string bytes;
  raw_string_ostream os(bytes);
  cantFail(printSafetensors(os, "t", arrays, metadata));
  return bytes;
}

/// Makes one array of each type, including a scalar and an empty one.
ArrayMap makeAll() {
  ArrayMap arrays;
  uint8_t first = 0;
  for (DType type : getAllDTypes())
    arrays[getName(type).str()] = makeArray(type, {2, 3}, first += 17);
  arrays["scalar"] = makeArray(DType::F32, {}, 5);
  arrays["empty"] = makeArray(DType::BF16, {4, 0, 2});
  return arrays;
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

TEST(Array, Types) {
  for (DType type : getAllDTypes())
    EXPECT_EQ(parseDType(getName(type)), type);
  EXPECT_EQ(parseDType("bf16"), DType::BF16);
  EXPECT_EQ(parseDType("f8E4M3FN"), DType::F8E4M3FN);
  EXPECT_EQ(parseDType("f80"), std::nullopt);
  EXPECT_EQ(getSize(DType::F8E5M2), 1);
  EXPECT_EQ(getSize(DType::F64), 8);
}

TEST(Array, Sizes) {
  const int64_t big = int64_t(1) << 62;
  EXPECT_EQ(countBytes(DType::F32, {}), 4);
  EXPECT_EQ(countBytes(DType::F32, {2, 3}), 24);
  EXPECT_EQ(countBytes(DType::U8, {big}), big);
  EXPECT_EQ(countBytes(DType::U16, {big}), std::nullopt);
  EXPECT_EQ(countBytes(DType::U8, {0, big, big}), std::nullopt);
  EXPECT_EQ(countBytes(DType::U8, {big, 0}), 0);
  EXPECT_EQ(countBytes(DType::U8, {-1}), std::nullopt);
  expectRefused(Array::create(DType::F64, {big}), {"too large"});
}

TEST(Array, AlignmentAndValues) {
  Array array = makeArray(DType::U32, {3});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(array.bytes.data()) % 64, 0u);
  EXPECT_EQ(array.getNumElements(), 3);
  EXPECT_EQ(array.values<uint32_t>()[1], 0x07060504u);
  EXPECT_FALSE(array.reinterpret(DType::BF16));
  EXPECT_TRUE(array.reinterpret(DType::F32));
  EXPECT_EQ(array.type, DType::F32);
}

//===----------------------------------------------------------------------===//
// Round trips
//===----------------------------------------------------------------------===//

TEST_F(ArrayFileTest, SafetensorsRoundTrip) {
  ArrayMap arrays = makeAll();
  arrays["a \"quoted\"\n\xc3\xa9 name/with.dots"] = makeArray(DType::I8, {1});
  ArrayMetadata written = {{"format", "pt"}, {"step", "7"}}, metadata;
  ASSERT_FALSE(
      errorToBool(writeArrays(path("a.safetensors"), arrays, written)));
  ArrayMap back = cantFail(readArrays(path("a.safetensors"), &metadata));
  EXPECT_EQ(metadata, written);
  ASSERT_EQ(back.size(), arrays.size());
  for (auto &[name, array] : arrays)
    expectSame(back.at(name), array);
  EXPECT_EQ(list(""), std::vector<std::string>{"a.safetensors"});
}

TEST_F(ArrayFileTest, NothingRoundTrips) {
  ASSERT_FALSE(errorToBool(writeArrays(path("a.safetensors"), {})));
  EXPECT_TRUE(cantFail(readArrays(path("a.safetensors"))).empty());
}

/// Returns the type in .npy files, which have no bf16 and no 8-bit floats.
DType getNpyType(DType type) {
  if (type == DType::BF16)
    return DType::U16;
  if (type == DType::F8E4M3FN || type == DType::F8E5M2)
    return DType::U8;
  return type;
}

TEST_F(ArrayFileTest, NpyRoundTrip) {
  for (auto &[name, array] : makeAll()) {
    ASSERT_FALSE(errorToBool(writeArrays(path("a.npy"), {{name, array}})));
    ArrayMap back = cantFail(readArrays(path("a.npy")));
    ASSERT_EQ(back.size(), 1u);
    Array expected = array;
    expected.type = getNpyType(array.type);
    expectSame(back.at("a"), expected);
  }
}

TEST_F(ArrayFileTest, DirectoryRoundTrip) {
  ArrayMap arrays = makeAll();
  ASSERT_FALSE(errorToBool(writeArrays(path("d"), arrays)));
  ASSERT_FALSE(errorToBool(writeArrays(path("d"), arrays)));
  store("d/README", "other files are ignored");
  ArrayMap back = cantFail(readArrays(path("d")));
  ASSERT_EQ(back.size(), arrays.size());
  for (auto &[name, array] : arrays) {
    Array expected = array;
    expected.type = getNpyType(array.type);
    expectSame(back.at(name), expected);
  }
  EXPECT_EQ(list("d").size(), arrays.size() + 1);
}

/// A header over 64 KiB requires version 2.
TEST(Npy, LongShape) {
  SmallVector<int64_t> ones(30000, 1);
  std::string bytes = printed(makeArray(DType::U16, ones));
  EXPECT_EQ(bytes[6], 2);
  EXPECT_EQ(bytes.size() % 64, 2u);
  EXPECT_EQ(cantFail(parseNpy(bytes, "t", "")).shape, ones);
}

//===----------------------------------------------------------------------===//
// Exchange with Python
//===----------------------------------------------------------------------===//

/// numpy.save(file, numpy.array([[1, 2], [3, -4]], numpy.float32)).
TEST(Npy, WrittenAsNumPyDoes) {
  std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  header.resize(117, ' ');
  std::string data("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\xc0", 16);
  std::string bytes = npyBytes(header + "\n", data);
  Array array = cantFail(parseNpy(bytes, "t", "a"));
  EXPECT_EQ(array.values<float>(), ArrayRef<float>({1, 2, 3, -4}));
  EXPECT_EQ(printed(array), bytes);
}

/// Reads headers as ml_dtypes and older versions of Python and NumPy write
/// them.
TEST(Npy, OtherHeaders) {
  auto parse = [](StringRef header, StringRef data,
                  StringRef version = StringRef("\1\0", 2)) {
    return cantFail(parseNpy(npyBytes(header, data, version), "t", "a"));
  };
  auto raw = [&](StringRef descr, StringRef data) {
    return parse(("{'descr': '" + descr +
                  "', 'fortran_order': False, 'shape': (1,), }")
                     .str(),
                 data)
        .type;
  };
  EXPECT_EQ(raw("|V2", "ab"), DType::U16);
  EXPECT_EQ(raw("<V2", "ab"), DType::U16);
  EXPECT_EQ(raw("<V1", "a"), DType::U8);
  EXPECT_EQ(raw("<f1", "a"), DType::U8);
  Array array = parse(" {\"shape\":(2L,1L),\"fortran_order\":False,\n"
                      "\"descr\":\"<i2\"} ",
                      "abcd", StringRef("\3\0", 2));
  EXPECT_EQ(array.shape, (SmallVector<int64_t>{2, 1}));
  EXPECT_EQ(array.type, DType::I16);
}

/// The safetensors library writes no spaces between tokens.
TEST(Safetensors, WrittenAsTheLibraryDoes) {
  std::string bytes = safetensorsBytes(
      "{\"__metadata__\":{\"format\":\"np\"},"
      "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[4,8]}}"
      "   ",
      StringRef("\0\0\x80\x3f\x80\x3f\0\xc0", 8));
  ArrayMetadata metadata;
  ArrayMap arrays = cantFail(parseSafetensors(bytes, "t", &metadata));
  EXPECT_EQ(metadata, (ArrayMetadata{{"format", "np"}}));
  EXPECT_EQ(arrays.at("w").values<float>()[0], 1.0f);
  EXPECT_EQ(arrays.at("b").values<uint16_t>(),
            ArrayRef<uint16_t>({0x3f80, 0xc000}));
  EXPECT_EQ(arrays.at("b").type, DType::BF16);
  EXPECT_EQ(printed(arrays, metadata), bytes);
}

/// Every array begins at a multiple of its element size.
TEST(Safetensors, WideElementsFirst) {
  std::string bytes = printed({{"a", makeArray(DType::U8, {3})},
                               {"b", makeArray(DType::F64, {1})},
                               {"c", makeArray(DType::BF16, {3})}},
                              {});
  EXPECT_EQ((bytes.size() - 17) % 8, 0u);
  EXPECT_NE(bytes.find("\"data_offsets\":[14,17]"), std::string::npos);
  EXPECT_NE(bytes.find("\"data_offsets\":[0,8]"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Malformed .npy files
//===----------------------------------------------------------------------===//

void expectNpyRefused(StringRef dictionary, StringRef part,
                      StringRef data = "abcd") {
  expectRefused(parseNpy(npyBytes(dictionary, data), "f.npy", "x"),
                {"'f.npy': array 'x': ", part, "; "});
}

TEST(NpyErrors, Dictionary) {
  expectNpyRefused("", "not a Python dictionary");
  expectNpyRefused("{", "lacks a quoted string");
  expectNpyRefused("{}", "lacks 'descr'");
  expectNpyRefused("{'descr': '<f4'}", "lacks 'fortran_order'");
  expectNpyRefused("{'descr': '<f4', 'fortran_order': False}", "lacks 'shape'");
  expectNpyRefused("{'descr': '<f4', 'descr': '<f4'}", "'descr' twice");
  expectNpyRefused("{'descr' '<f4'}", "lacks ':'");
  expectNpyRefused("{'descr': '<f4' 'shape': ()}", "lacks ',' or '}'");
  expectNpyRefused("{'descr': '<f4", "does not end");
  expectNpyRefused("{'more': 1}", "unknown key 'more'");
  expectNpyRefused("{'a\x1b\n': 1}", "unknown key 'a\\x1B\\x0A'");
  expectNpyRefused("{'fortran_order': 0}", "neither True nor False");
  expectNpyRefused(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", "goes on");
}

TEST(NpyErrors, Shapes) {
  auto refuse = [](StringRef shape, StringRef part) {
    expectNpyRefused(
        ("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }")
            .str(),
        part);
  };
  refuse("(1)", "not a tuple");
  refuse("1", "not a tuple");
  refuse("(1, 2", "not a tuple");
  refuse("(,)", "not a tuple");
  refuse("(01,)", "not a tuple");
  refuse("(1.0,)", "not a tuple");
  refuse("(-1,)", "negative");
  refuse("(9223372036854775808,)", "too large");
  refuse("(9223372036854775807,)", "too large");
  refuse("(4294967296, 4294967296)", "too large");
  refuse("(0, 4294967296, 4294967296)", "too large");
  refuse("(2,)", "the elements take 8 bytes, but the file holds 4");
  refuse("(0,)", "the elements take 0 bytes, but the file holds 4");
}

TEST(NpyErrors, Types) {
  auto refuse = [](StringRef descr, StringRef part) {
    expectNpyRefused(
        ("{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }")
            .str(),
        part);
  };
  refuse("'>f4'", "big-endian; save array.astype(");
  refuse("'|O'", "the type '|O' is not known");
  refuse("'<f3'", "the type '<f3' is not known");
  refuse("[('a', '<f4')]", "structures; save each field");
  expectNpyRefused("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }",
                   "Fortran order; save numpy.ascontiguousarray(array)");
  expectNpyRefused("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }",
                   "neither 0 nor 1", "\2");
}

TEST(NpyErrors, Envelope) {
  auto refuse = [](StringRef bytes, StringRef part) {
    expectRefused(parseNpy(bytes, "f.npy", "x"), {"'f.npy'", part});
  };
  refuse("", "not a .npy file");
  refuse("PK\3\4 a zip file", "not a .npy file");
  refuse(npyBytes("", "", StringRef("\4\0", 2)), "version 4.0");
  refuse(npyBytes("", "", StringRef("\1\1", 2)), "version 1.1");
  refuse(StringRef("\x93NUMPY\2\0\xff\xff\xff\xff{}", 14),
         "the header has 4294967295 bytes, but only 2 are left");
}

//===----------------------------------------------------------------------===//
// Malformed .safetensors files
//===----------------------------------------------------------------------===//

void expectHeaderRefused(StringRef header, ArrayRef<StringRef> parts,
                         StringRef data = "abcd") {
  expectRefused(parseSafetensors(safetensorsBytes(header, data), "f"), parts);
}

TEST(SafetensorsErrors, Header) {
  expectHeaderRefused("", {"does not begin with '{'"});
  expectHeaderRefused("[]", {"does not begin with '{'"});
  expectHeaderRefused("{", {"'f': ", "not JSON"});
  expectHeaderRefused("{} x", {"not JSON"});
  expectHeaderRefused("{\"\xff\":1}", {"not JSON"});
  expectHeaderRefused("{\"a\":{},\"a\":{}}", {"the key 'a' twice"});
  expectHeaderRefused("{\"a\":{},\"\\u0061\":{}}", {"the key 'a' twice"});
  expectHeaderRefused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"I32\"}}",
                      {"the key 'dtype' twice"});
  expectHeaderRefused("{" + std::string(60000, '['), {"nested too deeply"});
  expectHeaderRefused("{}", {"4 bytes at the end belong to no array"});
  expectHeaderRefused("{\"__metadata__\":[]}", {"'__metadata__'"});
  expectHeaderRefused("{\"__metadata__\":{\"k\":1}}", {"metadata 'k'"});
}

TEST(SafetensorsErrors, Envelope) {
  auto refuse = [](StringRef bytes, StringRef part) {
    expectRefused(parseSafetensors(bytes, "f"), {"'f': ", part});
  };
  refuse("", "the file has 0 bytes");
  refuse(StringRef("\3\0\0\0\0\0\0\0{}", 10), "only 2 are left");
  refuse("\xff\xff\xff\xff\xff\xff\xff\xff{}", "over the format's limit");
}

TEST(SafetensorsErrors, Entries) {
  auto refuse = [](StringRef entry, StringRef part) {
    expectHeaderRefused(("{\"w\":" + entry + "}").str(),
                        {"'f': array 'w': ", part});
  };
  auto fields = [&](StringRef dtype, StringRef shape, StringRef offsets,
                    StringRef part) {
    refuse(("{\"dtype\":" + dtype + ",\"shape\":" + shape +
            ",\"data_offsets\":" + offsets + "}")
               .str(),
           part);
  };
  refuse("1", "not an object");
  refuse("{}", "'dtype' is missing");
  refuse("{\"dtype\":\"F32\"}", "'shape' is missing");
  refuse("{\"dtype\":\"F32\",\"shape\":[1]}", "'data_offsets' is not");
  refuse("{\"extra\":1}", "unknown key 'extra'");
  fields("\"F4\"", "[1]", "[0,4]", "'F4' is not known; convert it to one of");
  fields("7", "[1]", "[0,4]", "'dtype' is missing or not a string");
  fields("\"F32\"", "[-1]", "[0,4]", "'shape' has a dimension");
  fields("\"F32\"", "[1.5]", "[0,4]", "'shape' has a dimension");
  fields("\"F32\"", "[9223372036854775808]", "[0,4]", "has a dimension");
  fields("\"F32\"", "[9223372036854775807]", "[0,4]", "too large");
  fields("\"F32\"", "[1]", "[0]", "not a list of two");
  fields("\"F32\"", "[1]", "[-4,0]", "not a list of two");
  fields("\"F32\"", "[1]", "[4,0]", "the offsets 4 to 0 do not lie");
  fields("\"F32\"", "[2]", "[0,8]", "the offsets 0 to 8 do not lie");
  fields("\"F32\"", "[1]", "[0,18446744073709551615]", "do not lie");
  fields("\"F32\"", "[2]", "[0,4]", "take 8 bytes, but the offsets span 4");
  fields("\"U8\"", "[3]", "[1,4]", "before it, 1 bytes belong to no array");
  fields("\"BOOL\"", "[4]", "[0,4]", "neither 0 nor 1");
}

TEST(SafetensorsErrors, Overlap) {
  expectHeaderRefused(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
      {"array 'b': it begins at 2, inside the array before it"});
}

//===----------------------------------------------------------------------===//
// Malformed paths and arrays
//===----------------------------------------------------------------------===//

TEST_F(ArrayFileTest, UnreadablePaths) {
  auto refuse = [&](StringRef name, StringRef part) {
    expectRefused(readArrays(path(name)), {"'" + path(name) + "'", part});
  };
  refuse("missing.npy", "No such file");
  store("a.txt", "");
  refuse("a.txt", "the extension '.txt' is not known");
  ASSERT_FALSE(sys::fs::create_link("loop.npy", path("loop.npy")));
  refuse("loop.npy", "symbolic links");
  ASSERT_FALSE(sys::fs::create_directory(path("d")));
  refuse("d", "has no .npy file");
  ASSERT_FALSE(sys::fs::create_directory(path("d/x.npy")));
  expectRefused(readArrays(path("d")), {"x.npy': this is not a regular"});
  expectRefused(readArrays("/dev/null"), {"extension"});
  ASSERT_FALSE(sys::fs::create_link("/dev/zero", path("zero.npy")));
  refuse("zero.npy", "not a regular file");
  store(".npy", "");
  refuse(".npy", "no name before '.npy'");
}

TEST_F(ArrayFileTest, UnwritablePaths) {
  ArrayMap one = {{"x", makeArray(DType::F32, {2})}};
  ArrayMap two = {{"x", one["x"]}, {"y", one["x"]}};
  auto refuse = [&](StringRef name, const ArrayMap &arrays, StringRef part,
                    const ArrayMetadata &metadata = {}) {
    expectRefused(writeArrays(path(name), arrays, metadata),
                  {"'" + root.str().str(), part});
  };
  refuse("a.txt", one, "the extension '.txt' is not known");
  refuse("a.npy", two, "holds one array, but there are 2");
  refuse("a.npy", {}, "holds one array, but there are 0");
  refuse("a.npy", one, "no place for metadata", {{"k", "v"}});
  refuse("d", one, "no place for metadata", {{"k", "v"}});
  refuse("missing/a.npy", one, "No such file");
  refuse("missing/d", one, "No such file");
  refuse("d", {}, "no array to write");
  refuse("d", {{"a/b", one["x"]}}, "cannot name a file");
  refuse("d", {{"", one["x"]}}, "cannot name a file");
  refuse("d", {{std::string(300, 'x'), one["x"]}}, "name too long");
  EXPECT_TRUE(list("").empty());
  ASSERT_FALSE(errorToBool(writeArrays(path("d"), two)));
  refuse("d", one, "y.npy': this file is none of the arrays");
}

TEST_F(ArrayFileTest, UnfitArrays) {
  ArrayMap bad = {{"x", makeArray(DType::F32, {2})}};
  auto refuse = [&](StringRef part) {
    for (StringRef name : {"a.npy", "a.safetensors", "d"})
      expectRefused(writeArrays(path(name), bad), {"array 'x'", part});
  };
  bad["x"].shape = {3};
  refuse("the shape takes 12 bytes, but the array has 8");
  bad["x"].shape = {-1};
  refuse("negative");
  bad["x"] = makeArray(DType::U8, {3});
  bad["x"].type = DType::Bool;
  refuse("neither 0 nor 1");
  Array good = makeArray(DType::U8, {3});
  expectRefused(writeArrays(path("a.safetensors"), {{"__metadata__", good}}),
                {"the format keeps this name"});
  expectRefused(writeArrays(path("a.safetensors"), {{"\xff", good}}),
                {"not UTF-8"});
  expectRefused(
      writeArrays(path("a.safetensors"), {{"x", good}}, {{"k", "\xff"}}),
      {"the metadata 'k' is not UTF-8"});
  EXPECT_TRUE(list("").empty());
}

/// A failed write does not change the existing file.
TEST_F(ArrayFileTest, FailureKeepsTheOldFile) {
  Array array = makeArray(DType::U8, {3});
  ASSERT_FALSE(errorToBool(writeArrays(path("a.safetensors"), {{"x", array}})));
  array.shape = {4};
  EXPECT_TRUE(errorToBool(writeArrays(path("a.safetensors"), {{"y", array}})));
  EXPECT_EQ(cantFail(readArrays(path("a.safetensors"))).count("x"), 1u);
  EXPECT_EQ(list("").size(), 1u);
}

//===----------------------------------------------------------------------===//
// Damaged files
//===----------------------------------------------------------------------===//

/// Copies bytes to memory of exactly their size, so that a sanitizer detects
/// reads past the end.
template <typename Parse>
bool isRefused(StringRef bytes, Parse parse) {
  std::vector<char> exact(bytes.begin(), bytes.end());
  auto result = parse(StringRef(exact.data(), exact.size()));
  if (result)
    return false;
  return !toString(result.takeError()).empty();
}

template <typename Parse>
void expectPrefixesRefused(StringRef bytes, Parse parse) {
  EXPECT_FALSE(isRefused(bytes, parse));
  EXPECT_TRUE(isRefused((bytes + "\n").str(), parse));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(isRefused(bytes.take_front(size), parse)) << size;
}

/// Changes up to four bytes at a time. Most changes to the header are refused,
/// and accepted files are consistent.
template <typename Parse>
void mutate(StringRef bytes, size_t headerSize, Parse parse) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = bytes.str();
    for (int change = random() % 4; change >= 0; --change)
      mutated[random() % headerSize] =
          random() % 2 ? char(random()) : "{}[]()\"':,0-9e\\<V"[random() % 17];
    isRefused(mutated, parse);
  }
}

auto parseTestNpy = [](StringRef bytes) { return parseNpy(bytes, "t", "a"); };
auto parseTestSafetensors = [](StringRef bytes) -> Expected<ArrayMap> {
  auto arrays = parseSafetensors(bytes, "t");
  if (!arrays)
    return arrays.takeError();
  for (auto &[name, array] : *arrays)
    EXPECT_EQ(countBytes(array.type, array.shape), int64_t(array.bytes.size()));
  return arrays;
};

TEST(Damage, Npy) {
  for (auto &[name, array] : makeAll())
    expectPrefixesRefused(printed(array), parseTestNpy);
  std::string bytes = printed(makeArray(DType::F32, {3, 2}));
  mutate(bytes, 70, parseTestNpy);
  mutate(bytes, bytes.size(), parseTestNpy);
}

TEST(Damage, Safetensors) {
  std::string bytes = printed(makeAll(), {{"k", "v"}});
  expectPrefixesRefused(bytes, parseTestSafetensors);
  mutate(bytes, bytes.size(), parseTestSafetensors);
  std::string small = printed({{"w", makeArray(DType::I16, {2, 2})}}, {});
  mutate(small, small.size() - 8, parseTestSafetensors);
}

} // namespace
