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


def ptx(name, body, declarations=""):
    registers = (
        ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<12>; .reg .b64 %d<6>; .reg .f32 %f<8>; .reg .f64 %g<4>; "
        "ld.param.u64 %d0, [a]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 16; add.u64 %d1, %d0, %d1;"
    )
    put(
        f"ptx/{name}",
        f".version 8.3\n.target sm_80\n.address_size 64\n{declarations}\n"
        f".visible .entry k(.param .u64 a) {{\n{registers}\n{body}\nret;\n}}\n".encode(),
    )


ptx("vector", "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d1]; fma.rn.f32 %f0, %f1, %f2, %f3; st.global.f32 [%d1], %f0;")
ptx(
    "loop",
    "mov.u32 %r1, 0; again: add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, %r0; @%p0 bra again; st.global.u32 [%d1+4], %r1;",
)
ptx(
    "shared",
    ".shared .align 4 .b8 s[256]; mov.u32 %r1, s; mad.lo.u32 %r1, %r0, 4, %r1; st.shared.u32 [%r1], %r0; bar.sync 0;\n"
    "ld.shared.u32 %r2, [s+8]; atom.shared.add.u32 %r3, [s], %r2; red.global.add.f32 [%d0], 0f3F800000;",
)
ptx(
    "warp",
    "shfl.sync.bfly.b32 %r1|%p0, %r0, 1, 31, -1; vote.sync.ballot.b32 %r2, %p0, -1; redux.sync.add.s32 %r3, %r0, -1;",
)
ptx(
    "calls",
    "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r0; call (y), f, (x); ld.param.b32 %r1, [y]; }\n"
    "t: .branchtargets one, two; and.b32 %r1, %r1, 1; brx.idx %r1, t; one: add.u32 %r1, %r1, 1; two: .loc 1 2 3\n",
    ".const .align 4 .b32 table[2] = {1, 2};\n.func (.param .b32 r) f(.param .b32 q) { .reg .b32 %v; ld.param.b32 %v, [q]; "
    "mul.lo.u32 %v, %v, 3; st.param.b32 [r], %v; ret; }",
)
ptx(
    "numbers",
    "cvt.rn.f16.f32 %h0, %f0; cvt.rzi.s64.f64 %d2, 0d400921FB54442D18; cvt.rn.bf16x2.f32 %r1, %f0, %f1; div.s32 %r2, %r1, %r0;\n"
    "prmt.b32 %r3, %r1, %r2, 0x3210; bfe.s32 %r4, %r3, 3, 7; lop3.b32 %r5, %r1, %r2, %r3, 0xe8; ex2.approx.ftz.f32 %f1, %f0;",
)
ptx(
    "matrix",
    ".shared .align 16 .b8 s[2048]; mov.u32 %r1, s; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r2, %r3}, [%r1];\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r2, %r3}, {%r4}, {%f0, %f1, %f2, %f3};\n"
    "cp.async.cg.shared.global [%r1], [%d1], 16; cp.async.wait_all;",
)

# ONNX models by the package of that name; the bytes depend on its version.
import numpy  # noqa: E402

import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def model(nodes, weights=(), **more):
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3])] for n in "xy"]
    graph = helper.make_graph(nodes, "g", *ports, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more).SerializeToString()


def weight(kind, count, **fields):
    return onnx.TensorProto(name=f"w{kind}", data_type=kind, dims=[count], **fields)


numbers = numpy_helper.from_array(numpy.ones((3, 3), "float32"), "w")
put("onnx/product", model([helper.make_node("MatMul", ["x", "w"], ["y"])], [numbers]))
branch = helper.make_graph(
    [helper.make_node("Relu", ["x"], ["r"])], "b", [], [helper.make_tensor_value_info("r", 1, None)]
)
condition = numpy_helper.from_array(numpy.array(True), "c")
put("onnx/branches", model([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [condition]))
body = helper.make_function(
    "f", "F", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 18)]
)
put("onnx/function", model([helper.make_node("F", ["x"], ["y"], domain="f")], functions=[body]))
kinds = [
    weight(kind, 2, raw_data=bytes(2 * size))
    for kind, size in ((1, 4), (2, 1), (7, 8), (9, 1), (10, 2), (11, 8), (15, 16))
]
kinds += [weight(1, 2, float_data=[1, 2]), weight(6, 2, int32_data=[1, -2]), weight(7, 2, int64_data=[1, -2])]
kinds += [weight(22, 3, raw_data=bytes(2)), weight(25, 5, int32_data=[1, 2]), weight(8, 1, string_data=[b"text"])]
for i, t in enumerate(kinds):
    t.name = f"w{i}"
put("onnx/weights", model([helper.make_node("Relu", ["x"], ["y"])], kinds))
outside = weight(1, 4, data_location=TensorProto.EXTERNAL)
outside.external_data.add(key="location", value="../w.bin")
put("onnx/external", model([helper.make_node("Relu", ["x"], ["y"])], [outside]))
put("onnx/own", model([helper.make_node("Own", ["x"], ["y"], domain="f")]))
