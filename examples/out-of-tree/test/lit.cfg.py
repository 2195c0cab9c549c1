# The lit configuration of this project's tests. Loaded by the lit.site.cfg.py
# that CMake writes into the build directory.

import os

import lit.formats

config.name = "my-tandem"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["strategies"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.my_tandem_obj_root, "test")

# This project's tools, the installed Tandem's, FileCheck.
config.environment["PATH"] = os.pathsep.join([
    os.path.join(config.my_tandem_obj_root, "bin"), config.tandem_tools_dir,
    config.llvm_tools_dir, os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = (
    "-enable-var-scope --allow-unused-prefixes=false")
config.substitutions.append(("%tandem_graphs", config.tandem_graphs_dir))
config.substitutions.append(
    ("%tandem_strategies", config.tandem_strategies_dir))
