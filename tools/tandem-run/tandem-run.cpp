//===- tandem-run.cpp - Run graphs on arrays ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-run, which compiles a graph under a strategy for
// the CPU and runs it on arrays from .npy and .safetensors files.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Run.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

using namespace mlir::tandem;
namespace cl = llvm::cl;

static cl::OptionCategory category("tandem-run options");

static cl::opt<std::string> graph(cl::Positional, cl::Required,
                                  cl::desc("<graph name or .mlir file>"),
                                  cl::cat(category));
static cl::opt<std::string> strategy("strategy", cl::Required,
                                     cl::desc("The strategy's name"),
                                     cl::cat(category));
static cl::list<std::string>
    path("strategy-path", cl::CommaSeparated, cl::cat(category),
         cl::desc("Directories searched for strategies before built-in ones"));
static cl::opt<std::string> isa("isa", cl::init("native"), cl::cat(category),
                                cl::desc("The instruction set of the code"));
static cl::opt<int64_t> width("width", cl::init(0), cl::cat(category),
                              cl::desc("Elements per step; 0 chooses"));
static cl::list<std::string>
    inputs("input", cl::CommaSeparated, cl::cat(category),
           cl::desc(".npy or .safetensors files, or directories of .npy "
                    "files, of arrays named as planes"));
static cl::opt<std::string>
    output("output", cl::cat(category),
           cl::desc("A .safetensors file or a directory for the results"));
static cl::list<std::string> settings("set", cl::cat(category),
                                      cl::value_desc("name=value"),
                                      cl::desc("A hyperparameter's value"));
static cl::opt<int64_t> steps("steps", cl::init(1), cl::cat(category),
                              cl::desc("The number of steps"));
static cl::opt<int64_t> firstStep("step", cl::init(1), cl::cat(category),
                                  cl::desc("The number of the first step"));
static cl::opt<int64_t> seed("seed", cl::init(0), cl::cat(category),
                             cl::desc("The seed of stochastic rounding"));
static cl::opt<int64_t> key("key", cl::init(0), cl::cat(category),
                            cl::desc("The tensor's random-number key"));
static cl::opt<int64_t>
    first("first", cl::init(0), cl::cat(category),
          cl::desc("The index of element 0 in the unsharded tensor"));
static cl::opt<int> threads("threads", cl::init(0), cl::cat(category),
                            cl::desc("Threads; 0 means one per core"));
static cl::opt<bool>
    initialize("initialize", cl::cat(category),
               cl::desc("Begin states that no input has at zero, and copies "
                        "of the param at its value"));
static cl::opt<bool> metrics("metrics", cl::cat(category),
                             cl::desc("Measure the descent quality"));
static cl::opt<bool> signatureOnly("print-signature", cl::cat(category),
                                   cl::desc("Print the arrays and scalars "
                                            "that a run takes, and stop"));

static llvm::Expected<std::map<std::string, double>> parseSettings() {
  std::map<std::string, double> values;
  for (llvm::StringRef setting : settings) {
    auto [name, text] = setting.split('=');
    double value;
    if (text.getAsDouble(value))
      return llvm::createStringError("--set " + setting +
                                     " is not written name=number");
    if (!values.try_emplace(name.str(), value).second)
      return llvm::createStringError("--set gives '" + name +
                                     "' twice; give it once");
  }
  return values;
}

static llvm::Error runTool() {
  auto text = loadGraph(graph);
  if (!text)
    return text.takeError();
  CompileOptions compileOptions;
  compileOptions.graph = *text;
  compileOptions.strategy = strategy;
  compileOptions.path.assign(path.begin(), path.end());
  compileOptions.isa = isa;
  compileOptions.width = width;
  compileOptions.metrics = metrics;
  auto kernel = compile(compileOptions);
  if (!kernel)
    return kernel.takeError();
  if (signatureOnly) {
    printSignature((*kernel)->signature, llvm::outs());
    return llvm::Error::success();
  }
  auto hypers = parseSettings();
  if (!hypers)
    return hypers.takeError();
  RunOptions options;
  options.inputs.assign(inputs.begin(), inputs.end());
  options.output = output;
  options.hypers = *hypers;
  options.steps = steps;
  options.firstStep = firstStep;
  options.seed = seed;
  options.key = key;
  options.first = first;
  options.threads = threads;
  options.initialize = initialize;
  return run(**kernel, options, llvm::outs());
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Compile an optimizer graph and run it on arrays\n");
  llvm::Error error = runTool();
  if (!error)
    return 0;
  llvm::WithColor::error(llvm::errs(), "tandem-run")
      << llvm::toString(std::move(error)) << "\n";
  return 1;
}
