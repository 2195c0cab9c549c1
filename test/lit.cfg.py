# The lit configuration of Tandem's tests, loaded by the lit.site.cfg.py that CMake writes into the
# build directory.

import os
import platform
import shutil

import lit.formats

config.name = "Tandem"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
# Input files are not tests; pytest and GoogleTest run their own tests.
config.excludes = ["Inputs", "Python", "Unit"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tandem_obj_root, "test")

# A variable that is not `$global` ends with its CHECK-LABEL, and every given prefix must occur: a
# misspelled one would check nothing.
config.environment["FILECHECK_OPTS"] = (
    "-enable-var-scope --allow-unused-prefixes=false")
config.environment["PATH"] = os.pathsep.join([
    config.tandem_tools_dir, config.llvm_tools_dir, os.environ["PATH"]])
# Tests compile what they test.
config.environment["TANDEM_CACHE_DIR"] = ""
# TANDEM_MUTANT selects the current fault of test/Mutations/mutate.py.
for variable in ("PYTHONPATH", "TANDEM_MUTANT"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]


def opt_command():
    """Returns the command that replaces a word matching the first pattern in RUN lines."""
    return os.path.join(config.tandem_tools_dir, "tandem-opt")


# Match `tandem-opt` as a command, not as part of a path or of another name.
word = r"(?<![-\w./])tandem-opt(?![-\w.])"
if os.environ.get("TANDEM_VERIFY_ROUNDTRIP"):
    # Each module read is also printed as text and as bytecode and read again. Runs that expect
    # diagnostics do not change.
    config.substitutions.append(
        (word + r"(?![^|;&]*-verify-diagnostics)",
         opt_command() + " --verify-roundtrip"))
config.substitutions.append((word, opt_command()))
config.substitutions.append(("%python", f'"{config.python_executable}"'))
config.substitutions.append(("%tandem_src_root", config.tandem_src_root))
# The instruction set of every processor of this machine's architecture.
baselines = {"aarch64": "aarch64", "arm64": "aarch64"}
config.substitutions.append(("%baseline", baselines.get(platform.machine(), "x86-64")))
config.substitutions.append(("%capi", os.path.join(config.test_exec_root, "CAPI")))

for tool in ("mlir-translate", "llc", "clang-format"):
    if shutil.which(tool, path=config.environment["PATH"]):
        config.available_features.add(tool)
