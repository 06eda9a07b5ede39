"""PyTorch's .pt files: read without running their pickles; files that would run code, damaged and hostile ones are rejected.

The files are made here with Python's own pickle and zipfile, from stand-ins for the classes of torch."""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import pytest
import strata


def stand_in(module, name, **members):
    """A class that pickles under another module's name."""
    cls = type(name, (), members)
    cls.__module__, cls.__qualname__ = module, name
    return cls


class Fake:
    """The modules torch, torch._utils and torch.storage, while a pickle is made."""

    def __init__(self):
        self.modules = {name: types.ModuleType(name) for name in ("torch", "torch._utils", "torch.storage")}
        torch, utils = self.modules["torch"], self.modules["torch._utils"]
        for name in "Bool Byte Char Short Int Long Half BFloat16 Float Double".split():
            setattr(torch, name + "Storage", stand_in("torch", name + "Storage"))
        torch.storage = self.modules["torch.storage"]
        torch.storage.UntypedStorage = stand_in("torch.storage", "UntypedStorage")
        torch.Size, torch.device = stand_in("torch", "Size"), stand_in("torch", "device")
        for name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"):
            setattr(utils, name, stand_in("torch._utils", name))

    def __enter__(self):
        self.old = {name: sys.modules.get(name) for name in self.modules}
        sys.modules.update(self.modules)
        return self.modules["torch"], self.modules["torch._utils"]

    def __exit__(self, *_):
        for name, module in self.old.items():
            sys.modules.pop(name) if module is None else sys.modules.__setitem__(name, module)


STORAGES = {
    "?": "Bool",
    "B": "Byte",
    "b": "Char",
    "h": "Short",
    "i": "Int",
    "l": "Long",
    "e": "Half",
    "f": "Float",
    "d": "Double",
}


class Call:
    """Pickles as a call of a function with arguments."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Storage:
    def __init__(self, key, kind, numel):
        self.id = "storage", kind, key, "cpu", numel


def tensor(torch, utils, array, members, *, key=None, offset=0, shape=None, strides=None, requires_grad=False):
    """What torch.save makes of a tensor over `array`, whose bytes become a member of the archive."""
    key = key or str(len(members))
    members[key] = array.tobytes()
    kind = getattr(torch, STORAGES[array.dtype.char] + "Storage")
    shape = array.shape if shape is None else shape
    if strides is None:
        strides = tuple(s // array.itemsize for s in np.empty(shape, array.dtype).strides)
    storage = Storage(key, kind, array.size)
    return Call(
        utils._rebuild_tensor_v2,
        storage,
        offset,
        tuple(shape),
        tuple(strides),
        requires_grad,
        collections.OrderedDict(),
    )


def dumps(obj, protocol=2):
    out = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, o):
            return o.id if isinstance(o, Storage) else None

    Pickler(out, protocol).dump(obj)
    return out.getvalue()


def archive(path, data, members=(), *, prefix="archive/", compression=zipfile.ZIP_STORED, extra=()):
    with zipfile.ZipFile(path, "w", compression) as z:
        z.writestr(prefix + "data.pkl", data)
        z.writestr(prefix + "byteorder", "little")
        for key, value in dict(members).items():
            z.writestr(f"{prefix}data/{key}", value)
        for name, value in extra:
            z.writestr(prefix + name, value)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pt"


def refused(path, text):
    with pytest.raises(RuntimeError) as error:
        strata.load(path)
    assert text in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_nested_checkpoint_is_read(path, protocol):
    members, arrays = {}, {c: np.arange(6).reshape(2, 3).astype(c) for c in STORAGES}
    with Fake() as (torch, utils):
        state = collections.OrderedDict((c, tensor(torch, utils, a, members)) for c, a in arrays.items())
        state._metadata = collections.OrderedDict({"": {"version": 1}})
        parameter = tensor(torch, utils, np.ones(2, np.float32), members)
        obj = {
            "model": state,
            "optim": {"state": {0: {"step": 3}}, "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0]}]},
            "weight": Call(utils._rebuild_parameter, parameter, True, collections.OrderedDict()),
            "size": Call(torch.Size, (2, 3)),
            "device": Call(torch.device, "cpu"),
            "numbers": [
                0,
                255,
                65535,
                -1,
                2**31 - 1,
                -(2**31),
                2**40,
                -(2**40),
                2**63 - 1,
                -(2**63),
                1.5,
                float("-inf"),
                True,
                None,
            ],
            "long text": "é" * 300,
        }
        archive(path, dumps(obj, protocol), members)
    loaded = strata.load(path)
    assert list(loaded) == list(obj) and loaded["numbers"] == obj["numbers"] and loaded["long text"] == obj["long text"]
    assert loaded["optim"] == obj["optim"] and loaded["size"] == (2, 3) and loaded["device"] == "cpu"
    for c, a in arrays.items():
        assert loaded["model"][c].numpy().dtype == a.dtype and np.array_equal(loaded["model"][c].numpy(), a)
    assert loaded["weight"].requires_grad and loaded["weight"].tolist() == [1, 1]


def test_views_keep_their_layout_and_share_memory(path):
    members, base = {}, np.arange(12, dtype=np.float32)
    with Fake() as (torch, utils):
        whole = tensor(torch, utils, base, members, key="0")
        turned = tensor(torch, utils, base, members, key="0", offset=1, shape=(3, 2), strides=(1, 4))
        empty = tensor(torch, utils, base[:0], members, shape=(2**40, 0, 3), strides=(1, 1, 1))
        archive(path, dumps({"whole": whole, "turned": turned, "empty": empty}), members)
    loaded = strata.load(path)
    assert np.array_equal(loaded["turned"].numpy(), np.lib.stride_tricks.as_strided(base[1:], (3, 2), (4, 16)))
    assert loaded["turned"].stride() == (1, 4) and loaded["empty"].numel() == 0
    before = path.read_bytes()
    loaded["turned"][0, 0] = 50
    assert loaded["whole"][1] == 50 and path.read_bytes() == before


def test_float8_and_bfloat16_are_read(path):
    with Fake() as (torch, utils):
        for name in ("float8_e4m3fn", "bfloat16"):
            setattr(torch, name, stand_in("torch", name))
        storage = Storage("0", torch.storage.UntypedStorage, 2)
        f8 = Call(
            utils._rebuild_tensor_v3, storage, 0, (2,), (1,), False, collections.OrderedDict(), torch.float8_e4m3fn
        )
        half = Call(
            utils._rebuild_tensor_v2,
            Storage("1", torch.BFloat16Storage, 1),
            0,
            (1,),
            (1,),
            False,
            collections.OrderedDict(),
        )
        archive(path, dumps([f8, half, torch.bfloat16]), {"0": b"\x38\xb8", "1": b"\xc0\x3f"})
    f8, half, dtype = strata.load(path)
    assert f8.dtype == strata.float8_e4m3fn and f8.float().tolist() == [1, -1]
    assert half.dtype == strata.bfloat16 == dtype and half.item() == 1.5


@pytest.mark.parametrize(
    "function",
    ["os.system", "builtins.eval", "builtins.getattr", "subprocess.Popen", "collections.Counter", "builtins.set"],
)
@pytest.mark.parametrize("protocol", [2, 4])
def test_what_would_run_code_is_refused_by_name(path, function, protocol, tmp_path):
    module, name = function.rsplit(".", 1)
    witness = tmp_path / "ran"
    archive(path, dumps({"a": Call(getattr(sys.modules[module], name), f"touch {witness}")}, protocol))
    with pytest.raises(RuntimeError, match=rf"asks for \S*{name}, which would run code; pickles are never executed"):
        strata.load(path)
    assert not witness.exists()


class Custom:
    pass


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_instances_of_classes_are_refused(path, protocol):
    archive(path, dumps(Custom(), protocol))
    refused(path, "Custom" if protocol > 1 else "not ")


def test_bare_pickles_are_refused(path):
    for protocol in (2, 4):
        path.write_bytes(pickle.dumps({"a": 1, "padding": "x" * 20}, protocol))
        refused(path, "is a bare pickle (PyTorch's format before version 1.6")


MARK, DICT, TUPLE, STOP = b"(", b"}", b")", b"."
CASES = {
    "it ends too early": b"\x80\x02}q",
    "its stack is empty": b"\x80\x020.",
    "values are left over": b"NN.",
    "protocol is newer": b"\x80\x06N.",
    "there is no mark": b"t.",
    "stack is empty": b"N(a.",
    "appends to something that is not a list": b"}Na.",
    "not a dict": b"]NNs.",
    "key without a value": b"}(Nu.",
    "memo entry that was not written": b"h\x05.",
    "more than 64 bits": b"\x8a\x09" + b"\x01" * 9 + b".",
    "opcode 0xff": b"\xff",
    "calls something that is not a function": b"N)R.",
    "without a tuple of arguments": b"ccollections\nOrderedDict\nNR.",
    "gets 3 arguments": b"ccollections\nOrderedDict\n(NNNtR.",
    "it holds a function": b"ctorch\nSize\n.",
    "persistent id is not a storage": b"NQ.",
    "a line has no end": b"cos",
    "a registered extension": b"\x82\x01.",
    "nested deeper than 100": b"]" * 200 + b"a" * 199 + b".",
    "__setstate__ of an object": b"]}b.",
    "more than 200,000 values": b"N" * 300_000 + b".",
    "__main__.X": b"(i__main__\nX\n.",
}


@pytest.mark.parametrize("text", CASES)
def test_damaged_pickles_are_refused(path, text):
    archive(path, CASES[text])
    refused(path, text)


def test_a_list_that_holds_itself_is_refused(path):
    loop = []
    loop.append(loop)
    archive(path, dumps(loop))
    refused(path, "nested deeper than 100")


def test_pickles_that_grow_without_end_are_refused_within_memory(path):
    bomb = ["x" * 1000]
    for _ in range(60):
        bomb = [bomb, bomb]
    archive(path, dumps(bomb))
    refused(path, "more memory than the file and 48 MB")
    archive(path, b"]r\xff\xff\xff\x7f.")  # a memo of 2^31 entries
    refused(path, "more memory")
    # one list of pairs, made into an OrderedDict again and again
    pairs = b"](" + b"NN\x86" * 20000 + b"eq\x00"
    archive(path, pairs + b"ccollections\nOrderedDict\nq\x01" + b"h\x01h\x00\x85R0" * 20000 + b".")
    refused(path, "more memory")


def test_bad_archives_are_refused(path, tmp_path):
    members = {"0": b"\0" * 8}
    with Fake() as (torch, utils):
        good = dumps({"w": tensor(torch, utils, np.zeros(2, np.float32), {})})
    archive(path, good, members)
    whole = path.read_bytes()
    assert strata.load(path)["w"].tolist() == [0, 0]
    for cut in range(4, len(whole), 7):
        path.write_bytes(whole[:cut])
        with pytest.raises(RuntimeError, match="truncated|damaged"):
            strata.load(path)

    at = whole.index(b"archive/data/0") + len("archive/data/0")
    path.write_bytes(whole[:at] + b"\1" + whole[at + 1 :])
    refused(path, "the checksum of member 'archive/data/0' is")
    archive(path, good, {"0": b"\0" * 7})
    refused(path, "has 7 bytes, its storage needs 8")
    archive(path, good)
    refused(path, "has no member 'archive/data/0'")
    with pytest.warns(UserWarning, match="Duplicate"):
        archive(path, good, members, extra=[("data/0", b"\0" * 8)])
    refused(path, "has two members 'archive/data/0'")
    archive(path, good, members, compression=zipfile.ZIP_DEFLATED)
    refused(path, "is compressed")
    archive(path, good, {"0": b"\0" * (100 << 20)}, compression=zipfile.ZIP_DEFLATED)
    refused(path, "is compressed")
    archive(path, good, members, extra=[("other/data.pkl", b"N.")])
    refused(path, "holds several checkpoints")
    archive(path, good, members, extra=[("constants.pkl", b"N.")])
    refused(path, "TorchScript")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("hello.txt", "hello")
    refused(path, "without data.pkl")
    with zipfile.ZipFile(path, "w"):
        pass
    refused(path, "without data.pkl")


def test_members_that_overlap_are_refused(path):
    archive(path, b"N.", {"0": b"abcd"})
    data = bytearray(path.read_bytes())
    entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\1\2"]
    first, last = entries[0], entries[-1]
    name = slice(first + 46, first + 46 + struct.unpack_from("<H", data, first + 28)[0])
    (
        struct.pack_into("<I", data, first + 20, 60),
        struct.pack_into("<I", data, first + 24, 60),
    )  # data.pkl reaches into the next
    path.write_bytes(data)
    refused(path, "overlap")
    assert last != first and data[name] == b"archive/data.pkl"


def test_big_endian_files_are_refused(path):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a/data.pkl", b"N.")
        z.writestr("a/byteorder", "big")
    refused(path, "big-endian")


def test_zip64_directories_are_read(path):
    archive(path, dumps({"a": 5}))
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    count, size, offset = struct.unpack_from("<HII", data, end + 10)
    record = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, end, 1)
    path.write_bytes(
        data[:end]
        + record
        + locator
        + b"PK\5\6"
        + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    )
    assert strata.load(path) == {"a": 5}
    path.write_bytes(data[:end] + record + b"PK\6\7" + struct.pack("<IQI", 0, 2**63, 1) + data[end:])
    refused(path, "is outside the file")


@pytest.mark.parametrize(
    "change, text",
    [
        (dict(offset=-1), "outside its storage"),
        (dict(offset=9), "outside its storage"),
        (dict(shape=(11,)), "outside its storage"),
        (dict(shape=(2, 2), strides=(2**62, 2**62)), "outside its storage"),
        (dict(shape=(2**32, 2**32), strides=(0, 0)), "more elements than can be addressed"),
        (dict(shape=(-1,)), "negative"),
        (dict(shape=(1,), strides=(-1,)), "negative"),
        (dict(shape=(1, 1), strides=(1,)), "2 sizes and 1 strides"),
        (dict(shape=(1,) * 65, strides=(1,) * 65), "65 sizes"),
    ],
)
def test_tensors_outside_their_storage_are_refused(path, change, text):
    members = {}
    change = {"shape": (2,), "strides": (1,), **change}
    with Fake() as (torch, utils):
        archive(path, dumps([tensor(torch, utils, np.zeros(9, np.float32), members, **change)]), members)
    with pytest.raises(RuntimeError, match=text):
        strata.load(path)


def test_bools_other_than_0_and_1_are_refused(path):
    members = {}
    with Fake() as (torch, utils):
        data = dumps([tensor(torch, utils, np.zeros(2, np.bool_), members)])
    archive(path, data, {"0": b"\1\2"})
    refused(path, "bytes other than 0 and 1")
