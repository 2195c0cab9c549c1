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
#include "tandem/InitAllTargets.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/PendingFile.h"
#include "tandem/Target/Package.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/EndianStream.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace tandem;
namespace schema = ::tandem::package;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static void write(const char *value, std::string &field) { field = value; }
template <typename Value, typename Field>
static void write(Value value, Field &field) {
  field = static_cast<Field>(value);
}

/// Writes one field of `desc` to the field of the same name of the table.
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

static void encode(const tdm_external_desc &desc, schema::ExternalT &table) {
  TDM_EXTERNAL_FIELDS(WRITE, WRITE)
}

static void encode(const tdm_tensor_info &desc, schema::TensorT &table) {
  TDM_TENSOR_INFO_FIELDS(WRITE, WRITE)
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

/// Packs everything except the images.
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
  encodeAll(getEpilogues(info), kernel->epilogues);
  encodeAll(getTensors(info), kernel->tensors);
  encodeAll(getExternals(info), kernel->externals);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

#define KIND(name) name,
static constexpr const char *numberedKinds[] = {TDM_NUMBERED_IMAGE_KINDS(KIND)};

static std::unique_ptr<schema::ImageT> packImage(const Image &image) {
  auto packed = std::make_unique<schema::ImageT>();
  packed->kind = llvm::find(numberedKinds, image.kind) - numberedKinds;
  if (packed->kind == std::size(numberedKinds))
    packed->kind_name = image.kind;
  packed->target = image.target;
  packed->data.assign(image.data.begin(), image.data.end());
  packed->assembler = image.assembler;
  packed->level = static_cast<uint8_t>(image.level);
  auto digest = llvm::SHA256::hash(packed->data);
  packed->sha256.assign(digest.begin(), digest.end());
  return packed;
}

//===----------------------------------------------------------------------===//
// Packages
//===----------------------------------------------------------------------===//

/// Returns the names of targets without duplicates, in their order. If none is
/// named, returns the default CPU targets and those of the entries' images.
static llvm::Expected<std::vector<std::string>>
chooseTargets(ArrayRef<std::string> names, ArrayRef<PackageEntry> entries) {
  llvm::SmallSetVector<StringRef, 8> unique(names.begin(), names.end());
  if (names.empty())
    unique.insert_range(
        ArrayRef<StringRef>{"x86-64", "x86-64-v3", "x86-64-v4", "aarch64"});
  registerAllTargets();
  auto hasImages = [](StringRef name) {
    const Target *target = findTarget(name);
    return target && target->hasImages();
  };
  for (const PackageEntry &entry : entries)
    if (names.empty() && hasImages(entry.kernel->target))
      unique.insert(entry.kernel->target);
  for (StringRef name : unique)
    if (!hasImages(name))
      return ErrorBuilder(TandemErrorTarget)
             << "a package has no target '" << Named{TDM_MESSAGE_TARGET, name}
             << "'; expected " + listImageTargets();
  return std::vector<std::string>(unique.begin(), unique.end());
}

static llvm::Error checkNames(ArrayRef<PackageEntry> entries) {
  if (entries.empty())
    return ErrorBuilder(TandemErrorArgument)
           << "a package needs a kernel; give one";
  llvm::StringSet<> names;
  for (const PackageEntry &entry : entries)
    if (entry.name.empty() || !names.insert(entry.name).second)
      return ErrorBuilder(TandemErrorArgument)
             << "two kernels of a package are called '"
             << Named{TDM_MESSAGE_GRAPH, entry.name}
             << "'; give each a name of its own";
  return llvm::Error::success();
}

/// Prepends the package header to a FlatBuffer.
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

static const char *const compiler =
    "tandem " TANDEM_VERSION ", LLVM " LLVM_VERSION_STRING;

static std::string finish(const schema::PackageT &package) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(schema::Package::Pack(builder, &package));
  return addHeader({reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize()});
}

std::string tandem::writePackage(const CompiledKernel &kernel,
                                 const Image &image) {
  schema::PackageT package;
  package.compiler = compiler;
  package.kernels.push_back(packKernel({kernel.info->graph, &kernel}));
  package.kernels.back()->images.push_back(packImage(image));
  return finish(package);
}

llvm::Expected<std::string> tandem::writePackage(ArrayRef<PackageEntry> entries,
                                                 ArrayRef<std::string> names) {
  if (llvm::Error error = checkNames(entries))
    return error;
  auto targets = chooseTargets(names, entries);
  if (!targets)
    return targets.takeError();
  schema::PackageT package;
  package.compiler = compiler;
  for (const PackageEntry &entry : entries) {
    package.kernels.push_back(packKernel(entry));
    for (const std::string &target : *targets) {
      auto image = compileImage(*entry.kernel, target);
      if (!image)
        return image.takeError();
      package.kernels.back()->images.push_back(packImage(*image));
    }
  }
  return finish(package);
}

llvm::Error tandem::savePackage(ArrayRef<PackageEntry> entries,
                                ArrayRef<std::string> targets, StringRef path) {
  auto bytes = writePackage(entries, targets);
  if (!bytes)
    return bytes.takeError();
  llvm::Error error = writeWholeFile(path, *bytes);
  if (!error)
    return error;
  return ErrorBuilder(TandemErrorIO)
         << "cannot write package '" << Named{TDM_MESSAGE_FILE, path}
         << "': " + llvm::toString(std::move(error)) +
                "; check the directory's permissions and free space";
}
