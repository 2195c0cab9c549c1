//===- gpu_check.cpp - Kernels on a GPU and on the CPU --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a program that runs the kernels of packages on a GPU and
// on the CPU, compares every bit, and measures times. It needs the runtime,
// packages and CUDA's driver, but no compiler and no network. An error in one
// kernel is recorded in its result; the JSON is complete after each kernel.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace gpucheck;

namespace {
/// The checks and measurements to run for each kernel.
struct Modes {
  bool compare = false, measure = false, host = false, start = false,
       products = false, large = false;
};

/// The options of the command line.
struct Options {
  std::vector<std::string> packages;
  std::string json;
  Modes modes;
  bool isAnyMode = false;
  ImageChoice image;
  /// The number of seconds after which no new part begins.
  double seconds = 450;
  /// Comparisons skip tensors with more bytes than this.
  int64_t largest = int64_t(1) << 40;
  /// The number of elements of the large tensor that is measured or compared,
  /// and the number of GPT-2's tensors that are, counted from the last one.
  int64_t elements = 1000000000, tensors = 400;
  /// The width of the linear layer whose products are measured.
  int64_t width = 4096;
  /// Whether the CPU stands in for the GPU, to test this program itself.
  bool isCPU = false;
};
} // namespace

/// The exit status if there was nothing to check.
static constexpr int skipped = 77;

/// The instruction set of every processor of this program's architecture.
#if defined(__aarch64__)
static constexpr char baseline[] = "aarch64";
#else
static constexpr char baseline[] = "x86-64";
#endif

static const auto start = std::chrono::steady_clock::now();

static double elapsed() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

//===----------------------------------------------------------------------===//
// The command line
//===----------------------------------------------------------------------===//

static int usage() {
  std::fputs("usage: gpu_check [MODE...] [OPTION...] PACKAGE...\n"
             "modes; all but --large if none is named:\n"
             "  --compare   steps on the GPU with the CPU's bits\n"
             "  --measure   times of steps\n"
             "  --host      times of the host's part of a launch\n"
             "  --start     times from the package to the first launch\n"
             "  --products  cuBLASLt's products; takes no package\n"
             "  --large     one step over --elements with the CPU's bits\n"
             "options: --cpu --seconds=N --elements=N --tensors=N --largest=N\n"
             "  --width=N --json=FILE --image=ptx|cubin --ptxas=COMMAND\n",
             stderr);
  return 2;
}

static bool parseMode(const std::string &text, Options &options) {
  Modes &modes = options.modes;
  const std::pair<const char *, bool *> names[] = {
      {"--compare", &modes.compare},   {"--measure", &modes.measure},
      {"--host", &modes.host},         {"--start", &modes.start},
      {"--products", &modes.products}, {"--large", &modes.large}};
  for (auto [name, mode] : names)
    if (text == name)
      return options.isAnyMode = *mode = true;
  return false;
}

/// Parses an option of the form --name=value.
static bool parseValue(const std::string &text, Options &options) {
  size_t equals = text.find('=');
  if (equals == std::string::npos)
    return false;
  std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  const std::pair<const char *, int64_t *> numbers[] = {
      {"--elements", &options.elements},
      {"--tensors", &options.tensors},
      {"--largest", &options.largest},
      {"--width", &options.width}};
  for (auto [known, number] : numbers)
    if (name == known) {
      *number = std::atoll(value.c_str());
      return *number > 0;
    }
  const std::pair<const char *, std::string *> texts[] = {
      {"--json", &options.json},
      {"--image", &options.image.kind},
      {"--ptxas", &options.image.ptxas}};
  for (auto [known, place] : texts)
    if (name == known) {
      *place = value;
      return name != "--image" || value == "ptx" || value == "cubin";
    }
  options.seconds = std::atof(value.c_str());
  return name == "--seconds";
}

static bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (text == "--cpu")
      options.isCPU = true;
    else if (text[0] != '-')
      options.packages.push_back(text);
    else if (!parseMode(text, options) && !parseValue(text, options))
      return false;
  }
  if (!options.isAnyMode)
    options.modes = {true, true, true, true, true, false};
  bool needsPackage = !options.isAnyMode || !options.modes.products;
  return options.width % 16 == 0 &&
         (!needsPackage || !options.packages.empty());
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

namespace {
/// The run of all kernels.
class Run {
public:
  explicit Run(const Options &options) : options(options) {}
  ~Run() {
    tdm_device_close(gpu);
    tdm_device_close(cpu);
  }

  /// Runs all kernels and returns the exit status.
  int run();

private:
  void open();
  void runAll();
  void runPackage(const std::string &path);
  void runKernel(const tdm_package *package, uint32_t index);
  void runModes(const tdm_package *package, const tdm_kernel_info &kernel,
                Row &row);
  void runCompare(tdm_kernel *onCPU, tdm_kernel *onGPU,
                  const tdm_kernel_info &kernel, Row &row);
  void runMeasure(tdm_kernel *onGPU, const tdm_kernel_info &kernel, Row &row);
  bool isFine() const;
  bool isAbsent() const;
  /// Writes the results so far, in case the next call never returns.
  void save() const;

  const Options &options;
  tdm_device *cpu = nullptr, *gpu = nullptr;
  Report report;
};
} // namespace

static bool isLate(const Options &options) {
  return elapsed() > options.seconds;
}

static void append(std::string &text, const std::string &more) {
  text += (text.empty() ? "" : "; ") + more;
}

void Run::save() const {
  if (!report.write(options.json))
    throw std::runtime_error("cannot write '" + options.json + "'");
}

void Run::runCompare(tdm_kernel *onCPU, tdm_kernel *onGPU,
                     const tdm_kernel_info &kernel, Row &row) {
  if (options.modes.compare) {
    std::string found =
        compare(cpu, gpu, onCPU, onGPU, kernel, options.largest);
    row.verdict = found.empty() ? "equal" : found;
    save();
  }
  if (options.modes.large) {
    row.large = compareLarge(cpu, gpu, onCPU, onGPU, kernel, options.elements,
                             [&] { return isLate(options); });
    if (row.verdict.empty() || row.verdict == "equal")
      row.verdict = row.large.verdict;
    save();
  }
}

void Run::runMeasure(tdm_kernel *onGPU, const tdm_kernel_info &kernel,
                     Row &row) {
  if (options.modes.measure)
    for (const Model &model :
         modelsOf(gpu, kernel, options.elements, options.tensors)) {
      try {
        row.times.push_back(measure(gpu, onGPU, kernel, model));
      } catch (const Error &error) {
        append(row.error, model.name + ": " + error.what());
      }
      save();
    }
  if (options.modes.host && report.host.empty() && !isLayer(kernel))
    for (int count : {400, 4000})
      report.host.emplace_back(count, measureHost(gpu, onGPU, kernel, count));
}

void Run::runModes(const tdm_package *package, const tdm_kernel_info &kernel,
                   Row &row) {
  if (isLate(options))
    throw Error("not run, the time is up");
  KernelHandle onCPU, onGPU;
  require(tdm_package_load(package, kernel.name, cpu, nullptr, &onCPU.kernel));
  if (options.isCPU) {
    require(
        tdm_package_load(package, kernel.name, cpu, baseline, &onGPU.kernel));
    return runCompare(onCPU.kernel, onGPU.kernel, kernel, row);
  }
  if (options.modes.start)
    row.start = measureStart(gpu, package, kernel, options.image);
  KernelHandle loaded = loadOnGPU(gpu, package, kernel, options.image);
  runCompare(onCPU.kernel, loaded.kernel, kernel, row);
  runMeasure(loaded.kernel, kernel, row);
}

void Run::runKernel(const tdm_package *package, uint32_t index) {
  tdm_kernel_info kernel = {};
  kernel.struct_size = sizeof(kernel);
  require(tdm_package_kernel(package, index, &kernel));
  report.rows.emplace_back();
  Row &row = report.rows.back();
  row.title = titleOf(kernel);
  row.bytesPerElement = bytesPerElement(*kernel.desc);
  try {
    runModes(package, kernel, row);
  } catch (const Absent &error) {
    row.isAbsent = true;
    row.error = error.what();
  } catch (const Error &error) {
    append(row.error, error.what());
  }
  print(report, row);
  save();
}

void Run::runPackage(const std::string &path) {
  tdm_package *package = nullptr;
  try {
    require(tdm_package_open(path.c_str(), &package));
    for (uint32_t i = 0; i < tdm_package_num_kernels(package); ++i)
      runKernel(package, i);
  } catch (const Error &error) {
    report.rows.emplace_back();
    report.rows.back().title = path;
    report.rows.back().error = error.what();
    print(report, report.rows.back());
    save();
  }
  tdm_package_close(package);
}

void Run::open() {
  require(tdm_device_open("cpu", 0, &cpu));
  require(tdm_device_open(options.isCPU ? "cpu" : "cuda", 0, &gpu));
  report.device.struct_size = sizeof(report.device);
  require(tdm_device_query(gpu, &report.device));
}

void Run::runAll() {
  report.image =
      options.image.ptxas.empty() ? options.image.kind : options.image.ptxas;
  open();
  if (options.modes.measure && !options.isCPU)
    report.bytesPerSecond = measureCopy(
        gpu, std::min(size_t(2) << 30, size_t(options.elements) * 4));
  printDevice(report);
  for (const std::string &path : options.packages)
    runPackage(path);
  if (options.modes.products && !options.isCPU)
    measureProducts(gpu, options.width, [&](const ProductRow &row) {
      report.products.push_back(row);
      print(row);
      save();
    });
  printEnd(report);
}

/// Returns whether all kernels passed. The verdict counts only if kernels were
/// compared.
bool Run::isFine() const {
  bool compares = options.modes.compare || options.modes.large;
  for (const Row &row : report.rows)
    if (!row.error.empty() || (compares && row.verdict != "equal"))
      return false;
  for (const ProductRow &row : report.products)
    if (row.verdict != "right")
      return false;
  return true;
}

/// Returns whether there was nothing to check.
bool Run::isAbsent() const {
  for (const Row &row : report.rows)
    if (!row.isAbsent)
      return false;
  return !report.rows.empty();
}

int Run::run() {
  try {
    runAll();
  } catch (const Error &error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    report.error = error.what();
  }
  save();
  if (!report.error.empty())
    return 2;
  return isAbsent() ? skipped : isFine() ? 0 : 1;
}

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options))
    return usage();
  try {
    return Run(options).run();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 2;
  }
}
