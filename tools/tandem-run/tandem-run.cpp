//===- tandem-run.cpp - Run graphs on arrays ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-run. It compiles a graph with a strategy for the
// CPU, or loads a package, and runs the kernel on arrays from .npy and
// .safetensors files.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Library.h"
#include "tandem/Support/ToolMain.h"
#include "tandem/Support/ToolVersion.h"
#include "tandem/Target/Package.h"
#include "tandem/Target/Run.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

using namespace tandem;
namespace cl = llvm::cl;

namespace {
/// The tool's options. They are not global, because libLLVM registers some of
/// these names itself, and main must reset the parser first.
struct Options {
  cl::OptionCategory category{"tandem-run options"};
  cl::opt<std::string> graph{
      cl::Positional, cl::cat(category),
      cl::desc("<graph name, .mlir file or .tdm package>")};
  cl::opt<std::string> strategy{
      "strategy", cl::cat(category),
      cl::desc("The strategy's name; none for a kernel, which has storages")};
  cl::opt<std::string> function{
      "function", cl::cat(category),
      cl::desc("The graph's name, of several such as a layer's two passes")};
  cl::list<std::string> path{
      "strategy-path", cl::CommaSeparated, cl::cat(category),
      cl::desc("Directories searched for strategies before built-in ones")};
  cl::opt<std::string> kernel{
      "kernel", cl::cat(category),
      cl::desc("The kernel's name, in a package of several")};
  cl::opt<std::string> isa{"isa", cl::init("native"), cl::cat(category),
                           cl::desc("The instruction set of the code")};
  cl::opt<int64_t> width{"width", cl::init(0), cl::cat(category),
                         cl::desc("Elements per step; 0 chooses")};
  cl::list<std::string> inputs{
      "input", cl::CommaSeparated, cl::cat(category),
      cl::desc(".npy or .safetensors files, or directories of .npy files, of "
               "arrays named as planes")};
  cl::opt<std::string> output{
      "output", cl::cat(category),
      cl::desc("A .safetensors file or a directory for the results")};
  cl::list<std::string> settings{"set", cl::value_desc("name=value"),
                                 cl::cat(category),
                                 cl::desc("A hyperparameter's value")};
  cl::opt<int64_t> steps{"steps", cl::init(1), cl::cat(category),
                         cl::desc("The number of steps")};
  cl::opt<int64_t> firstStep{
      "step", cl::cat(category),
      cl::desc("The number of the first step; without it, the one after the "
               "step that the input's states have seen, else 1")};
  cl::opt<int64_t> seed{"seed", cl::init(0), cl::cat(category),
                        cl::desc("The seed of stochastic rounding")};
  cl::opt<int64_t> key{"key", cl::init(0), cl::cat(category),
                       cl::desc("The tensor's random-number key")};
  cl::opt<int64_t> first{
      "first", cl::init(0), cl::cat(category),
      cl::desc("The index of element 0 in the unsharded tensor")};
  cl::opt<int> threads{"threads", cl::init(0), cl::cat(category),
                       cl::desc("Threads; 0 means one per core")};
  cl::opt<bool> initialize{
      "initialize", cl::cat(category),
      cl::desc("Begin states that no input has at zero, and "
               "copies of the param at its value")};
  cl::opt<bool> weightAverage{
      "weight-average", cl::cat(category),
      cl::desc("Average the weights over steps, with --set ema_decay=D, as "
               "the state \"ema\"")};
  cl::opt<bool> weightOperand{
      "weight-operand", cl::cat(category),
      cl::desc("Write the operand of the next forward pass, made from the "
               "weights, to the output \"operand\"")};
  cl::opt<bool> metrics{"metrics", cl::cat(category),
                        cl::desc("Measure the descent quality")};
  cl::opt<bool> flags{"flags", cl::cat(category),
                      cl::desc("Report gradients that are not finite")};
  cl::opt<bool> signatureOnly{
      "print-signature", cl::cat(category),
      cl::desc("Print the arrays and scalars that a run takes, and stop")};
  cl::opt<bool> listGraphs{"list-graphs", cl::cat(category),
                           cl::desc("Print the library's graphs, and stop")};
  cl::opt<bool> listLayers{"list-layers", cl::cat(category),
                           cl::desc("Print the library's layers, and stop")};
  cl::opt<bool> listStrategies{
      "list-strategies", cl::cat(category),
      cl::desc("Print the library's strategies for graphs, and stop")};
  cl::opt<bool> listRecipes{
      "list-recipes", cl::cat(category),
      cl::desc("Print the library's strategies for layers, and stop")};

  /// Prints the parts of the library that the options name, and returns whether
  /// there are any.
  bool printLists(llvm::raw_ostream &os) const;

  llvm::Expected<std::unique_ptr<CompiledKernel>> getKernel() const;
  CompileOptions getCompileOptions() const;
  llvm::Expected<RunOptions> getRunOptions() const;
};
} // namespace

CompileOptions Options::getCompileOptions() const {
  CompileOptions result;
  result.strategy = strategy;
  result.function = function;
  result.path.assign(path.begin(), path.end());
  result.isa = isa;
  result.width = width;
  result.weightAverage = weightAverage;
  result.weightOperand = weightOperand;
  result.metrics = metrics;
  result.flags = flags;
  return result;
}

llvm::Expected<std::unique_ptr<CompiledKernel>> Options::getKernel() const {
  if (llvm::StringRef(graph).ends_with(".tdm")) {
    const cl::Option *compilerOptions[] = {
        &strategy, &function,      std::addressof(path),
        &width,    &weightAverage, &weightOperand,
        &metrics,  &flags};
    for (const cl::Option *option : compilerOptions)
      if (option->getNumOccurrences())
        return llvm::createStringError(
            "--" + option->ArgStr + " is for graphs, and package '" + graph +
            "' is compiled already; leave it out, or run the graph");
    return loadKernel(graph, kernel, "cpu", isa);
  }
  if (kernel.getNumOccurrences())
    return llvm::createStringError("--kernel is for packages, and '" + graph +
                                   "' is none; leave it out");
  auto text = loadGraph(graph);
  if (!text)
    return text.takeError();
  CompileOptions compileOptions = getCompileOptions();
  compileOptions.graph = std::move(*text);
  return compile(compileOptions);
}

llvm::Expected<RunOptions> Options::getRunOptions() const {
  RunOptions result;
  for (llvm::StringRef setting : settings) {
    auto [name, text] = setting.split('=');
    double value;
    if (text.empty() || !llvm::to_float(text, value))
      return llvm::createStringError("--set " + setting +
                                     " is not written name=number");
    if (!result.hypers.try_emplace(name.str(), value).second)
      return llvm::createStringError("--set gives '" + name +
                                     "' twice; give it once");
  }
  result.inputs.assign(inputs.begin(), inputs.end());
  if (llvm::is_contained(result.inputs, ""))
    return llvm::createStringError(
        "--input has an empty name; give .npy or .safetensors files, or "
        "directories of .npy files, with commas between them");
  result.output = output;
  if (output.getNumOccurrences() && output.empty())
    return llvm::createStringError("--output has an empty name; give a "
                                   ".safetensors file or a directory");
  result.steps = steps;
  if (firstStep.getNumOccurrences())
    result.firstStep = firstStep.getValue();
  result.seed = seed;
  result.key = key;
  result.first = first;
  result.threads = threads;
  result.initialize = initialize;
  return result;
}

bool Options::printLists(llvm::raw_ostream &os) const {
  llvm::SmallVector<llvm::ArrayRef<LibraryFile>> wanted;
  if (listGraphs)
    wanted.push_back(getBuiltinGraphs());
  if (listLayers)
    wanted.push_back(getBuiltinLayers());
  if (listStrategies)
    wanted.push_back(getBuiltinStrategies());
  if (listRecipes)
    wanted.push_back(getBuiltinRecipes());
  for (llvm::ArrayRef<LibraryFile> files : wanted)
    for (const LibraryFile &file : files)
      os << llvm::left_justify(file.name, 24) << " " << summarize(file) << "\n";
  return !wanted.empty();
}

static llvm::Error runTool(const Options &options) {
  if (options.printLists(llvm::outs()))
    return llvm::Error::success();
  if (options.graph.empty())
    return llvm::createStringError(
        "there is no graph to run; give the name of one that --list-graphs "
        "prints, an .mlir file or a .tdm package");
  auto kernel = options.getKernel();
  if (!kernel)
    return kernel.takeError();
  if (options.signatureOnly) {
    printSignature(*(*kernel)->info, llvm::outs());
    return llvm::Error::success();
  }
  auto runOptions = options.getRunOptions();
  if (!runOptions)
    return runOptions.takeError();
  return run(**kernel, *runOptions, llvm::outs());
}

TANDEM_MAIN(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ResetCommandLineParser();
  tandem::setToolVersion();
  Options options;
  cl::ParseCommandLineOptions(
      argc, argv, "Compile an optimizer graph and run it on arrays\n");
  llvm::Error error = runTool(options);
  if (!error)
    return 0;
  llvm::WithColor::error(llvm::errs(), "tandem-run")
      << llvm::toString(std::move(error)) << "\n";
  return 1;
}
