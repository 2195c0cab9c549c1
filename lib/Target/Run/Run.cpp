//===- Run.cpp - Run compiled kernels on arrays ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements runs of a graph on the arrays of a file.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Run.h"
#include "RunArrays.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <chrono>
#include <cstring>

using namespace tandem;
using llvm::format;

void tandem::printSignature(const tdm_kernel_info &info,
                            llvm::raw_ostream &os) {
  os << getTitle(info) << " (" << info.compute << "), "
     << format("%g", getBytesPerParameter(info)) << " bytes a parameter\n";
  for (const tdm_plane_desc &plane : getPlanes(info)) {
    os << "  " << (isRead(plane) ? "r" : "-") << (isWritten(plane) ? "w" : "-")
       << " " << plane.name << ": " << plane.type;
    if (plane.history)
      os << " x " << plane.history;
    if (!hasEntryPerElement(plane))
      os << " for " << getSharingText(plane);
    if (plane.transposed)
      os << ", transposed";
    os << "\n";
  }
  for (const tdm_hyper_desc &hyper : getHypers(info)) {
    os << "     " << hyper.name << ": f64";
    if (hyper.has_default)
      os << " = " << format("%g", hyper.default_value);
    os << "\n";
  }
  for (const tdm_integer_desc &integer : getIntegers(info))
    os << "     " << integer.name << ": i64\n";
}

/// Returns the values of the hyperparameters in launch order, with defaults for
/// those that are not given.
static llvm::Expected<std::vector<double>>
getHypers(const tdm_kernel_info &info, const RunOptions &options) {
  std::vector<double> values;
  std::vector<llvm::StringRef> names;
  for (const tdm_hyper_desc &hyper : getHypers(info)) {
    names.push_back(hyper.name);
    auto given = options.hypers.find(hyper.name);
    if (given == options.hypers.end() && !hyper.has_default)
      return llvm::createStringError(llvm::Twine(info.graph) +
                                     " needs a value for '" + hyper.name +
                                     "'; give --set " + hyper.name + "=VALUE");
    values.push_back(given == options.hypers.end() ? hyper.default_value
                                                   : given->second);
  }
  for (const auto &[name, value] : options.hypers)
    if (!llvm::is_contained(names, name))
      return llvm::createStringError(
          llvm::Twine(info.graph) + " has no hyperparameter '" + name +
          "'; --set takes " + llvm::join(names, ", "));
  return values;
}

static std::vector<int64_t> getIntegers(const tdm_kernel_info &info,
                                        int64_t step, int64_t seed) {
  std::vector<int64_t> values;
  for (const tdm_integer_desc &integer : getIntegers(info))
    values.push_back(integer.kind == TDM_ROLE_STEP ? step : seed);
  return values;
}

namespace {
/// One kernel bound to one tensor.
class Runner {
public:
  Runner(const CompiledKernel &kernel, const RunOptions &options,
         llvm::raw_ostream &os)
      : info(*kernel.info), kernel(kernel), options(options), os(os),
        arrays(kernel, options) {}
  ~Runner() {
    tdm_plan_destroy(plan);
    tdm_kernel_destroy(handle);
  }

  llvm::Error run();

private:
  llvm::Error prepare();
  llvm::Error bind(int64_t step);
  llvm::Error launch(int64_t step);
  llvm::Error printMetrics();
  void printTable(const ArrayMap &before);
  llvm::Error write();

  const tdm_kernel_info &info;
  const CompiledKernel &kernel;
  const RunOptions &options;
  llvm::raw_ostream &os;
  RunArrays arrays;
  int64_t firstStep = 1;
  std::vector<double> hypers;
  std::vector<double> seconds;
  tdm_kernel *handle = nullptr;
  tdm_plan *plan = nullptr;
};
} // namespace

static llvm::Error check(tdm_status status) {
  if (status == TDM_OK)
    return llvm::Error::success();
  return llvm::createStringError(tdm_last_error());
}

llvm::Error Runner::prepare() {
  if (options.steps < 1)
    return llvm::createStringError("--steps must be at least 1, got " +
                                   llvm::Twine(options.steps));
  auto values = getHypers(info, options);
  if (!values)
    return values.takeError();
  hypers = std::move(*values);
  if (llvm::Error error = arrays.load())
    return error;
  firstStep = arrays.getFirstStep();
  auto created = createRuntimeKernel(kernel);
  if (!created)
    return created.takeError();
  handle = *created;
  return check(tdm_plan_create(handle, nullptr, 0, &plan));
}

llvm::Error Runner::bind(int64_t step) {
  std::vector<void *> pointers = arrays.getPointers(step);
  tdm_tensor tensor = {
      arrays.getRows(), arrays.getColumns(), options.first, options.key, 0,
      pointers.data()};
  return check(tdm_plan_update(plan, &tensor, 1));
}

llvm::Error Runner::launch(int64_t step) {
  if (llvm::Error error = bind(step))
    return error;
  int64_t number = firstStep + step;
  auto integers = getIntegers(info, number, options.seed);
  tdm_launch_info launched = {};
  launched.struct_size = sizeof(launched);
  auto start = std::chrono::steady_clock::now();
  if (llvm::Error error = check(tdm_plan_launch(
          plan, hypers.data(), integers.data(), 1, options.threads, &launched)))
    return error;
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  seconds.push_back(time.count());
  os << "step " << number << ": " << format("%.3f", time.count() * 1e3)
     << " ms";
  if (launched.flags & TDM_FLAG_NON_FINITE)
    os << ", a gradient is not finite";
  if (llvm::Error error = printMetrics())
    return error;
  os << "\n";
  return llvm::Error::success();
}

/// Prints the effective descent quality, which is 1 if the stored weights took
/// up the whole update.
llvm::Error Runner::printMetrics() {
  if (info.desc->workspace_doubles_per_chunk != 4)
    return llvm::Error::success();
  double sums[4];
  if (llvm::Error error =
          check(tdm_plan_metrics(plan, TDM_ALL_TENSORS, sums, 4)))
    return error;
  double quality = sums[1] == 0.0 ? 0.0 : sums[0] / sums[1];
  double lost = sums[3] == 0.0 ? 0.0 : sums[2] / sums[3];
  os << ", descent quality " << format("%.6f", quality) << ", lost updates "
     << format("%.2f%%", 100.0 * lost);
  return llvm::Error::success();
}

static int64_t countChanged(const Array &before, const Array &after) {
  int64_t size = before.getElementSize(), changed = 0;
  for (int64_t i = 0; i < before.getNumElements(); ++i)
    changed +=
        std::memcmp(&before.bytes[i * size], &after.bytes[i * size], size) != 0;
  return changed;
}

void Runner::printTable(const ArrayMap &before) {
  int64_t elements = arrays.getNumElements();
  os << "\n"
     << llvm::left_justify("plane", 24) << llvm::left_justify("type", 10)
     << llvm::right_justify("bytes", 14) << llvm::right_justify("changed", 14)
     << "\n";
  for (const auto &[name, array] : before)
    os << llvm::left_justify(name, 24)
       << llvm::left_justify(getName(array.type), 10)
       << llvm::right_justify(std::to_string(array.bytes.size()), 14)
       << llvm::right_justify(
              std::to_string(countChanged(array, arrays.get(name))), 14)
       << "\n";
  double best = *llvm::min_element(seconds);
  // A step reads and writes these bytes.
  double bytes = 0.0;
  for (const tdm_plane_desc &plane : getPlanes(info))
    bytes += double(isRead(plane) + isWritten(plane)) *
             getBitsPerElement(plane) / 8.0;
  os << "\n"
     << elements << " elements, " << options.steps << " steps, best "
     << format("%.3f ms, %.2f GB/s\n", best * 1e3,
               bytes * double(elements) / best * 1e-9);
}

llvm::Error Runner::write() {
  if (options.output.empty())
    return llvm::Error::success();
  // Only .safetensors files can hold metadata.
  ArrayMetadata metadata;
  if (llvm::StringRef(options.output).ends_with(".safetensors"))
    metadata = arrays.describeResults(firstStep + options.steps - 1);
  return writeArrays(options.output, arrays.getResults(), metadata);
}

llvm::Error Runner::run() {
  if (llvm::Error error = prepare())
    return error;
  printSignature(info, os);
  ArrayMap before = arrays.getResults();
  for (int64_t step = 0; step < options.steps; ++step)
    if (llvm::Error error = launch(step))
      return error;
  if (llvm::Error error = write())
    return error;
  printTable(before);
  return llvm::Error::success();
}

llvm::Error tandem::run(const CompiledKernel &kernel, const RunOptions &options,
                        llvm::raw_ostream &os) {
  return Runner(kernel, options, os).run();
}
