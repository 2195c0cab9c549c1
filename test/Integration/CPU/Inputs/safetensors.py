"""Cuts .safetensors files with the standard library alone.

safetensors.py only FILE NAME,... TARGET keeps some arrays, and the metadata.
"""

import json
import pathlib
import struct
import sys


def only(file, names, target):
    content = pathlib.Path(file).read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + size]), content[8 + size:]
    kept, parts, at = {"__metadata__": header["__metadata__"]}, [], 0
    # Wide elements first, as the format wants it.
    for name in sorted(names, key=lambda n: header[n]["data_offsets"]):
        begin, end = header[name]["data_offsets"]
        parts.append(data[begin:end])
        kept[name] = header[name] | {"data_offsets": [at, at + end - begin]}
        at += end - begin
    text = json.dumps(kept).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(target).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


_, command, file, names, target = sys.argv
assert command == "only"
only(file, names.split(","), target)
