//===- tandem-package.cpp - What a package holds --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-package, which shows the content of packages and
// writes the code in them to files. It needs only the runtime.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_package.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {
/// A table of text, whose columns are padded.
class Table {
public:
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  void print() const;

private:
  std::vector<std::vector<std::string>> rows;
};
} // namespace

void Table::print() const {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line.resize(line.empty() ? 4 : line.size() + 2, ' ');
      line += row[i];
      if (i + 1 < row.size())
        line.resize(line.size() + widths[i] - row[i].size(), ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

/// Prints a number in %g format.
static std::string print(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

static std::string describeAccess(uint32_t access) {
  return std::string(access & TDM_ACCESS_READ ? "r" : "-") +
         (access & TDM_ACCESS_WRITE ? "w" : "-");
}

/// Expands to the name of an enumerator as a string.
#define NAME(enumerator, name) #name,
static const char *const places[] = {TDM_GRANULARITIES(NAME)};

/// Returns a phrase for the elements that share an entry of a plane.
static std::string describeSharers(const tdm_plane_desc &plane) {
  tdm_plane_sharing sharing;
  tdm_plane_get_sharing(&plane, &sharing);
  return *sharing.text ? std::string("for ") + sharing.text : "";
}

static std::string describeDomain(const tdm_hyper_desc &hyper) {
  return (hyper.min_open ? "(" : "[") + print(hyper.min) + ", " +
         print(hyper.max) + (hyper.max_open ? ")" : "]") +
         (hyper.min_positive > 0
              ? ", 0 or at least " + print(hyper.min_positive)
              : "");
}

static std::string describeReduction(const tdm_reduction_desc &reduction) {
  static const char *const kinds[] = {TDM_REDUCTION_KINDS(NAME)};
  static const char *const scopes[] = {TDM_SCOPES(NAME)};
  return std::string(kinds[reduction.kind]) +
         (reduction.scope == TDM_SCOPE_MODEL ? " of the " : " of each ") +
         scopes[reduction.scope];
}

static std::string describeHash(const uint8_t *hash) {
  std::string text;
  for (int i = 0; i < 8; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", hash[i]);
    text += digits;
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static void addArguments(const tdm_kernel_info &info, Table &table) {
  const tdm_kernel_desc &desc = *info.desc;
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    const tdm_plane_desc &plane = desc.planes[i];
    std::string type = plane.type;
    if (plane.history)
      type += " x " + std::to_string(plane.history);
    table.add({"plane", plane.name, describeAccess(plane.access), type,
               describeSharers(plane)});
  }
  for (uint32_t i = 0; i < desc.num_hypers; ++i)
    table.add({"hyper", desc.hypers[i].name, "r", "f64",
               "in " + describeDomain(desc.hypers[i]) +
                   (desc.hypers[i].has_default
                        ? ", by default " + print(desc.hypers[i].default_value)
                        : "")});
  for (uint32_t i = 0; i < desc.num_integers; ++i)
    table.add({"integer", desc.integers[i].name, "r", "i64", ""});
}

/// Returns the target of an image in the compiler's notation.
static std::string describeTarget(const tdm_image &image) {
  std::string kind = image.kind;
  if (kind != "cubin")
    return image.target;
  bool isPlain = image.level == 3 || !*image.assembler;
  return (isPlain ? "cubin:" : "cubin-O" + std::to_string(image.level) + ":") +
         image.target;
}

static std::string describeMaking(const tdm_image &image) {
  return *image.assembler ? std::string(", by assembler ") + image.assembler +
                                " -O" + std::to_string(image.level)
                          : "";
}

static void addCode(const tdm_kernel_info &info, Table &table) {
  const tdm_kernel_desc &desc = *info.desc;
  for (uint32_t phase = 0; phase < info.num_phases; ++phase) {
    std::string made;
    for (uint32_t i = 0; i < desc.num_reductions; ++i)
      if (desc.reductions[i].phase == phase)
        made += (made.empty() ? "makes the " : ", the ") +
                describeReduction(desc.reductions[i]);
    const tdm_part_info &part = info.phases[phase];
    table.add({part.fused_with_previous ? "and phase" : "phase", part.entry, "",
               places[part.per], made});
    for (uint32_t i = 0; i < desc.num_externals; ++i)
      if (desc.externals[i].phase == phase)
        table.add({"external", desc.externals[i].name, "", "tensor",
                   "computed by the host"});
  }
  for (uint32_t i = 0; i < info.num_epilogues; ++i)
    table.add({"epilogue", info.epilogues[i].entry, "",
               info.epilogues[i].per ? places[info.epilogues[i].per] : "tensor",
               ""});
  for (uint32_t i = 0; i < info.num_images; ++i) {
    const tdm_image &image = info.images[i];
    table.add({"image", image.target, "", image.kind,
               std::to_string(image.size) + " bytes, " +
                   describeHash(image.sha256) + describeMaking(image)});
  }
}

static void show(const tdm_kernel_info &info) {
  std::string strategy =
      *info.strategy ? std::string(" under ") + info.strategy : std::string();
  std::printf("%s: %s%s (%s)%s\n", info.name, info.graph, strategy.c_str(),
              info.compute, info.desc->matrix ? ", for matrices" : "");
  Table table;
  addArguments(info, table);
  addCode(info, table);
  table.print();
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// Prints a line such as `exp_avg.type = "bf16"`. Newlines in the text are
/// escaped.
static void printField(const std::string &path, const char *text) {
  std::string escaped;
  for (; *text; ++text)
    escaped += *text == '\n'                   ? "\\n"
               : *text == '"' || *text == '\\' ? std::string("\\") + *text
                                               : std::string(1, *text);
  std::printf("%s = \"%s\"\n", path.c_str(), escaped.c_str());
}
static void printField(const std::string &path, double value) {
  std::printf("%s = %.17g\n", path.c_str(), value);
}
static void printField(const std::string &path, int64_t value) {
  std::printf("%s = %lld\n", path.c_str(), static_cast<long long>(value));
}
static void printField(const std::string &path, uint32_t value) {
  printField(path, int64_t(value));
}

#define PRINT_BY_NAME(Enum, LIST)                                              \
  static void printField(const std::string &path, Enum value) {                \
    static const char *const names[] = {LIST(NAME)};                           \
    printField(path, names[value]);                                            \
  }
PRINT_BY_NAME(tdm_granularity, TDM_GRANULARITIES)
PRINT_BY_NAME(tdm_role, TDM_ROLES)
PRINT_BY_NAME(tdm_reduction_kind, TDM_REDUCTION_KINDS)
PRINT_BY_NAME(tdm_scope, TDM_SCOPES)

#define PRINT(name) printField(path + "." #name, desc.name);

static void printFields(const std::string &path, const tdm_plane_desc &desc) {
  TDM_PLANE_FIELDS(PRINT, PRINT)
}
static void printFields(const std::string &path, const tdm_hyper_desc &desc) {
  TDM_HYPER_FIELDS(PRINT, PRINT)
  if (desc.has_default)
    PRINT(default_value)
}
static void printFields(const std::string &path, const tdm_integer_desc &desc) {
  TDM_INTEGER_FIELDS(PRINT, PRINT)
}
static void printFields(const std::string &path,
                        const tdm_reduction_desc &desc) {
  TDM_REDUCTION_FIELDS(PRINT, PRINT)
}
static void printFields(const std::string &path,
                        const tdm_external_desc &desc) {
  TDM_EXTERNAL_FIELDS(PRINT, PRINT)
}
static void printFields(const std::string &path, const tdm_part_info &desc) {
  TDM_PART_FIELDS(PRINT, PRINT)
}
static void printFields(const std::string &path, const tdm_kernel_desc &desc) {
  TDM_KERNEL_DESC_FIELDS(PRINT, PRINT)
}

template <typename Desc>
static void printAll(const std::string &path, const Desc *descs,
                     uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    printFields(path + "[" + std::to_string(i) + "]", descs[i]);
}

/// Prints each field of the description except for the images.
static void printFields(const tdm_kernel_info &desc) {
  std::string path = desc.name;
  TDM_KERNEL_INFO_FIELDS(PRINT, PRINT)
  printFields(path, *desc.desc);
  printAll(path + ".planes", desc.desc->planes, desc.desc->num_planes);
  printAll(path + ".hypers", desc.desc->hypers, desc.desc->num_hypers);
  printAll(path + ".integers", desc.desc->integers, desc.desc->num_integers);
  printAll(path + ".reductions", desc.desc->reductions,
           desc.desc->num_reductions);
  printAll(path + ".externals", desc.desc->externals, desc.desc->num_externals);
  printAll(path + ".phases", desc.phases, desc.num_phases);
  printAll(path + ".epilogues", desc.epilogues, desc.num_epilogues);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

static int fail(const char *message) {
  std::fprintf(stderr, "tandem-package: error: %s\n", message);
  return 1;
}

/// Calls `print` for each kernel.
template <typename Print>
static int forEachKernel(const tdm_package *package, Print print) {
  for (uint32_t i = 0; i < tdm_package_num_kernels(package); ++i) {
    tdm_kernel_info info = {};
    info.struct_size = sizeof(info);
    if (tdm_package_kernel(package, i, &info))
      return fail(tdm_last_error());
    print(info);
  }
  return 0;
}

static int show(const tdm_package *package, const char *path) {
  tdm_kernel_info first = {};
  first.struct_size = sizeof(first);
  if (tdm_package_kernel(package, 0, &first))
    return fail(tdm_last_error());
  std::printf("%s: format %u, written by %s\n", path, first.format,
              tdm_package_compiler(package));
  return forEachKernel(package, [](const tdm_kernel_info &info) {
    std::printf("\n");
    show(info);
  });
}

static int listFields(const tdm_package *package) {
  return forEachKernel(package,
                       [](const tdm_kernel_info &info) { printFields(info); });
}

/// Writes an image to the standard output.
static int extract(const tdm_package *package, const char *kernel,
                   const std::string &target) {
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  uint32_t index;
  if (tdm_package_find(package, kernel, &index) ||
      tdm_package_kernel(package, index, &info))
    return fail(tdm_last_error());
  std::string known;
  for (uint32_t i = 0; i < info.num_images; ++i) {
    const tdm_image &image = info.images[i];
    std::string name = describeTarget(image);
    if (name == target)
      return std::fwrite(image.data, 1, image.size, stdout) == image.size
                 ? 0
                 : fail("the image cannot be written");
    known += (known.empty() ? "" : ", ") + name;
  }
  return fail((std::string(kernel) + " has no code for '" + target +
               "'; it has " + known)
                  .c_str());
}

static int printVersion() {
  uint32_t version = tdm_runtime_version();
  std::printf("tandem %u.%u.%u\n", version >> 16, version >> 8 & 0xFF,
              version & 0xFF);
  return 0;
}

static void printUsage(std::FILE *file) {
  std::fprintf(file,
               "usage: tandem-package show FILE\n"
               "       tandem-package fields FILE\n"
               "       tandem-package extract FILE KERNEL TARGET >IMAGE\n"
               "       tandem-package --version\n"
               "\n"
               "Shows what the kernels of a package take, and what they have "
               "code for; lists each\n"
               "field of their descriptions; or writes the code as it is.\n");
}

int main(int argc, char **argv) {
  if (argc == 2 && !std::strcmp(argv[1], "--version"))
    return printVersion();
  if (argc == 2 && !std::strcmp(argv[1], "--help")) {
    printUsage(stdout);
    return 0;
  }
  bool shows = argc == 3 && !std::strcmp(argv[1], "show");
  bool lists = argc == 3 && !std::strcmp(argv[1], "fields");
  bool extracts = argc == 5 && !std::strcmp(argv[1], "extract");
  if (!shows && !lists && !extracts) {
    printUsage(stderr);
    return 2;
  }
  tdm_package *package = nullptr;
  if (tdm_package_open(argv[2], &package))
    return fail(tdm_last_error());
  int result = shows   ? show(package, argv[2])
               : lists ? listFields(package)
                       : extract(package, argv[3], argv[4]);
  tdm_package_close(package);
  return result;
}
