//===- tandem-verify.cpp - Verification of compiled code ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a tool that runs compiled kernels on all or many of
// their operands and compares every bit with an independent computation.
//
//===----------------------------------------------------------------------===//

#include "Run.h"
#include "tandem/Support/ToolVersion.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <ctime>

using namespace tandem::verify;
namespace cl = llvm::cl;
namespace json = llvm::json;

namespace {
/// The tool's options. They are not global, because libLLVM registers some of
/// these names itself, and main must reset the parser first.
struct Options {
  cl::OptionCategory category{"tandem-verify options"};
  cl::list<std::string> parts{"part", cl::CommaSeparated, cl::cat(category),
                              cl::desc("The parts to verify")};
  cl::opt<bool> list{"list", cl::cat(category),
                     cl::desc("Print all parts, a JSON object a line")};
  cl::opt<bool> codes{"codes", cl::cat(category),
                      cl::desc("Print a hash of the code of the parts, or of "
                               "all, a JSON object a line")};
  cl::opt<std::string> isa{"isa", cl::init("native"), cl::cat(category),
                           cl::desc("The instruction set of the code")};
  cl::opt<uint64_t> begin{"begin", cl::init(0), cl::cat(category),
                          cl::desc("The first unit of the shard")};
  cl::opt<uint64_t> end{"end", cl::init(~uint64_t(0)), cl::cat(category),
                        cl::desc("The unit after the last; all by default")};
  cl::opt<uint64_t> stride{"stride", cl::init(1), cl::cat(category),
                           cl::desc("Take one unit in each such number")};
  cl::opt<unsigned> threads{"threads", cl::init(1), cl::cat(category),
                            cl::desc("Threads")};
  cl::opt<std::string> expect{
      "expect", cl::cat(category),
      cl::desc("Expect what another part does, which must fail")};
  cl::opt<uint64_t> flip{
      "flip", cl::cat(category),
      cl::desc("Flip a bit of the result of this case (65536 times the unit "
               "plus the place in it), which must fail")};
};
} // namespace

static Parts makeParts() {
  Parts parts;
  addOracleParts(parts);
  addPairParts(parts);
  addFmaParts(parts);
  addLemmaParts(parts);
  addConversionParts(parts);
  addPowerParts(parts);
  addFunctionParts(parts);
  addCodeParts(parts);
  addResidualParts(parts);
  addRoundedParts(parts);
  addMuLawParts(parts);
  addExpansionParts(parts);
  addPrecisionParts(parts);
  return parts;
}

static llvm::Expected<const Part *> find(const Parts &parts,
                                         llvm::StringRef name) {
  for (const auto &part : parts)
    if (part->name == name)
      return part.get();
  return llvm::createStringError("there is no part '" + name +
                                 "'; --list prints all");
}

static void printList(const Parts &parts) {
  for (const auto &part : parts)
    llvm::outs() << json::Value(
                        json::Object{{"part", part->name},
                                     {"description", part->description},
                                     {"units", part->units},
                                     {"compiled", !part->kernel.empty()},
                                     {"kernel", part->kernel}})
                 << "\n";
}

static llvm::Error printCode(const Part &part) {
  auto code = hashCode(part);
  if (!code)
    return code.takeError();
  llvm::outs() << json::Value(
                      json::Object{{"part", part.name}, {"code", *code}})
               << "\n";
  return llvm::Error::success();
}

static llvm::Error printCodes(const Options &options, const Parts &parts) {
  for (const auto &part : parts)
    if (options.parts.empty() || llvm::is_contained(options.parts, part->name))
      if (llvm::Error error = printCode(*part))
        return error;
  return llvm::Error::success();
}

static json::Object describe(const Findings &findings) {
  json::Object worst, counts;
  for (const auto &[name, found] : findings.worst)
    worst[name] = json::Object{
        {"value", found.value},
        {"bound", found.bound ? json::Value(*found.bound) : nullptr},
        {"at", found.at}};
  for (const auto &[name, count] : findings.counts)
    counts[name] = count;
  json::Object result{{"cases", findings.cases},
                      {"failures", findings.failures},
                      {"hash", llvm::formatv("{0:x-16}", findings.hash).str()},
                      {"worst", std::move(worst)},
                      {"counts", std::move(counts)}};
  if (findings.failures)
    result["first"] = findings.first;
  return result;
}

/// Returns whether two parts expect the same planes of their operands.
static bool haveSamePlanes(const std::vector<PlaneDecl> &a,
                           const std::vector<PlaneDecl> &b) {
  return llvm::equal(a, b, [](const PlaneDecl &x, const PlaneDecl &y) {
    return x.bytes == y.bytes && x.group == y.group;
  });
}

static llvm::Expected<const Part *>
findExpectation(const Parts &parts, const Part &part, llvm::StringRef name) {
  if (name.empty())
    return &part;
  auto expectation = find(parts, name);
  if (!expectation)
    return expectation;
  if (!haveSamePlanes((*expectation)->results, part.results) ||
      !haveSamePlanes((*expectation)->inputs, part.inputs))
    return llvm::createStringError("--expect '" + name +
                                   "' has other operands or results than '" +
                                   part.name + "'");
  return expectation;
}

/// Runs a part and prints a line. Returns whether all results were as expected.
static llvm::Expected<bool> runPart(const Options &options, const Parts &parts,
                                    const Part &part) {
  auto expectation = findExpectation(parts, part, options.expect);
  if (!expectation)
    return expectation.takeError();
  ShardOptions shard;
  shard.begin = options.begin;
  shard.end = std::min<uint64_t>(options.end, part.units);
  shard.stride = options.stride;
  shard.threads = options.threads;
  shard.isa = options.isa;
  shard.expectation = *expectation;
  if (options.flip.getNumOccurrences())
    shard.flip = options.flip;
  // This is the CPU time of all threads, to which other processes do not add.
  std::clock_t start = std::clock();
  auto findings = run(part, shard);
  if (!findings)
    return findings.takeError();
  json::Object line = describe(*findings);
  line["part"] = part.name;
  line["isa"] = part.kernel.empty() ? "" : options.isa.getValue();
  line["begin"] = shard.begin;
  line["end"] = shard.end;
  line["stride"] = shard.stride;
  line["seconds"] = double(std::clock() - start) / CLOCKS_PER_SEC;
  llvm::outs() << json::Value(std::move(line)) << "\n";
  return findings->failures == 0;
}

/// Runs the tool. Returns whether all results were as expected.
static llvm::Expected<bool> runTool(const Options &options) {
  if (options.stride == 0 || options.threads == 0)
    return llvm::createStringError("--stride and --threads are at least 1");
  Parts parts = makeParts();
  if (options.list) {
    printList(parts);
    return true;
  }
  if (options.codes) {
    if (llvm::Error error = printCodes(options, parts))
      return error;
    return true;
  }
  if (options.parts.empty())
    return llvm::createStringError("--part names what to verify; --list prints "
                                   "all");
  bool isVerified = true;
  for (const std::string &name : options.parts) {
    auto part = find(parts, name);
    if (!part)
      return part.takeError();
    auto result = runPart(options, parts, **part);
    if (!result)
      return result.takeError();
    isVerified &= *result;
  }
  return isVerified;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ResetCommandLineParser();
  tandem::setToolVersion();
  Options options;
  cl::ParseCommandLineOptions(argc, argv,
                              "Verify compiled kernels, bit by bit\n");
  auto isVerified = runTool(options);
  if (isVerified)
    return *isVerified ? 0 : 1;
  llvm::WithColor::error(llvm::errs(), "tandem-verify")
      << llvm::toString(isVerified.takeError()) << "\n";
  return 2;
}
