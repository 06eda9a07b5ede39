"""The cost of a hostile file: its own size and 64 MB of memory, and a typed error. Each is read in a separate process."""

import gzip
import json
import pickle
import struct
import subprocess
import sys
import zipfile

import pytest

READ = """
import resource, sys, strata
read = strata._C._read_idx if sys.argv[1] == "idx" else strata.load
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read(sys.argv[2])
except (RuntimeError, OSError) as error:
    assert sys.argv[2] in str(error), error
else:
    sys.exit("it was read")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def idx(shape, data=b"", kind=8):
    return bytes([0, 0, kind, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data


def safetensors(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data


def entry(name, size):
    return json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()[1:-1]


def checkpoint(path, data):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", data)


def doubling():
    nested = ["x" * 100]
    for _ in range(50):
        nested = [nested, nested]
    return pickle.dumps(nested, 2)


IDX = {
    "100 GB in 16 bytes": idx((100_000, 1000, 1000)),
    "more than 2^64": idx((2**32 - 1,) * 4),
    "packed bomb behind a small claim": gzip.compress(idx((3,), bytes(300 << 20)), 1),
    "packed bomb behind a large false claim": gzip.compress(idx((310 << 20,), bytes(300 << 20)), 1),
    "truncated": idx((1000, 28, 28), bytes(1000)),
}
SAFETENSORS = {
    "header of 2^63": struct.pack("<Q", 2**63) + b"{}",
    "header past the end": struct.pack("<Q", 50_000_000) + b"{}",
    "depth bomb": safetensors(b"[" * 5_000_000),
    "depth bomb of objects": safetensors(b'{"a":' * 1_000_000),
    "a million tensors": safetensors(b"{" + b",".join(entry(str(i), 0) for i in range(1_000_000)) + b"}"),
    "a large shape": safetensors(b"{" + entry("w", 2**40) + b"}", b"1234"),
    "structure of a million values": safetensors(
        json.dumps({"__metadata__": {"strata.tree": "[" + "0," * 1_000_000 + "0]"}}).encode()
    ),
}
PICKLES = {
    "a list that doubles 50 times": doubling(),
    "five million lists": b"\x80\x02](" + b"]" * 5_000_000 + b"e.",
    "a memo of 2^31 entries": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "a storage of 2^60 bytes": b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu\x8a\x08"
    + struct.pack("<q", 2**58)
    + b"tQ.",
    "marks without end": b"(" * 5_000_000,
}


@pytest.mark.parametrize(
    "kind, name",
    [(k, n) for k, cases in (("idx", IDX), ("safetensors", SAFETENSORS), ("torch", PICKLES)) for n in cases],
)
def test_a_bad_file_costs_little(tmp_path, kind, name):
    path = tmp_path / "bad"
    if kind == "torch":
        checkpoint(path, PICKLES[name])
    else:
        path.write_bytes({"idx": IDX, "safetensors": SAFETENSORS}[kind][name])
    done = subprocess.run([sys.executable, "-c", READ, kind, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < path.stat().st_size + (64 << 20), f"{int(done.stdout) // 1024} MB"
