"""Cuts .safetensors files with only the standard library.

safetensors.py only FILE NAME,... TARGET keeps some arrays, and the metadata.
safetensors.py mark FILE KEY=VALUE TARGET changes an entry of the metadata; "KEY=" drops it.
"""

import json
import pathlib
import struct
import sys


def read(file):
    content = pathlib.Path(file).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + size]), content[8 + size:]


def write(header, data, target):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(target).write_bytes(struct.pack("<Q", len(text)) + text + data)


def mark(file, entry, target):
    header, data = read(file)
    key, value = entry.split("=")
    header["__metadata__"].pop(key, None)
    header["__metadata__"] |= {key: value} if value else {}
    write(header, data, target)


def only(file, names, target):
    header, data = read(file)
    kept, parts, at = {"__metadata__": header["__metadata__"]}, [], 0
    # The format requires that wide elements come first.
    for name in sorted(names, key=lambda n: header[n]["data_offsets"]):
        begin, end = header[name]["data_offsets"]
        parts.append(data[begin:end])
        kept[name] = header[name] | {"data_offsets": [at, at + end - begin]}
        at += end - begin
    write(kept, b"".join(parts), target)


_, command, file, argument, target = sys.argv
if command == "only":
    only(file, argument.split(","), target)
else:
    assert command == "mark"
    mark(file, argument, target)
