"""Lowers every graph of the library under every strategy to both targets.

Usage: compile_library.py SHARD/SHARDS SOURCE_ROOT TANDEM_OPT [OPTION...]. Takes every SHARDS-th
strategy, starting with number SHARD (from 1). Each run of the tool compiles all graphs under one
strategy. Fails if a run fails, or leaves a graph without its functions or with operations of
dialects other than LLVM's.
"""

import re
import subprocess
import sys
from pathlib import Path

TARGETS = {"cpu": "-tandem-to-cpu=width=8", "nvvm": "-tandem-to-nvvm"}
FOREIGN = re.compile(r"^ *(?:%\S+ = )?\"?((?:tandem|mcf|arith|math|scf|cf|vector)\.\w+)",
                     re.MULTILINE)


def lower(tool, graphs, strategy, passes):
    """Returns the output for all graphs, or an error."""
    command = [*tool, "-split-input-file", f"-tandem-to-kernel=strategy={strategy}",
               passes]
    run = subprocess.run(command, input="\n// -----\n".join(graphs.values()),
                         capture_output=True, text=True)
    return run.stdout, "" if run.returncode == 0 else run.stderr[:2000]


def find_faults(names, output):
    """Yields the faults of lowered graphs."""
    for name in names:
        for symbol in (f"@tandem_{name}(", f"@tandem_{name}_prologue("):
            if output.count(f"llvm.func {symbol}") != 1:
                yield f"no function {symbol}"
    for operation in sorted(set(FOREIGN.findall(output))):
        yield f"{operation} is left"


def main(part, root, *tool):
    shard, shards = map(int, part.split("/"))
    library = Path(root) / "lib"
    graphs = {path.stem: path.read_text()
              for path in sorted((library / "Graphs").glob("*.mlir"))}
    strategies = [path.stem for path in sorted((library / "Strategies").glob("*.mlir"))]
    if not graphs or not strategies:
        print(f"no graphs or no strategies in {library}")
        return 1
    failed = 0
    for strategy in strategies[shard - 1::shards]:
        for target, passes in TARGETS.items():
            output, error = lower(tool, graphs, strategy, passes)
            faults = [error] if error else list(find_faults(graphs, output))
            failed += bool(faults)
            print(f"{strategy}, {target}: {'; '.join(faults) or 'good'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
