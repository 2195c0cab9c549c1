"""Splits a wheel with all of Tandem into two, with each file in one of them:
split_wheel.py WHEEL FOLDER [--platform TAG].

    tandem_runtime  the package, its extension and the runtime; for one Python
    tandem_mlir     the compiler, a library without Python; for every Python

The second one requires the first one of the same version. A wheel without the compiler becomes only
the first one. TAG is the platform that auditwheel determines, such as manylinux_2_35_x86_64.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import sys
import zipfile
from pathlib import Path

COMPILER = "tandem/libTandem.so"
#: The extras of pyproject.toml, which stay with the distribution described there.
EXTRA = re.compile(r"^(Provides-Extra: .*|Requires-Dist: .*extra == .*)\n", re.MULTILINE)


def metadata(text: str, name: str) -> str:
    """Derives the core metadata of one of the two wheels from that of the whole."""
    version = re.search(r"^Version: (.*)$", text, re.MULTILINE)[1]
    if name == "tandem-mlir":
        return re.sub(r"^(Requires-Python: .*)$",
                      rf"\1\nRequires-Dist: tandem-runtime=={version}", text,
                      count=1, flags=re.MULTILINE)
    text = text.replace("Name: tandem-mlir\n", "Name: tandem-runtime\n")
    text = re.sub(r"^Summary: .*$", "Summary: Runs kernels that Tandem has compiled",
                  text, count=1, flags=re.MULTILINE)
    return EXTRA.sub("", text)


def record(files: dict[str, bytes], place: str) -> bytes:
    """Returns the RECORD of a wheel; RECORD itself has no hash."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(data)])
    writer.writerow([place, "", ""])
    return lines.getvalue().encode()


def write(folder: Path, name: str, version: str, tag: str,
          contents: dict[str, bytes], about: dict[str, bytes]) -> Path:
    """Writes a wheel with `contents` and the metadata files `about`."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    files = dict(contents)
    for file, data in about.items():
        if file == "METADATA":
            data = metadata(data.decode(), name).encode()
        if file == "WHEEL":
            data = re.sub(rb"^Tag: .*\n", b"", data, flags=re.MULTILINE)
            data = data.rstrip(b"\n") + f"\nTag: {tag}\n\n".encode()
        files[f"{info}/{file}"] = data
    place = f"{info}/RECORD"
    files[place] = record(files, place)
    path = folder / f"{name.replace('-', '_')}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file, data in files.items():
            entry = zipfile.ZipInfo(file)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if ".so" in file else 0o100644) << 16
            archive.writestr(entry, data)
    return path


def split(wheel: Path, folder: Path, platform: str | None = None) -> list[Path]:
    """Writes the wheels and returns their paths.

    Raises:
        ValueError: `wheel` is not named like a wheel with a platform.
    """
    match = re.fullmatch(r"tandem_mlir-([^-]+)-(cp\d+)-(cp\d+)-(.+)\.whl", wheel.name)
    if not match:
        raise ValueError(f"{wheel.name} is not a wheel of tandem-mlir for one Python; give "
                         "what `pip wheel .` has made in the checkout")
    version, python, abi, own = match.groups()
    platform = platform or own
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()
                 if not name.endswith("/")}
    prefix = f"tandem_mlir-{version}.dist-info/"
    about = {name[len(prefix):]: data for name, data in files.items()
             if name.startswith(prefix) and not name.endswith("/RECORD")}
    contents = {name: data for name, data in files.items() if not name.startswith(prefix)}
    compiler = contents.pop(COMPILER, None)
    folder.mkdir(parents=True, exist_ok=True)
    wheels = [write(folder, "tandem-runtime", version, f"{python}-{abi}-{platform}",
                    contents, about)]
    if compiler is not None:
        wheels.append(write(folder, "tandem-mlir", version, f"py3-none-{platform}",
                            {COMPILER: compiler}, about))
    return wheels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--platform")
    options = parser.parse_args()
    try:
        wheels = split(options.wheel, options.folder, options.platform)
    except (ValueError, OSError) as error:
        sys.exit(f"split_wheel.py: {error}")
    print(*wheels, sep="\n")


if __name__ == "__main__":
    main()
