//===- WritePackage.cpp - Writing of packages -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the writing of packages: a kernel's description, and its
// code for each target.
//
//===----------------------------------------------------------------------===//

#include "Package_generated.h"
#include "tandem/Support/PendingFile.h"
#include "tandem/Support/TemporaryFile.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/PTX.h"
#include "tandem/Target/Package.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/EndianStream.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace mlir::tandem;
namespace schema = ::tandem::package;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static void write(const char *value, std::string &field) { field = value; }
template <typename Value, typename Field>
static void write(Value value, Field &field) {
  field = static_cast<Field>(value);
}

/// Writes one field of `desc`; the table has one of the same name.
#define WRITE(name) write(desc.name, table.name);

static void encode(const tdm_plane_desc &desc, schema::PlaneT &table) {
  TDM_PLANE_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_hyper_desc &desc, schema::HyperT &table) {
  TDM_HYPER_FIELDS(WRITE, WRITE)
  if (desc.has_default)
    table.default_value = desc.default_value;
}

static void encode(const tdm_integer_desc &desc, schema::IntegerT &table) {
  TDM_INTEGER_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_reduction_desc &desc, schema::ReductionT &table) {
  TDM_REDUCTION_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_part_info &desc, schema::PartT &table) {
  TDM_PART_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_kernel_desc &desc, schema::KernelT &table) {
  TDM_KERNEL_DESC_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_kernel_info &desc, schema::KernelT &table) {
  TDM_KERNEL_INFO_FIELDS(WRITE, WRITE)
}

template <typename Desc, typename Table>
static void encodeAll(ArrayRef<Desc> descs,
                      std::vector<std::unique_ptr<Table>> &tables) {
  for (const Desc &desc : descs)
    encode(desc, *tables.emplace_back(std::make_unique<Table>()));
}

/// All but the images.
static std::unique_ptr<schema::KernelT> packKernel(const PackageEntry &entry) {
  const tdm_kernel_info &info = *entry.kernel->info;
  auto kernel = std::make_unique<schema::KernelT>();
  encode(*info.desc, *kernel);
  encode(info, *kernel);
  kernel->name = entry.name;
  encodeAll(getPlanes(info), kernel->planes);
  encodeAll(getHypers(info), kernel->hypers);
  encodeAll(getIntegers(info), kernel->integers);
  encodeAll(getReductions(info), kernel->reductions);
  encodeAll(getPhases(info), kernel->phases);
  encodeAll(getCommits(info), kernel->commits);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

namespace {
/// NVIDIA's assembler.
class Assembler {
public:
  /// Finds it for a target, which messages name.
  static llvm::Expected<Assembler> find(StringRef target, StringRef chip);

  /// Such as "13.0.88".
  llvm::Expected<std::string> getVersion() const;
  /// Machine code of `ptx`.
  llvm::Expected<std::string> assemble(StringRef ptx, StringRef chip,
                                       unsigned level) const;

private:
  explicit Assembler(std::string program) : program(std::move(program)) {}

  /// Runs it; what it prints goes to a file.
  bool run(ArrayRef<StringRef> arguments, StringRef printed) const;

  std::string program;
};
} // namespace

llvm::Expected<Assembler> Assembler::find(StringRef target, StringRef chip) {
  auto program = llvm::sys::findProgramByName("ptxas");
  if (program)
    return Assembler(std::move(*program));
  return llvm::createStringError(
      "target '" + target +
      "' needs ptxas, which is not on PATH; add the directory where CUDA has "
      "it, or use target '" +
      chip + "', which is PTX");
}

bool Assembler::run(ArrayRef<StringRef> arguments, StringRef printed) const {
  std::optional<StringRef> redirects[] = {StringRef(), printed, printed};
  SmallVector<StringRef> all = {"ptxas"};
  llvm::append_range(all, arguments);
  return llvm::sys::ExecuteAndWait(program, all, std::nullopt, redirects) == 0;
}

llvm::Expected<std::string> Assembler::getVersion() const {
  TemporaryFile printed;
  if (llvm::Error error = printed.create("txt"))
    return error;
  bool isRun = run({"--version"}, printed.getPath());
  auto text = printed.read();
  if (!text)
    return text.takeError();
  // "Cuda compilation tools, release 13.0, V13.0.88".
  StringRef version = StringRef(*text).split(", V").second.take_while(
      [](char c) { return llvm::isDigit(c) || c == '.'; });
  if (!isRun || version.empty())
    return llvm::createStringError("ptxas does not say its version: " +
                                   StringRef(*text).trim());
  return version.str();
}

llvm::Expected<std::string> Assembler::assemble(StringRef ptx, StringRef chip,
                                                unsigned level) const {
  TemporaryFile input, output, messages;
  if (llvm::Error error = llvm::joinErrors(
          llvm::joinErrors(input.create("ptx"), output.create("cubin")),
          messages.create("txt")))
    return error;
  if (llvm::Error error = input.write(ptx))
    return error;
  std::string arch = ("-arch=" + chip).str();
  std::string optimization = "-O" + std::to_string(level);
  if (run({arch, optimization, input.getPath(), "-o", output.getPath()},
          messages.getPath()))
    return output.read();
  auto text = messages.read();
  return text ? llvm::createStringError("ptxas cannot assemble the kernel "
                                        "for " +
                                        chip + ": " + StringRef(*text).trim())
              : text.takeError();
}

namespace {
/// What a target's name means.
struct Target {
  tdm_image_kind kind;
  /// An instruction set or a chip.
  std::string name;
  /// The optimization level of machine code for a chip.
  unsigned level = 0;

  static llvm::Expected<Target> parse(StringRef text);
  /// Fills an image's fields but for the hash.
  llvm::Error compile(const CompiledKernel &kernel,
                      schema::ImageT &image) const;

private:
  llvm::Error assemble(std::string &code, schema::ImageT &image) const;
};
} // namespace

/// The optimization level of a target such as "cubin-O0:sm_90", whose prefix
/// is removed; without one that of ptxas.
static std::optional<unsigned> consumeLevel(StringRef &name) {
  if (name.consume_front("cubin:"))
    return 3;
  for (unsigned level : {0, 1, 2, 3})
    if (name.consume_front("cubin-O" + std::to_string(level) + ":"))
      return level;
  return std::nullopt;
}

llvm::Expected<Target> Target::parse(StringRef text) {
  StringRef name = text;
  if (auto level = consumeLevel(name); level && isSupportedChip(name))
    return Target{TDM_IMAGE_CUBIN, name.str(), *level};
  if (isSupportedChip(text))
    return Target{TDM_IMAGE_PTX, text.str()};
  if (isPortableISA(text))
    return Target{TDM_IMAGE_LIBRARY, text.str()};
  return llvm::createStringError(
      "a package has no target '" + text + "'; expected " + listPortableISAs() +
      "; " + listChips() +
      " for PTX; or one of those behind 'cubin:', or 'cubin-O0:' without "
      "optimization");
}

llvm::Error Target::assemble(std::string &code, schema::ImageT &image) const {
  bool isPlain = level == 3;
  std::string text =
      (isPlain ? "cubin:" : "cubin-O" + std::to_string(level) + ":") + name;
  auto assembler = Assembler::find(text, name);
  if (!assembler)
    return assembler.takeError();
  auto version = assembler->getVersion();
  if (!version)
    return version.takeError();
  auto machineCode = assembler->assemble(code, name, level);
  if (!machineCode)
    return machineCode.takeError();
  code = std::move(*machineCode);
  image.assembler = std::move(*version);
  image.level = static_cast<uint8_t>(level);
  return llvm::Error::success();
}

llvm::Error Target::compile(const CompiledKernel &kernel,
                            schema::ImageT &image) const {
  auto code = compileImage(kernel, name);
  if (!code)
    return code.takeError();
  if (kind == TDM_IMAGE_CUBIN)
    if (llvm::Error error = assemble(*code, image))
      return error;
  image.kind = kind;
  image.target = name;
  image.data.assign(code->begin(), code->end());
  return llvm::Error::success();
}

static llvm::Error addImage(schema::KernelT &kernel, const Target &target,
                            const PackageEntry &entry) {
  auto image = std::make_unique<schema::ImageT>();
  if (llvm::Error error = target.compile(*entry.kernel, *image))
    return error;
  auto digest = llvm::SHA256::hash(image->data);
  image->sha256.assign(digest.begin(), digest.end());
  kernel.images.push_back(std::move(image));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

/// Each target once, in their order; those of a package that names none.
static llvm::Expected<std::vector<Target>>
parseTargets(ArrayRef<std::string> names, ArrayRef<PackageEntry> entries) {
  llvm::SmallSetVector<StringRef, 8> unique(names.begin(), names.end());
  if (names.empty())
    unique.insert_range(
        ArrayRef<StringRef>{"x86-64", "x86-64-v3", "x86-64-v4"});
  for (const PackageEntry &entry : entries)
    if (names.empty() && entry.kernel->target != "cpu")
      unique.insert(entry.kernel->target);
  std::vector<Target> targets;
  for (StringRef name : unique) {
    auto target = Target::parse(name);
    if (!target)
      return target.takeError();
    targets.push_back(std::move(*target));
  }
  return targets;
}

static llvm::Error checkNames(ArrayRef<PackageEntry> entries) {
  if (entries.empty())
    return llvm::createStringError("a package needs a kernel; give one");
  llvm::StringSet<> names;
  for (const PackageEntry &entry : entries)
    if (entry.name.empty() || !names.insert(entry.name).second)
      return llvm::createStringError("two kernels of a package are called '" +
                                     entry.name +
                                     "'; give each a name of its own");
  return llvm::Error::success();
}

/// Puts the header before a FlatBuffer.
static std::string addHeader(StringRef content) {
  std::string bytes("\x89TANDEM\n");
  llvm::raw_string_ostream os(bytes);
  llvm::support::endian::Writer writer(os, llvm::endianness::little);
  writer.write<uint32_t>(TDM_PACKAGE_VERSION);
  writer.write<uint32_t>(64);
  writer.write<uint64_t>(content.size());
  writer.write<uint64_t>(0);
  llvm::SHA256 hash;
  hash.update(bytes);
  hash.update(content);
  bytes += llvm::toStringRef(hash.final());
  bytes += content;
  return bytes;
}

llvm::Expected<std::string>
mlir::tandem::writePackage(ArrayRef<PackageEntry> entries,
                           ArrayRef<std::string> names) {
  if (llvm::Error error = checkNames(entries))
    return error;
  auto targets = parseTargets(names, entries);
  if (!targets)
    return targets.takeError();
  schema::PackageT package;
  package.compiler = "tandem " TANDEM_VERSION ", LLVM " LLVM_VERSION_STRING;
  for (const PackageEntry &entry : entries) {
    package.kernels.push_back(packKernel(entry));
    for (const Target &target : *targets)
      if (llvm::Error error = addImage(*package.kernels.back(), target, entry))
        return error;
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(schema::Package::Pack(builder, &package));
  return addHeader({reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize()});
}

llvm::Error mlir::tandem::savePackage(ArrayRef<PackageEntry> entries,
                                      ArrayRef<std::string> targets,
                                      StringRef path) {
  auto bytes = writePackage(entries, targets);
  if (!bytes)
    return bytes.takeError();
  llvm::Error error = writeWholeFile(path, *bytes);
  if (!error)
    return error;
  return llvm::createStringError(
      "cannot write package '" + path +
      "': " + llvm::toString(std::move(error)) +
      "; check the directory's permissions and free space");
}
