"""Checks of the source tree.

Usage: lint.py CHECK ROOT, where CHECK is one of

  tests    a lit test has RUN lines; its CHECK lines reach a FileCheck, its
           expected diagnostics a -verify-diagnostics
  sizes    no source file is longer than 800 lines (docs/generated and pages that
           say by which script they are generated excepted)
  format   C++ is as clang-format makes it
  hosts    the Python package holds no compiler: no MLIR text except in docstrings,
           and no regular expressions except over the names of Python's classes
  english  comments and pages have none of the phrases that technical English lacks

Prints a line for each fault; fails if there is any.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

ROOMS = ("benchmarks", "cmake", "docs", "examples", "include", "lib", "python",
         "runtime", "scripts", "test", "tools", "verification")
CODE = (".c", ".cpp", ".h")
TEXT = CODE + (".cmake", ".md", ".mlir", ".py", ".sh", ".td", ".test", ".txt")
LONGEST = 800

RUN = re.compile(r"^.*?\bRUN:(.*)$", re.MULTILINE)
DEFINE = re.compile(r"^.*?\b(?:RE)?DEFINE:(.*)$", re.MULTILINE)
CHECK = re.compile(r"\bCHECK(?:-[A-Z]+)*(?:-\d+)?:")
EXPECTED = re.compile(r"\bexpected-(?:error|warning|note|remark)(?:-re)?\b")

MLIR = re.compile(
    r"\bfunc\.func\b|\btandem\.(?:assign|forward|keep_outputs|kernel|role|strategy)\b"
    r"|#(?:mcf|scaled|tandem)\.\w+<")
#: Looks up modules of other libraries by the names of their classes.
MATCHERS = ("python/tandem/torch/nn/_candidates.py",)

#: Pages at the root of the tree whose English is checked, and the files in its folders.
#: The lint and its own tests are not: they spell out the faults.
PAGES = ("README.md", "CONTRIBUTING.md")
PROSE = TEXT + (".def", ".fbs")
#: Phrases that are right although a pattern below finds them.
#: The last two are names of faults in a record of runs.
SOUND = re.compile(r"\b(?:leaves?|left|let) (?:it |them )?alone\b|\bnot \w+ but for\b"
                   r"|\bthe element behind the|\bGPU gets another number than")
#: Where a word may end and the next one begin, also on the next line of a comment.
SPACE = r"\s+(?:(?:///?<?|#:?)\s+)?"


def phrase(pattern):
    """Compiles a pattern whose spaces may be line ends within a comment."""
    return re.compile(pattern.replace(" ", SPACE), re.IGNORECASE)


#: Phrases, and what to write in their place.
PHRASES = (
    (phrase(r"\bbehind (?:a|an|another|each|every|it|that|the|them|this|which)\b"),
     "write 'after' or 'following'"),
    (phrase(r"\bin front of\b"), "write 'before'"),
    (phrase(r"\bbut for\b"), "write 'except'"),
    (phrase(r"\b\w+ alone(?=[.,;:)])"), "write 'only' before what it restricts"),
    (phrase(r"\bas (?:it|they) stands?\b"), "write 'unchanged' or leave it out"),
    (phrase(r"\b(?:some|no)body(?:'s)?\b"), "say who: the caller, the user, another thread"),
    (phrase(r"\bso (?:many|much)\b"), "name the number, or write 'that many'"),
    (phrase(r"\b(?:that|which|what) (?:is|are) no (?!more|less|longer|larger|smaller|later)\w+"),
     "write 'is not a' or 'are not'"),
    (phrase(r"\bcomputed of\b"), "write 'computed from'"),
    (phrase(r"\banother \w+ than\b"), "write 'a different ... from' or 'other than'"),
    (phrase(r"\bhalf way\b"), "write 'halfway'"),
    (phrase(r"\bby turns\b"), "write 'alternately'"),
)
COMMENT = re.compile(r"\s*(?:///?<?|/\*+|#:?|r?\"\"\"|let summary = \")\s*(.*)")
#: The beginnings of texts without a subject, and of those in which a question stands for
#: one. A sentence that says what something is begins otherwise.
HEADLESS = re.compile(
    r"(?:of|that of|those of|the same of|what|who|whose|how|why|which|by which|as many)\b",
    re.IGNORECASE)


def find_files(root, suffixes):
    """Yields source files, except those that test the lint itself."""
    for room in ROOMS:
        for folder, folders, names in os.walk(root / room):
            folders[:] = sorted(name for name in folders
                                if not name.startswith((".", "__"))
                                and Path(folder, name) != root / "test/lint/Inputs")
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield Path(folder, name)


def check_test(text):
    """Yields the faults that would let a test pass without testing."""
    commands = " ".join(RUN.findall(text) + DEFINE.findall(text))
    if not RUN.search(text):
        yield "has no RUN line"
    elif CHECK.search(text) and "FileCheck" not in commands:
        yield "has CHECK lines, but no RUN line calls FileCheck"
    elif EXPECTED.search(text) and "-verify-diagnostics" not in commands:
        yield "expects diagnostics, but no RUN line has -verify-diagnostics"


def check_tests(root):
    for path in find_files(root, (".mlir", ".test")):
        if root / "test" in path.parents and "Inputs" not in path.relative_to(root).parts:
            for fault in check_test(path.read_text()):
                yield path, fault


def check_sizes(root):
    for path in find_files(root, TEXT):
        lines = path.read_text().splitlines()
        generated = (root / "docs/generated" in path.parents or path.suffix == ".md"
                     and any(line.startswith("Generated by `") for line in lines[:5]))
        if len(lines) > LONGEST and not generated:
            yield path, f"has {len(lines)} lines; {LONGEST} are allowed"


def check_format(root):
    files = list(find_files(root, CODE))
    run = subprocess.run(["clang-format", "--dry-run", *files], capture_output=True,
                         text=True, check=True)
    for path in files:
        if f"{path}:" in run.stderr:
            yield path, "is not as clang-format makes it"


def imports_re(node):
    """Returns whether a statement imports regular expressions."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "re"
    return isinstance(node, ast.Import) and any(name.name == "re" for name in node.names)


def get_docstrings(tree):
    """Returns the constants that are docstrings: expression statements."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def check_host(path, matches):
    """Yields the lines of a module that do a compiler's work."""
    tree = ast.parse(path.read_text())
    documents = get_docstrings(tree)
    for node in ast.walk(tree):
        if imports_re(node) and not matches:
            yield f"line {node.lineno} imports re; ask the compiler instead of its texts"
        if (isinstance(node, ast.Constant) and isinstance(node.value, str)
                and id(node) not in documents and MLIR.search(node.value)):
            yield f"line {node.lineno} has MLIR text; have the compiler build it"


def check_hosts(root):
    for path in find_files(root, (".py",)):
        if root / "python/tandem" in path.parents:
            for fault in check_host(path, str(path.relative_to(root)) in MATCHERS):
                yield path, fault


def find_headless(lines):
    """Yields the lines on which a comment begins without a subject, and its first sentence."""
    before = ""
    for number, line in enumerate(lines, 1):
        comment = COMMENT.match(line)
        text = comment.group(1) if comment else ""
        if HEADLESS.match(text) and not before:
            yield number, text.split(".")[0].rstrip('";')
        before = text


def check_prose(path, text):
    """Yields the lines of a text that a technical writer would write differently."""
    for pattern, advice in PHRASES:
        for found in pattern.finditer(text):
            if not SOUND.search(text[max(0, found.start() - 20):found.end()]):
                words = " ".join(re.sub(r"///?|#", " ", found.group()).split())
                yield text.count("\n", 0, found.start()) + 1, f"has '{words}'; {advice}"
    if path.suffix != ".md":
        for number, words in find_headless(text.splitlines()):
            yield number, f"begins '{words}'; say what is returned or held"


def check_english(root):
    for path in [*(root / page for page in PAGES), *find_files(root, PROSE)]:
        if path.exists() and not {root / "docs/generated", root / "test/lint"} & {*path.parents}:
            for number, fault in sorted(check_prose(path, path.read_text())):
                yield Path(f"{path}:{number}"), fault


CHECKS = {"tests": check_tests, "sizes": check_sizes, "format": check_format,
          "hosts": check_hosts, "english": check_english}


def main(check, root):
    root = Path(root)
    faults = list(CHECKS[check](root))
    for path, fault in faults:
        print(f"{path.relative_to(root)}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
