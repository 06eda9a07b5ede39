"""Writes the seeds of the fuzz targets: small valid files of every kind. Findings are added by hand.

usage: make_corpus.py [FOLDER]
"""

import collections
import gzip
import io
import json
import pathlib
import pickle
import struct
import sys
import zipfile

FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus")


def put(name, data):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def idx(kind, shape, data):
    return bytes([0, 0, kind, len(shape)]) + b"".join(struct.pack(">I", n) for n in shape) + data


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def archive(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members.items():
            z.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


for kind, size in {8: 1, 9: 1, 11: 2, 12: 4, 13: 4, 14: 8}.items():
    put(f"idx/type{kind}", idx(kind, (2, 3), bytes(range(6 * size))))
put("idx/rank3", idx(8, (2, 2, 1), b"abcd"))
put("idx/empty", idx(8, (0, 28), b""))
put("idx/packed", gzip.compress(idx(8, (3, 2, 2), bytes(12)), mtime=0))
put("idx/two_members", gzip.compress(idx(8, (3,), b""), mtime=0) + gzip.compress(b"abc", mtime=0))

entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
put("safetensors/one", safetensors({"w": entry}, bytes(8)))
put("safetensors/none", safetensors(b"{}      "))
kinds = "BOOL U8 I8 I16 I32 I64 F8_E4M3 F8_E5M2 F16 BF16 F32 F64".split()
sizes, header, at = [1, 1, 1, 2, 4, 8, 1, 1, 2, 2, 4, 8], {"__metadata__": {"format": "pt"}}, 0
for kind, size in zip(kinds, sizes, strict=True):
    header[kind] = {"dtype": kind, "shape": [1], "data_offsets": [at, at + size]}
    at += size
put("safetensors/all", safetensors(header, bytes(at)))
tree = (
    '{"dict":[["a",{"tensor":"w"}],[0,[1,2.5,true,null,{"tuple":["x"]}]],["d",{"dtype":"int8"}],["f",{"float":"nan"}]]}'
)
put("safetensors/tree", safetensors({"__metadata__": {"strata.tree": tree}, "w": entry}, bytes(8)))

GLOBAL = b"c%s\n%s\n"
rebuild, storage = GLOBAL % (b"torch._utils", b"_rebuild_tensor_v2"), GLOBAL % (b"torch", b"FloatStorage")
ordered = GLOBAL % (b"collections", b"OrderedDict")
text = lambda s: b"X" + struct.pack("<I", len(s)) + s  # noqa: E731
tensor = (
    rebuild
    + b"(("
    + text(b"storage")
    + storage
    + text(b"0")
    + text(b"cpu")
    + b"K\x06tQK\x00K\x02K\x03\x86K\x03K\x01\x86\x89"
    + ordered
    + b")Rt"
    + b"R"
)
v3 = (
    (GLOBAL % (b"torch._utils", b"_rebuild_tensor_v3")) + b"((" + text(b"storage") + (GLOBAL % (b"torch.storage", b"UntypedStorage"))
    + text(b"0") + text(b"cpu") + b"K\x18tQK\x00K\x02\x85K\x01\x85\x89}" + (GLOBAL % (b"torch", b"float8_e4m3fn")) + b"t" + b"R"
)  # fmt: skip
parameter = (GLOBAL % (b"torch._utils", b"_rebuild_parameter")) + tensor + b"\x88}\x87R"
state = b"\x80\x02}q\x00(" + text(b"w") + tensor + text(b"v") + v3 + text(b"p") + parameter + b"u."
put("torch/pickle_state", state)
put(
    "torch/pickle_ordered",
    b"\x80\x02" + ordered + b")Rq\x00" + text(b"w") + tensor + b"s}" + text(b"_metadata") + b"}sb.",
)
put(
    "torch/pickle_size",
    b"\x80\x02"
    + (GLOBAL % (b"torch", b"Size"))
    + b"K\x01K\x02\x86\x85R"
    + (GLOBAL % (b"torch", b"device"))
    + text(b"cpu")
    + b"\x85R\x86.",
)
plain = {"a": [1, -1, 300, 70000, 2**40, 1.5, True, None, "é" * 3], "b": (1,), "c": {"d": (1, 2, 3, 4)}, 5: [[]]}
for protocol in (2, 4):
    put(f"torch/pickle_plain{protocol}", pickle.dumps(plain, protocol))
put("torch/pickle_call", pickle.dumps(collections.Counter("a"), 2))
members = {
    "archive/data.pkl": state,
    "archive/byteorder": b"little",
    "archive/data/0": bytes(24),
    "archive/version": b"3\n",
}
put("torch/archive.pt", archive(members))
put("torch/archive_plain.pt", archive({"x/data.pkl": pickle.dumps(plain, 2)}))

for name, arguments in {
    "plain": "train",
    "all": "train --model cnn --data mnist --device cpu --epochs 3 --batch-size 64 --lr 1e-3 --schedule constant --seed 7 "
    "--out results --limit 100 --threads 2 --quiet --json --no-download",
    "resume": "train --resume --out=nowhere",
    "zero": "train --batch-size 0",
    "negative": "train --batch-size -1",
    "huge": "train --batch-size 1e30 --epochs 99999999999999999999",
    "nan": "train --lr nan",
    "infinite": "train --lr=inf --device cuda",
    "unknown": "train --no-such-option -- x",
    "help": "train --help",
}.items():
    put(f"arguments/{name}", arguments.replace(" ", "\n").encode())
put("arguments/nul", b"train\n--out\na\0b\n--device\n\xff\xfe")
