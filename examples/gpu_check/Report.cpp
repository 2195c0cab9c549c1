//===- Report.cpp - What the check of a GPU has found ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the results of the check of kernels on a GPU, as text
// and as JSON.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <algorithm>

using namespace gpucheck;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void gpucheck::printDevice(const Report &report) {
  const tdm_device_info &device = report.device;
  std::printf("%s, %s, %d multiprocessors, driver %d\n", device.name,
              device.target, device.multiprocessors, device.driver_version);
  if (report.bytesPerSecond > 0)
    std::printf("a copy within its memory: %.0f GB/s\n",
                report.bytesPerSecond * 1e-9);
  std::fflush(stdout);
}

static void printTimes(const Report &report, const Times &times) {
  std::printf("  %-34s %9.3f ms %8.0f GB/s", times.name.c_str(),
              times.milliseconds, times.gigabytesPerSecond);
  if (report.bytesPerSecond > 0)
    std::printf(" %6.1f%% of a copy",
                100 * times.gigabytesPerSecond * 1e9 / report.bytesPerSecond);
  std::printf("\n");
}

void gpucheck::print(const Report &report, const Row &row) {
  std::printf("%-36s %s%s%s\n", row.title.c_str(), row.verdict.c_str(),
              row.verdict.empty() || row.error.empty() ? "" : "; ",
              row.error.c_str());
  for (const Times &times : row.times)
    printTimes(report, times);
  if (row.large.elements)
    std::printf("  %lld elements, %.0f%% of the bytes compared%s%s\n",
                static_cast<long long>(row.large.elements),
                100 * row.large.share, row.large.note.empty() ? "" : ": ",
                row.large.note.c_str());
  std::fflush(stdout);
}

void gpucheck::print(const ProductRow &row) {
  std::printf("%-36s %s\n", row.name.c_str(), row.verdict.c_str());
  if (row.milliseconds > 0)
    std::printf("  %-34s %9.3f ms %8.1f TFLOP/s\n", "a product",
                row.milliseconds, row.teraflops);
  std::fflush(stdout);
}

static void printStarts(const std::vector<Row> &rows) {
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

void gpucheck::printEnd(const Report &report) {
  for (const auto &[count, times] : report.host)
    std::printf("host, %d tensors: launch %.1f us; the same list %.1f us; "
                "other pointers %.3f us a tensor\n",
                count, times.launch, times.sameUpdate, times.changedPerTensor);
  printStarts(report.rows);
  size_t equal = 0, compared = 0;
  for (const Row &row : report.rows) {
    equal += row.verdict == "equal";
    compared += !row.verdict.empty() || !row.error.empty();
  }
  if (compared)
    std::printf("%zu of %zu kernels leave the CPU's bits\n", equal, compared);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}

static void writeTimes(std::FILE *file, const std::vector<Times> &all) {
  std::fputs("   \"times\": [", file);
  for (size_t i = 0; i < all.size(); ++i)
    std::fprintf(file,
                 "%s\n    {\"of\": %s, \"tensors\": %lld, \"elements\": "
                 "%lld, \"ms\": %.4f, \"gb_per_s\": %.1f}",
                 i ? "," : "", quoted(all[i].name).c_str(),
                 static_cast<long long>(all[i].tensors),
                 static_cast<long long>(all[i].elements), all[i].milliseconds,
                 all[i].gigabytesPerSecond);
  std::fputs("]", file);
}

static void writeRow(std::FILE *file, const Row &row) {
  std::fprintf(file,
               "  {\"kernel\": %s, \"verdict\": %s, \"error\": %s,\n"
               "   \"bytes_per_element\": %g,\n",
               quoted(row.title).c_str(), quoted(row.verdict).c_str(),
               quoted(row.error).c_str(), row.bytesPerElement);
  if (row.start.compiled > 0)
    std::fprintf(file,
                 "   \"start_ms\": {\"compiled\": %.2f, \"cached\": %.2f},\n",
                 row.start.compiled, row.start.cached);
  if (row.large.elements)
    std::fprintf(file,
                 "   \"large\": {\"elements\": %lld, \"compared\": %.4f, "
                 "\"note\": %s},\n",
                 static_cast<long long>(row.large.elements), row.large.share,
                 quoted(row.large.note).c_str());
  writeTimes(file, row.times);
  std::fputs("}", file);
}

static void writeProduct(std::FILE *file, const ProductRow &row) {
  std::fprintf(
      file,
      "  {\"product\": %s, \"verdict\": %s, \"rows\": %lld, "
      "\"columns\": %lld, \"depth\": %lld, \"ms\": %.4f, "
      "\"tflop_per_s\": %.1f}",
      quoted(row.name).c_str(), quoted(row.verdict).c_str(),
      static_cast<long long>(row.rows), static_cast<long long>(row.columns),
      static_cast<long long>(row.depth), row.milliseconds, row.teraflops);
}

static void writeHost(std::FILE *file, const std::pair<int, HostTimes> &host) {
  std::fprintf(file,
               "  \"%d\": {\"launch\": %.2f, \"same_list\": %.2f, "
               "\"changed_per_tensor\": %.4f}",
               host.first, host.second.launch, host.second.sameUpdate,
               host.second.changedPerTensor);
}

template <typename T>
static void writeAll(std::FILE *file, const std::vector<T> &all,
                     void (*writeOne)(std::FILE *, const T &)) {
  for (size_t i = 0; i < all.size(); ++i) {
    std::fputs(i ? ",\n" : "\n", file);
    writeOne(file, all[i]);
  }
}

static void writeReport(std::FILE *file, const Report &report) {
  const tdm_device_info &device = report.device;
  std::fprintf(file,
               "{\"device\": %s, \"target\": %s, \"driver\": %d,\n"
               " \"copy_gb_per_s\": %.1f, \"multiprocessors\": %d,\n"
               " \"image\": %s, \"error\": %s,\n \"host_us\": {",
               quoted(device.name).c_str(), quoted(device.target).c_str(),
               device.driver_version, report.bytesPerSecond * 1e-9,
               device.multiprocessors, quoted(report.image).c_str(),
               quoted(report.error).c_str());
  writeAll(file, report.host, writeHost);
  std::fputs("},\n \"kernels\": [", file);
  writeAll(file, report.rows, writeRow);
  std::fputs("],\n \"products\": [", file);
  writeAll(file, report.products, writeProduct);
  std::fputs("]}\n", file);
}

bool Report::write(const std::string &path) const {
  if (path.empty())
    return true;
  std::string unfinished = path + ".new";
  std::FILE *file = std::fopen(unfinished.c_str(), "w");
  if (!file)
    return false;
  writeReport(file, *this);
  return std::fclose(file) == 0 &&
         std::rename(unfinished.c_str(), path.c_str()) == 0;
}
