//===- FuzzCompiler.cpp - Fuzzing of the compiler -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-fuzz, which gives randomly changed texts to the
// parser and the verifiers, to random pass pipelines, and to the compiler as a
// library. It reports crashes, hangs, texts that do not print as they were
// read, and failures without a diagnostic.
//
//===----------------------------------------------------------------------===//

#include "Isolated.h"
#include "TextMutator.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllPasses.h"
#include "tandem/Support/Library.h"
#include "tandem/Support/ParseModule.h"
#include "tandem/Support/ToolVersion.h"
#include "tandem/Target/Compiler.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::fuzz;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

static constexpr StringRef marker = "// fuzz: ";

/// A context, and whether an error was reported in it.
struct Session {
  Session() : context(registry(), MLIRContext::Threading::DISABLED) {
    context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
      hasError |= diagnostic.getSeverity() == DiagnosticSeverity::Error;
    });
  }

  static const DialectRegistry &registry() {
    static const DialectRegistry registry = [] {
      DialectRegistry result;
      registerAllDialects(result);
      return result;
    }();
    return registry;
  }

  MLIRContext context;
  bool hasError = false;
};

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

namespace {
struct Outcome {
  /// Whether the text was accepted, rather than refused with a message.
  bool isAccepted = false;
  /// A description of the fault, or empty.
  std::string fault;
};
} // namespace

static Outcome accept() { return {true, ""}; }
static Outcome refuse(bool hasMessage) {
  return {false, hasMessage ? "" : "failure without a diagnostic"};
}
static Outcome blame(const Twine &fault) { return {false, fault.str()}; }

/// Parses a text. If it is valid, it must print, parse again and print the
/// same.
static Outcome tryParser(StringRef text) {
  Session session;
  auto module = parseSourceString<ModuleOp>(text, &session.context);
  if (!module)
    return refuse(session.hasError);
  std::string printed = print(*module);
  auto again = parseSourceString<ModuleOp>(printed, &session.context);
  if (!again)
    return blame("what was printed cannot be read");
  return print(*again) == printed
             ? accept()
             : blame("what was printed is read as another");
}

static Outcome tryPipeline(StringRef text, StringRef pipeline) {
  Session session;
  auto module = parseSourceString<ModuleOp>(text, &session.context);
  if (!module)
    return refuse(session.hasError);
  PassManager manager = PassManager::on<ModuleOp>(&session.context);
  if (failed(parsePassPipeline(pipeline, manager, llvm::nulls())))
    return blame("pipeline '" + pipeline + "' is not valid");
  return succeeded(manager.run(*module)) ? accept() : refuse(session.hasError);
}

static Outcome tryCompiler(StringRef text, StringRef recipe) {
  CompileOptions options;
  options.graph = text.str();
  auto [target, strategy] = recipe.split(' ');
  options.target = target.str();
  options.strategy = strategy.str();
  auto kernel = compile(options);
  return kernel ? accept() : refuse(!toString(kernel.takeError()).empty());
}

/// Tries a text on the target that its first line names.
static Outcome tryText(StringRef text) {
  StringRef line = text.take_front(text.find('\n'));
  if (!line.consume_front(marker))
    return blame("the text does not begin with '" + marker + "'");
  // MLIR's parser would end the process on such a text.
  if (findMalformedText(text))
    return Outcome();
  auto [what, rest] = line.split(' ');
  if (what == "parse")
    return tryParser(text);
  if (what == "pipeline")
    return tryPipeline(text, rest);
  if (what == "compile")
    return tryCompiler(text, rest);
  return blame("a text is for parse, pipeline or compile, not for '" + what +
               "'");
}

//===----------------------------------------------------------------------===//
// Random texts
//===----------------------------------------------------------------------===//

static std::string chooseStrategy(Random &random) {
  return random.choose(getBuiltinStrategies()).name.str();
}

static std::string chooseFormats(Random &random) {
  static const char *const lists[] = {"bf16,f16,f8E4M3FN,f8E5M2",
                                      "f8E4M3FN,f8E5M2",
                                      "bf16",
                                      "f16",
                                      "f8E5M2",
                                      "f64"};
  return random.choose(lists);
}

static std::string chooseWidth(Random &random) {
  static const char *const widths[] = {"1",  "2",  "4", "8", "16",
                                       "32", "64", "3", "0", "-8"};
  return random.choose(widths);
}

static std::string onKernels(const std::string &pass) {
  return "tandem.kernel(" + pass + ")";
}

static std::string onSteps(const std::string &pass) {
  return "tandem.step(" + pass + ")";
}

/// Returns the passes in pipeline order, with random options.
static std::vector<std::string> listPasses(Random &random) {
  std::string emulate =
      "tandem-emulate-floats{formats=" + chooseFormats(random) +
      " half-conversions=" + (random.oneIn(2) ? "true" : "false") + "}";
  static const char *const chips[] = {"sm_90", "sm_80", "sm_70", "nonsense"};
  std::vector<std::string> passes = {
      "func.func(tandem-recognize-updates)",
      "tandem-apply-strategy{strategy=" + chooseStrategy(random) + "}",
      "tandem-form-kernel",
      onKernels("tandem-add-metrics"),
      onKernels("tandem-apply-policy"),
      onKernels("tandem-lower-storage"),
      onKernels("tandem-check-gradients"),
      "convert-mcf-to-arith",
      "convert-scaled-to-arith",
      "tandem-simplify",
      "cse",
      "tandem-analyze-ranges",
      "tandem-split-phases",
      onSteps(emulate),
      "convert-float-codes-to-arith{formats=" + chooseFormats(random) + "}",
      onSteps("tandem-tabulate"),
      onSteps("tandem-widen{width=" + chooseWidth(random) + "}"),
      std::string("convert-float-codes-to-nvvm{chip=") + random.choose(chips) +
          "}",
      "convert-float-codes-to-arith",
  };
  passes.push_back(random.oneIn(2) ? "convert-tandem-to-cpu"
                                   : "convert-tandem-to-nvvm");
  return passes;
}

/// Returns a valid pipeline, or one with passes omitted, swapped or repeated.
static std::string makePipeline(Random &random) {
  if (random.oneIn(4))
    return "tandem-to-kernel{strategy=" + chooseStrategy(random) +
           (random.oneIn(4) ? " metrics=true" : "") +
           (random.oneIn(4) ? " flags=true" : "") + "}," +
           (random.oneIn(2) ? "tandem-to-cpu" : "tandem-to-nvvm") +
           "{width=" + chooseWidth(random) + "}";
  std::vector<std::string> passes = listPasses(random);
  size_t faults = random.below(4);
  for (size_t i = 0; i < faults; ++i) {
    size_t place = random.below(passes.size());
    if (random.oneIn(3))
      std::swap(passes[place], random.oneIn(2)
                                   ? passes.back()
                                   : passes[random.below(passes.size())]);
    else if (random.oneIn(2))
      passes.insert(passes.begin() + place, passes[place]);
    else
      passes.erase(passes.begin() + place);
  }
  return llvm::join(passes, ",");
}

static std::string makeRecipe(StringRef what, Random &random) {
  static const char *const targets[] = {"sm_90", "sm_80", "sm_75", "cpu"};
  if (what == "pipeline")
    return "pipeline " + makePipeline(random);
  if (what == "compile")
    return "compile " + std::string(random.choose(targets)) + " " +
           chooseStrategy(random);
  return "parse";
}

//===----------------------------------------------------------------------===//
// Initial texts
//===----------------------------------------------------------------------===//

/// Adds the parts of a file between lines of "// -----".
static void addParts(StringRef path, std::vector<std::string> &texts) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return;
  SmallVector<StringRef> parts;
  (*buffer)->getBuffer().split(parts, "// -----");
  for (StringRef part : parts)
    if (part.size() < 20000)
      texts.push_back(part.str());
}

static std::vector<std::string>
readTexts(const cl::list<std::string> &folders) {
  std::vector<std::string> files, texts;
  for (const std::string &folder : folders) {
    std::error_code code;
    llvm::sys::fs::recursive_directory_iterator file(folder, code), end;
    for (; !code && file != end; file.increment(code))
      if (llvm::sys::path::extension(file->path()) == ".mlir")
        files.push_back(file->path());
  }
  llvm::sort(files);
  for (const std::string &file : files)
    addParts(file, texts);
  return texts;
}

/// Keeps only texts that reach late passes: those with a kernel or a graph.
static std::vector<std::string> chooseTexts(std::vector<std::string> texts,
                                            StringRef what) {
  if (what != "parse")
    llvm::erase_if(texts, [](StringRef text) {
      return !text.contains("tandem.role") && !text.contains("tandem.kernel") &&
             !text.contains("tandem.step");
    });
  return texts;
}

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

namespace {
struct Options {
  cl::opt<std::string> target{cl::Positional, cl::Required,
                              cl::desc("<parse, pipeline, compile or replay>")};
  cl::list<std::string> files{cl::Positional, cl::desc("<texts to replay>")};
  cl::list<std::string> texts{
      "texts", cl::CommaSeparated,
      cl::desc("Directories of .mlir files to begin with")};
  cl::opt<double> seconds{"seconds", cl::init(10), cl::desc("How long")};
  cl::opt<uint64_t> count{"count", cl::init(UINT64_MAX),
                          cl::desc("How many cases at most")};
  cl::opt<uint64_t> first{"first", cl::init(0),
                          cl::desc("The number of the first case")};
  cl::opt<unsigned> changes{"changes", cl::init(4),
                            cl::desc("Changes of a text at most")};
  cl::opt<std::string> findings{"findings", cl::init("."),
                                cl::desc("The directory for what is found")};
};
} // namespace

static void save(StringRef directory, const Finding &finding) {
  llvm::SHA256 hash;
  hash.update(finding.text);
  std::array<uint8_t, 32> digest = hash.final();
  std::string name =
      llvm::toHex(llvm::ArrayRef(digest).take_front(6), /*LowerCase=*/true) +
      ".mlir";
  SmallString<128> path(directory);
  std::error_code code = llvm::sys::fs::create_directories(directory);
  llvm::sys::path::append(path, name);
  llvm::raw_fd_ostream os(path, code);
  os << finding.text;
  llvm::outs() << path << ": " << finding.what << "\n";
  llvm::outs().flush();
}

static int replay(const Options &options) {
  int status = 0;
  for (const std::string &file : options.files) {
    auto buffer = llvm::MemoryBuffer::getFile(file);
    if (!buffer) {
      llvm::errs() << file << ": " << buffer.getError().message() << "\n";
      return 2;
    }
    std::string fault = tryText((*buffer)->getBuffer()).fault;
    if (!fault.empty()) {
      llvm::outs() << file << ": " << fault << "\n";
      status = 1;
    }
  }
  return status;
}

static int runTarget(const Options &options) {
  std::vector<std::string> texts =
      chooseTexts(readTexts(options.texts), options.target);
  if (texts.empty()) {
    llvm::errs() << "tandem-fuzz: there are no texts for '" << options.target
                 << "' to begin with; give --texts=DIRECTORY\n";
    return 2;
  }
  TextMutator mutator(std::move(texts));
  bool isFine = true;
  Counts counts = runIsolated(
      options.first, options.count, {options.seconds},
      [&](uint64_t number, Case &shared) {
        Random random(number * 0x9E3779B97F4A7C15u + options.target.size());
        std::string recipe = makeRecipe(options.target, random);
        std::string text = marker.str() + recipe + "\n" +
                           mutator.next(random, options.changes);
        shared.begin(text);
        Outcome outcome = tryText(text);
        if (outcome.isAccepted)
          shared.accept();
        return outcome.fault;
      },
      [&](const Finding &finding) {
        isFine = false;
        save(options.findings, finding);
      });
  if (counts.isBroken) {
    llvm::errs() << "tandem-fuzz: no process for the case after " << counts.done
                 << " others; free memory, or lower the load\n";
    return 2;
  }
  llvm::outs() << options.target << ": " << counts.done << " cases, "
               << counts.accepted << " accepted, "
               << (isFine ? "nothing found" : "see above") << "\n";
  return isFine ? 0 : 1;
}

int main(int argc, char **argv) {
  cl::ResetCommandLineParser();
  setToolVersion();
  Options options;
  cl::ParseCommandLineOptions(argc, argv, "Fuzzes the compiler\n");
  registerAllPasses();
  if (options.target == "replay")
    return replay(options);
  if (!llvm::is_contained({"parse", "pipeline", "compile"}, options.target)) {
    llvm::errs() << "tandem-fuzz: the target is parse, pipeline, compile or "
                    "replay, not '"
                 << options.target << "'\n";
    return 2;
  }
  return runTarget(options);
}
