"""Writes and prints .npy files with only the standard library.

npy.py write DIR NAME:TYPE=VALUE,... creates DIR/NAME.npy with f32, f64 or bf16 values (bf16 as
16-bit integers). Slashes separate the rows of a matrix.
npy.py print FILE... prints names and values, 8-bit ones as integers.
"""

import os
import pathlib
import struct
import sys

FORMATS = {"f32": ("<f4", "f"), "f64": ("<f8", "d"), "bf16": ("<u2", "H")}


def encode(kind, text):
    """Returns the bytes of one value. A bf16 value must be exactly representable."""
    value = float(text)
    if kind != "bf16":
        return struct.pack("<" + FORMATS[kind][1], value)
    bits = struct.pack("<f", value)
    assert bits[:2] == b"\0\0", f"{text} is not bf16"
    return bits[2:]


def write(directory, arrays):
    os.makedirs(directory, exist_ok=True)
    for array in arrays:
        head, values = array.split("=")
        name, kind = head.split(":")
        rows = [row.split(",") for row in values.removesuffix("/").split("/")]
        data = b"".join(encode(kind, text) for row in rows for text in row)
        shape = f"{len(rows)}, " if "/" in values else ""
        header = (f"{{'descr': '{FORMATS[kind][0]}', 'fortran_order': False, "
                  f"'shape': ({shape}{len(rows[0])},), }}")
        header += " " * (-(11 + len(header)) % 64) + "\n"
        path = pathlib.Path(directory, name + ".npy")
        path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) +
                         header.encode() + data)


def show(file):
    content = pathlib.Path(file).read_bytes()
    (size,) = struct.unpack("<H", content[8:10])
    data = content[10 + size:]
    if b"<u2" in content[:10 + size]:
        data = b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2))
    is_codes = b"|u1" in content[:10 + size]
    values = data if is_codes else struct.unpack(f"<{len(data) // 4}f", data)
    print(pathlib.Path(file).stem + ":", " ".join(map(repr, values)))


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3:])
else:
    for file in sys.argv[2:]:
        show(file)
