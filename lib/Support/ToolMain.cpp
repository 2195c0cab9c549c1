//===- ToolMain.cpp - Main functions of upstream's tools ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements how Tandem's tools call the main functions of MLIR's
// tools.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/ToolMain.h"
#include "tandem/Support/PendingFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/WithColor.h"
#include <string>

using namespace llvm;

namespace {
/// The output file that a command line names, as `-o FILE` or `-o=FILE`.
struct OutputArgument {
  OutputArgument(ArrayRef<char *> arguments);

  /// Returns whether the output is a regular file or a new one, not a device, a
  /// pipe or the standard output.
  bool isFile() const {
    sys::fs::file_status status;
    return !path.empty() && path != "-" &&
           (sys::fs::status(path, status) || sys::fs::is_regular_file(status));
  }

  /// The index of the argument that has the path, and what precedes the path in
  /// it.
  size_t index = 0;
  StringRef prefix, path;
};
} // namespace

OutputArgument::OutputArgument(ArrayRef<char *> arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    StringRef argument = arguments[i];
    if (argument == "--")
      return;
    StringRef name = argument.ltrim('-');
    size_t dashes = argument.size() - name.size();
    if (dashes < 1 || dashes > 2)
      continue;
    if (name == "o" && i + 1 < arguments.size()) {
      index = ++i;
      path = arguments[i];
    } else if (name.starts_with("o=")) {
      index = i;
      prefix = argument.take_front(dashes + 2);
      path = argument.drop_front(dashes + 2);
    }
  }
}

/// Returns a path next to `path` that no other file has.
static std::string getTemporaryPath(StringRef path) {
  SmallString<128> name(sys::path::parent_path(path));
  sys::path::append(name, ".tandem-" + Twine(sys::Process::getProcessId()) +
                              "-" + sys::path::filename(path));
  return std::string(name);
}

/// Returns whether LLVM gives an option to every tool. Their categories have no
/// public names.
static bool isOfAllTools(const cl::Option &option) {
  return any_of(option.Categories, [](const cl::OptionCategory *category) {
    return category->getName() == "Generic Options" ||
           category->getName() == "Color Options";
  });
}

void tandem::hideLibraryOptions() {
  for (auto &entry : cl::getRegisteredOptions())
    if (!isOfAllTools(*entry.second))
      entry.second->setHiddenFlag(cl::Hidden);
}

int tandem::runTool(int argc, char **argv,
                    function_ref<LogicalResult(int argc, char **argv)> main) {
  SmallVector<char *> arguments(argv, argv + argc);
  OutputArgument output(arguments);
  if (!output.isFile())
    return failed(main(argc, argv));
  std::string path = followLinks(output.path);
  std::string temporary = getTemporaryPath(path);
  std::string replaced = output.prefix.str() + temporary;
  arguments[output.index] = replaced.data();
  arguments.push_back(nullptr);
  if (failed(main(argc, arguments.data()))) {
    sys::fs::remove(temporary);
    return 1;
  }
  // No file was written if only diagnostics were asked for.
  if (!sys::fs::exists(temporary))
    return 0;
  std::error_code code = sys::fs::rename(temporary, path);
  if (!code)
    return 0;
  sys::fs::remove(temporary);
  WithColor::error() << "cannot write '" << output.path
                     << "': " << code.message() << "\n";
  return 1;
}
