//===- gpu_check.cpp - Kernels on a GPU and on the CPU --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a program that runs the kernels of packages on a GPU and
// on the CPU, compares every bit, and measures. It needs the runtime, packages
// and CUDA's driver, but no compiler and no network.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

using namespace gpucheck;

namespace {
/// What the command line asks for.
struct Options {
  std::vector<std::string> packages;
  std::string json;
  /// When to begin nothing more.
  double seconds = 450;
  /// Of the large tensor whose step is measured, and how many of GPT-2's, the
  /// last ones.
  int64_t elements = 1000000000, tensors = 400;
  /// Of the linear layer whose products are measured.
  int64_t width = 4096;
  /// Stands in for the GPU where there is none, to try the program itself.
  bool isCPU = false;
};

/// The result of a kernel.
struct Row {
  std::string title;
  std::string verdict;
  double bytesPerElement = 0;
  std::vector<Times> times;
  StartTimes start;
};
} // namespace

static const auto start = std::chrono::steady_clock::now();

static double elapsed() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

static int usage() {
  std::fputs("usage: gpu_check [--cpu] [--seconds=N] [--elements=N] "
             "[--tensors=N] [--width=N] [--json=FILE] PACKAGE...\n",
             stderr);
  return 2;
}

static bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (text == "--cpu")
      options.isCPU = true;
    else if (!text.compare(0, 10, "--seconds="))
      options.seconds = std::atof(text.c_str() + 10);
    else if (!text.compare(0, 11, "--elements="))
      options.elements = std::atoll(text.c_str() + 11);
    else if (!text.compare(0, 10, "--tensors="))
      options.tensors = std::atoll(text.c_str() + 10);
    else if (!text.compare(0, 8, "--width="))
      options.width = std::atoll(text.c_str() + 8);
    else if (!text.compare(0, 7, "--json="))
      options.json = text.substr(7);
    else if (text[0] == '-')
      return false;
    else
      options.packages.push_back(text);
  }
  return !options.packages.empty() && options.elements > 0 &&
         options.tensors > 0 && options.width > 0 && options.width % 16 == 0;
}

namespace {
/// The run of all kernels.
class Run {
public:
  explicit Run(const Options &options) : options(options) {
    require(tdm_device_open(TDM_DEVICE_CPU, 0, &cpu));
    if (options.isCPU)
      require(tdm_device_open(TDM_DEVICE_CPU, 0, &gpu));
    else
      require(tdm_device_open(TDM_DEVICE_CUDA, 0, &gpu));
    info.struct_size = sizeof(info);
    require(tdm_device_query(gpu, &info));
  }
  ~Run() {
    tdm_device_close(gpu);
    tdm_device_close(cpu);
  }

  bool run();
  void runProducts();
  void printStarts() const;
  bool writeJSON() const;

private:
  void runPackage(const std::string &path);
  void runKernel(const tdm_package *package, uint32_t index);
  void runLoaded(tdm_kernel *onCPU, tdm_kernel *onGPU,
                 const tdm_kernel_info &kernel, Row &row);
  void print(const Row &row) const;

  const Options &options;
  tdm_device *cpu = nullptr, *gpu = nullptr;
  tdm_device_info info = {};
  double copy = 0;
  /// Of launches of few and of many tensors, by their number.
  std::vector<std::pair<int, HostTimes>> host;
  std::vector<Row> rows;
  std::vector<ProductRow> products;
};
} // namespace

void Run::runLoaded(tdm_kernel *onCPU, tdm_kernel *onGPU,
                    const tdm_kernel_info &kernel, Row &row) {
  std::string found = compare(cpu, gpu, onCPU, onGPU, kernel);
  row.verdict = found.empty() ? "equal" : found;
  if (options.isCPU)
    return;
  row.times = measure(gpu, onGPU, kernel, options.elements, options.tensors);
  if (host.empty() && !isLayer(kernel))
    for (int count : {400, 4000})
      host.emplace_back(count, measureHost(gpu, onGPU, kernel, count));
}

void Run::print(const Row &row) const {
  std::printf("%-36s %s\n", row.title.c_str(), row.verdict.c_str());
  for (const Times &times : row.times)
    std::printf("  %-34s %9.3f ms %8.0f GB/s %6.1f%% of a copy\n",
                times.name.c_str(), times.milliseconds,
                times.gigabytesPerSecond,
                100 * times.gigabytesPerSecond * 1e9 / copy);
  std::fflush(stdout);
}

void Run::runKernel(const tdm_package *package, uint32_t index) {
  tdm_kernel_info kernel = {};
  kernel.struct_size = sizeof(kernel);
  require(tdm_package_kernel(package, index, &kernel));
  Row row;
  row.title = titleOf(kernel);
  row.bytesPerElement = bytesPerElement(*kernel.desc);
  tdm_kernel *onCPU = nullptr, *onGPU = nullptr;
  require(tdm_package_load(package, kernel.name, nullptr, &onCPU));
  bool isLate = elapsed() > options.seconds;
  if (!options.isCPU && !isLate)
    row.start = measureStart(gpu, package, kernel);
  tdm_status status =
      options.isCPU ? tdm_package_load(package, kernel.name, "x86-64", &onGPU)
                    : tdm_package_load_cuda(package, kernel.name, gpu, &onGPU);
  if (status)
    row.verdict = tdm_last_error();
  else if (isLate)
    row.verdict = "not run, the time is up";
  else
    runLoaded(onCPU, onGPU, kernel, row);
  tdm_kernel_destroy(onGPU);
  tdm_kernel_destroy(onCPU);
  print(row);
  rows.push_back(row);
}

void Run::runPackage(const std::string &path) {
  tdm_package *package = nullptr;
  require(tdm_package_open(path.c_str(), &package));
  for (uint32_t i = 0; i < tdm_package_num_kernels(package); ++i)
    runKernel(package, i);
  tdm_package_close(package);
}

/// Products are no kernels of ours: without cuBLASLt the check goes on.
void Run::runProducts() {
  products = measureProducts(gpu, options.width);
  for (const ProductRow &row : products) {
    std::printf("%-36s %s\n", row.name.c_str(), row.verdict.c_str());
    if (row.milliseconds > 0)
      std::printf("  %-34s %9.3f ms %8.1f TFLOP/s\n", "a product",
                  row.milliseconds, row.teraflops);
  }
}

void Run::printStarts() const {
  std::vector<double> compiled, cached;
  for (const Row &row : rows)
    if (row.start.compiled > 0) {
      compiled.push_back(row.start.compiled);
      cached.push_back(row.start.cached);
    }
  if (compiled.empty())
    return;
  for (std::vector<double> *times : {&compiled, &cached})
    std::sort(times->begin(), times->end());
  std::printf("from a package to the first launch: %.1f ms where the driver "
              "compiles, %.1f ms from the cache (medians)\n",
              compiled[compiled.size() / 2], cached[cached.size() / 2]);
}

bool Run::run() {
  std::printf("%s, %s, %d multiprocessors, driver %d\n", info.name, info.target,
              info.multiprocessors, info.driver_version);
  if (!options.isCPU) {
    copy = measureCopy(gpu);
    std::printf("a copy within its memory: %.0f GB/s\n", copy * 1e-9);
  }
  for (const std::string &path : options.packages)
    runPackage(path);
  if (!options.isCPU)
    runProducts();
  for (const auto &[count, times] : host)
    std::printf("host, %d tensors: launch %.1f us; the same list %.1f us; "
                "other pointers %.3f us a tensor\n",
                count, times.launch, times.sameUpdate, times.changedPerTensor);
  if (!options.isCPU && !rows.empty())
    printStarts();
  size_t equal = 0;
  for (const Row &row : rows)
    equal += row.verdict == "equal";
  std::printf("%zu of %zu kernels leave the CPU's bits\n", equal, rows.size());
  return equal == rows.size();
}

static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "\"";
}

static void writeRow(std::FILE *file, const Row &row, bool isLater) {
  std::fprintf(file,
               "%s\n  {\"kernel\": %s, \"verdict\": %s, "
               "\"bytes_per_element\": %g,\n"
               "   \"start_ms\": {\"compiled\": %.2f, \"cached\": %.2f},\n"
               "   \"times\": [",
               isLater ? "," : "", quoted(row.title).c_str(),
               quoted(row.verdict).c_str(), row.bytesPerElement,
               row.start.compiled, row.start.cached);
  for (size_t i = 0; i < row.times.size(); ++i)
    std::fprintf(file,
                 "%s\n    {\"of\": %s, \"tensors\": %lld, \"elements\": "
                 "%lld, \"ms\": %.4f, \"gb_per_s\": %.1f}",
                 i ? "," : "", quoted(row.times[i].name).c_str(),
                 static_cast<long long>(row.times[i].tensors),
                 static_cast<long long>(row.times[i].elements),
                 row.times[i].milliseconds, row.times[i].gigabytesPerSecond);
  std::fputs("]}", file);
}

static void writeProduct(std::FILE *file, const ProductRow &row, bool isLater) {
  std::fprintf(
      file,
      "%s\n  {\"product\": %s, \"verdict\": %s, \"rows\": %lld, "
      "\"columns\": %lld, \"depth\": %lld, \"ms\": %.4f, "
      "\"tflop_per_s\": %.1f}",
      isLater ? "," : "", quoted(row.name).c_str(), quoted(row.verdict).c_str(),
      static_cast<long long>(row.rows), static_cast<long long>(row.columns),
      static_cast<long long>(row.depth), row.milliseconds, row.teraflops);
}

bool Run::writeJSON() const {
  if (options.json.empty())
    return true;
  std::FILE *file = std::fopen(options.json.c_str(), "w");
  if (!file)
    return false;
  std::fprintf(file,
               "{\"device\": %s, \"target\": %s, \"driver\": %d,\n"
               " \"copy_gb_per_s\": %.1f, \"multiprocessors\": %d,\n"
               " \"host_us\": {",
               quoted(info.name).c_str(), quoted(info.target).c_str(),
               info.driver_version, copy * 1e-9, info.multiprocessors);
  for (size_t i = 0; i < host.size(); ++i)
    std::fprintf(file,
                 "%s\n  \"%d\": {\"launch\": %.2f, \"same_list\": %.2f, "
                 "\"changed_per_tensor\": %.4f}",
                 i ? "," : "", host[i].first, host[i].second.launch,
                 host[i].second.sameUpdate, host[i].second.changedPerTensor);
  std::fputs("},\n \"kernels\": [", file);
  for (size_t i = 0; i < rows.size(); ++i)
    writeRow(file, rows[i], i != 0);
  std::fputs("\n],\n \"products\": [", file);
  for (size_t i = 0; i < products.size(); ++i)
    writeProduct(file, products[i], i != 0);
  std::fputs("\n]}\n", file);
  return std::fclose(file) == 0;
}

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options))
    return usage();
  Run run(options);
  bool isFine = run.run();
  if (!run.writeJSON()) {
    std::fprintf(stderr, "gpu_check: cannot write '%s'\n",
                 options.json.c_str());
    return 2;
  }
  return isFine ? 0 : 1;
}
