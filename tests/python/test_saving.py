"""save and load: round trips, the format as read by others, and that writes are atomic."""

import collections
import io
import json
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pytest
import strata
from strata import safetensors

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def parse(path):
    """An independent reader of the format: header and data."""
    data = path.read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + n]), data[8 + n :]


def same(a, b):
    if isinstance(a, strata.Tensor):
        return (
            isinstance(b, strata.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and strata.equal(a.float(), b.float())
        )
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return (
            isinstance(b, (list, tuple))
            and isinstance(a, tuple) == isinstance(b, tuple)
            and len(a) == len(b)
            and all(map(same, a, b))
        )
    return type(a) is type(b) and (a == b or a != a and b != b)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_files_are_what_the_format_says(path):
    tensors = {name: strata.arange(6.0).reshape(2, 3).to(getattr(strata, name)).t() for name in DTYPES}
    tensors["empty"], tensors["scalar"] = strata.zeros(0, 4), strata.tensor(2.5)
    safetensors.save_file(tensors, path, metadata={"format": "pt"})
    header, data = parse(path)
    assert header.pop("__metadata__") == {"format": "pt"} and list(header) == list(tensors)
    assert (path.stat().st_size - len(data)) % 8 == 0
    for name, t in tensors.items():
        begin, end = header[name]["data_offsets"]
        assert header[name]["dtype"] == DTYPES.get(name, "F32") and header[name]["shape"] == list(t.shape)
        assert begin % t.element_size() == 0 and end - begin == t.numel() * t.element_size()
        if name in (
            "float64",
            "float32",
            "float16",
            "int64",
            "int32",
            "int16",
            "int8",
            "uint8",
            "bool",
            "empty",
            "scalar",
        ):
            assert data[begin:end] == t.contiguous().numpy().tobytes()
    loaded = safetensors.load_file(path)
    assert same(loaded, tensors)
    with safetensors.safe_open(path, framework="strata") as f:
        assert f.keys() == list(tensors) and f.metadata() == {"format": "pt"}
        assert f.get_slice("int64")[1:].shape == (2, 2)
        with pytest.raises(safetensors.SafetensorError, match="no tensor 'x'"):
            f.get_tensor("x")


def test_files_of_others_are_read(path):
    array = np.arange(5, dtype=np.float32)
    header = json.dumps(
        {
            "a": {"shape": [5], "data_offsets": [1, 21], "dtype": "F32"},
            "b": {"dtype": "BOOL", "shape": [], "data_offsets": [0, 1]},
        }
    )
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + b"\1" + array.tobytes())
    loaded = strata.load(path)
    assert np.array_equal(loaded["a"].numpy(), array) and loaded["b"].item() is True


def test_nested_objects_come_back_as_they_were(path):
    state = {
        "model": collections.OrderedDict(weight=strata.ones(2, 2), bias=strata.zeros(2)),
        "optim": {"state": {0: {"step": strata.tensor(3.0), "exp_avg": strata.ones(3)}, 1: {}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1], "fused": None}]},
        "model.weight": strata.zeros(1),  # a name that the path of another tensor has too
        "epoch": 3, "loss": [1.5, float("nan"), float("inf"), -float("inf"), 1e-310, 0.1], "text": 'é"\\\n\0', "flag": True,
        "dtype": strata.bfloat16, "empty": {}, "list": [], "tuple": (), "big": -(2**63), "parameter": strata.nn.Parameter(strata.ones(1)), 2.5: "key",
    }  # fmt: skip
    strata.save(state, path)
    assert same(strata.load(path), {**state, "model": dict(state["model"]), "parameter": strata.ones(1)})
    assert set(parse(path)[0]) >= {"model.weight", "model.weight#2", "optim.state.0.step"}
    for simple in (strata.ones(3), [strata.ones(1), strata.zeros(2)], 5, "text", None, {"a": 1}):
        strata.save(simple, path)
        assert same(strata.load(path), simple)


def test_numbers_of_numpy_are_saved_as_numbers(path):
    strata.save({"best": np.int64(3), "loss": np.float32(0.5), "ok": np.bool_(True)}, path)
    assert strata.load(path) == {"best": 3, "loss": 0.5, "ok": True}


def test_streams_work_like_paths(path):
    buffer = io.BytesIO()
    strata.save({"a": strata.arange(3), "n": 1}, buffer)
    buffer.seek(0)
    assert same(strata.load(buffer), {"a": strata.arange(3), "n": 1})
    assert same(safetensors.load(safetensors.save({"a": strata.ones(2)})), {"a": strata.ones(2)})
    strata.save({"a": 1}, str(path))
    strata.save({"a": 1}, os.fsencode(path))
    assert strata.load(path) == {"a": 1} == strata.load(str(path), map_location="cpu")


class Thing:
    pass


def test_what_cannot_be_saved_is_named(path):
    with pytest.raises(TypeError, match=r"cannot save an object of type Thing at \[a\]\[1\]; .*state_dict"):
        strata.save({"a": [1, Thing()]}, path, format="safetensors")
    with pytest.raises(TypeError, match="numpy.ndarray at the top; .*strata.tensor"):
        strata.save(np.ones(2), path, format="safetensors")
    with pytest.raises(TypeError, match="is of type tuple; keys are strings or numbers"):
        strata.save({(1, 2): 3}, path, format="safetensors")
    with pytest.raises(ValueError, match="more than 64 bits"):
        strata.save({"n": 2**63}, path)
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="does it hold itself"):
        strata.save(loop, path)
    with pytest.raises(UnicodeEncodeError):
        strata.save({"\udc80": 1}, path)
    with pytest.raises(TypeError, match="dict of names to tensors"):
        safetensors.save_file({"a": 1}, path)
    with pytest.raises(TypeError, match="metadata is a dict of strings"):
        safetensors.save_file({}, path, metadata={"a": 1})
    with pytest.raises(TypeError, match="expected str, bytes or os.PathLike"):
        strata.save({}, 5)
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        strata.load(path, map_location="mps")
    assert os.listdir(path.parent) == []


def test_structure_that_was_tampered_with_is_refused(path):
    for text, found in {
        '{"tensor":"b"}': "names tensor 'b', which is not in the file", "[": "does not describe a tree", '{"dict":[[1]]}': "not a pair",
        '{"dict":5}': "unknown object 'dict'", '{"a":1,"b":2}': "more than one key", "{}": "no key", "[1] 2": "does not describe", "1e999": "does not",
        "18446744073709551615": "64 bits", "[" * 1000 + "]" * 1000: "too deeply", "[" + "0," * 600_000 + "0]": "more than 500000 values", '{"float":"x"}': "unknown object 'float'",
    }.items():  # fmt: skip
        safetensors.save_file({"a": strata.ones(1)}, path, metadata={"strata.tree": text})
        with pytest.raises(RuntimeError, match=found):
            strata.load(path)
        assert list(safetensors.load_file(path)) == ["a"]


def test_loading_copies_nothing_and_writing_leaves_the_file_alone(path):
    n = 4 << 20
    strata.save({"w": strata.ones(n)}, path)
    before, content = strata.memory_stats()["allocated_bytes"], path.read_bytes()
    loaded = strata.load(path)["w"]
    assert strata.memory_stats()["allocated_bytes"] - before < 1 << 16
    loaded.mul_(2)
    assert loaded.sum().item() == 2 * n and path.read_bytes() == content
    strata.save({"w": loaded}, path)  # onto the file that it is mapped from
    assert strata.load(path)["w"].sum().item() == 2 * n
    path.unlink()
    assert loaded.sum().item() == 2 * n


# --- writing whole or not at all ------------------------------------------------------------------------------------------


def test_a_link_stays_a_link_and_permissions_stay(tmp_path):
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    (tmp_path / "sub").mkdir()
    old = os.umask(0o027)
    try:
        strata.save({"a": 1}, target)
    finally:
        os.umask(old)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    link.symlink_to("target")
    strata.save({"a": 2}, link)
    assert link.is_symlink() and strata.load(target) == {"a": 2} and stat.S_IMODE(target.stat().st_mode) == 0o604
    dangling.symlink_to("sub/new")
    strata.save({"a": 3}, dangling)
    assert dangling.is_symlink() and strata.load(tmp_path / "sub" / "new") == {"a": 3}
    link.unlink()
    link.symlink_to("link")
    with pytest.raises(OSError, match="symbolic links"):
        strata.save({"a": 4}, link)


def test_targets_that_are_no_files_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        strata.save({}, tmp_path)
    with pytest.raises(IsADirectoryError):
        strata.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="no file can be made in the folder"):
        strata.save({}, tmp_path / "none" / "a")
    with pytest.raises(FileNotFoundError, match="cannot open"):
        strata.load(tmp_path / "none")
    with pytest.raises(OSError, match="it is a device; give the name of a regular file"):
        strata.save({}, "/dev/full")
    with pytest.raises(OSError, match="it is a device"):
        strata.load("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a pipe"):
        strata.load(tmp_path / "pipe")
    with pytest.raises(ValueError, match="names a folder"):
        strata.save({}, f"{tmp_path}/x/")
    with pytest.raises(ValueError, match="null byte"):
        strata.save({}, f"{tmp_path}/a\0b")
    with pytest.raises(ValueError, match="the path of a file is empty"):
        strata.load("")
    assert sorted(os.listdir(tmp_path)) == ["pipe"]


def test_a_full_disk_leaves_the_old_file(path):
    """A limit on the size of files replaces a full disk: the same calls fail, with EFBIG instead of ENOSPC."""
    strata.save({"a": 1}, path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(OSError, match="File too large") as error:
            strata.save({"a": strata.zeros(1 << 20)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, old)
    assert "what was there before is unchanged" in str(error.value) and str(path) in str(error.value)
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


CANNOT_WRITE = """
import os, sys, strata
if os.getuid() == 0:  # root may write anywhere: be somebody else
    os.setgid(65534), os.setuid(65534)
for path in sys.argv[1:]:
    try:
        strata.save({"a": 2}, path)
    except PermissionError as error:
        assert path in str(error), error
    else:
        sys.exit("it was written: " + path)
"""


def test_folders_and_files_without_the_right_to_write_stay_as_they_are(tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "open" / "file"
    folder.mkdir(), file.parent.mkdir()
    strata.save({"a": 1}, folder / "file")
    strata.save({"a": 1}, file)
    file.chmod(0o444), folder.chmod(0o555), file.parent.chmod(0o777)
    for parent in [tmp_path, *tmp_path.parents[:2]]:
        parent.chmod(0o755)
    subprocess.run([sys.executable, "-c", CANNOT_WRITE, folder / "file", file], check=True)
    assert strata.load(file) == {"a": 1} == strata.load(folder / "file")
    assert len(os.listdir(folder)) == len(os.listdir(file.parent)) == 1


KILL_WHILE_SAVING = """
import os, signal, sys, time, strata

path = sys.argv[1]
strata.save({"n": 0, "w": strata.zeros(2000)}, path)
for round in range(200):
    ready, started = os.pipe()
    child = os.fork()
    if child == 0:
        for i in range(10**9):
            strata.save({"n": i, "w": strata.full((2000,), float(i))}, path)
            if i == 0:
                os.write(started, b"x")
    os.read(ready, 1)
    time.sleep(0.0002 * (7 * round % 11))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    os.close(ready), os.close(started)
    loaded = strata.load(path)
    assert (loaded["w"] == loaded["n"]).all() and loaded["w"].shape == (2000,), (round, loaded)
print("200 kills")
"""


def test_killed_200_times_while_saving_the_file_is_never_torn(path):
    done = subprocess.run([sys.executable, "-c", KILL_WHILE_SAVING, path], capture_output=True, text=True)
    assert done.stdout == "200 kills\n", done.stderr


def test_readers_see_the_old_or_the_new_file(path):
    strata.save({"n": 0, "w": strata.zeros(5000)}, path)
    stop, seen, problems = threading.Event(), set(), []

    def read():
        while not stop.is_set():
            loaded = strata.load(path)
            if not (loaded["w"] == loaded["n"]).all():
                problems.append(loaded["n"])
            seen.add(loaded["n"])

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(1, 100):
        strata.save({"n": i, "w": strata.full((5000,), float(i))}, path)
    stop.set()
    reader.join()
    assert not problems and len(seen) > 1 and os.listdir(path.parent) == [path.name]


def write_torch_file(path):
    """What torch.save writes for {"a": ones}, made by hand."""
    # The opcodes of {"a": torch._utils._rebuild_tensor_v2(storage, 0, (4096,), (1,), False, OrderedDict())}
    stream = (
        b"\x80\x02}X\x01\x00\x00\x00actorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuM\x00\x10tQK\x00M\x00\x10\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtRs."
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", stream)
        archive.writestr("archive/data/0", np.ones(4096, "f4").tobytes())
        archive.writestr("archive/version", "3\n")


WRITERS = {"safetensors": lambda path: strata.save({"a": strata.ones(4096)}, path), "torch": write_torch_file}


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("change", ["truncated", "edited", "deleted"])
def test_what_happens_to_the_file_later_does_not_reach_loaded_tensors(path, kind, change):
    """In a separate process: truncating a mapped file ends it by SIGBUS."""
    WRITERS[kind](path)
    code = f"""
import os, strata
path, change = {str(path)!r}, {change!r}
x = strata.load(path)["a"]
y = strata.safetensors.load_file(path)["a"] if {kind!r} == "safetensors" else x
with open(path, "r+b") as f:
    if change == "truncated": f.truncate(0)
    if change == "edited": f.write(b"x" * os.path.getsize(path))
if change == "deleted": os.unlink(path)
print(x.sum().item(), y.sum().item())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "4096.0 4096.0"), done.stderr


def test_mmap_uses_the_memory_of_the_file(path):
    strata.save({"a": strata.ones(4096)}, path)
    x = strata.load(path, mmap=True)["a"]
    with open(path, "r+b") as f:
        f.seek(-4, os.SEEK_END)
        f.write(np.float32(7).tobytes())
    assert x[-1].item() == 7
    x.fill_(2)  # a private copy
    assert strata.load(path)["a"][0].item() == 1
    with pytest.raises(ValueError, match="needs the path"):
        strata.load(io.BytesIO(path.read_bytes()), mmap=True)


def test_slices_of_an_open_file_are_copies(path):
    strata.save({"a": strata.arange(6)}, path)
    with safetensors.safe_open(path) as f:
        part, whole = f.get_slice("a")[2:4], f.get_tensor("a")
        assert f.get_slice("a").get_shape() == [6]
    path.write_bytes(b"")
    assert part.tolist() == [2, 3] and whole.tolist() == list(range(6))


def test_memory_of_a_loaded_file_goes_back_with_its_tensors(path):
    strata.save({str(i): strata.ones(1 << 20) for i in range(16)}, path)  # 64 MiB
    code = f"""
import strata
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
state = strata.load({str(path)!r})
full = resident()
kept = state["3"]
del state
print(full - resident() > 50, kept.sum().item())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "1048576.0"], done.stdout + done.stderr


def test_a_huge_file_that_is_no_checkpoint_is_refused_at_once(path):
    with open(path, "wb") as f:
        f.write(b"\x7fELF" * 4)
        f.truncate(1 << 40)
    for load in (strata.load, safetensors.load_file):
        with pytest.raises(RuntimeError, match="header length"):
            load(path)
