"""Saving: PyTorch's zip format for any object, sharing and types that survive, and the names a pickle may use."""

import collections
import io
import os
import pickle
import pickletools
import warnings
import zipfile

import numpy as np
import pytest
import strata
from strata import nn
from strata.serialization import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals

FORMATS = ["safetensors", "torch"]


def loaded(obj, format=None, **options):
    file = io.BytesIO()
    strata.save(obj, file, format=format)
    file.seek(0)
    return strata.load(file, **options)


def trusted(obj, format=None):
    with pytest.warns(UserWarning, match="can run any program"):
        return loaded(obj, format, weights_only=False)


@pytest.mark.parametrize("format", FORMATS)
def test_sharing_survives(format):
    w = strata.arange(6.0).reshape(2, 3)
    same, other = loaded([w, w], format)
    same[0, 0] = 9
    assert other[0, 0] == 9 and same is other
    whole, turned, row, apart = loaded([w, w.t(), w[1], strata.ones(2)], format)
    whole.mul_(10)
    assert strata.equal(turned, whole.t()) and strata.equal(row, whole[1]) and apart.tolist() == [1, 1]
    assert turned.stride() == (1, 3)
    first, second = loaded({"a": w[:1], "b": w[1:]}, format).values()
    assert first.tolist() == [[0, 1, 2]] and second.tolist() == [[3, 4, 5]]


@pytest.mark.parametrize("format", FORMATS)
def test_types_survive(format):
    p = nn.Parameter(strata.ones(2))
    frozen = nn.Parameter(strata.ones(2), requires_grad=False)
    saved = collections.OrderedDict(
        p=[p, p, frozen],
        size=strata.ones(2, 3).shape,
        leaf=strata.ones(1, requires_grad=True),
        plain={"x": (1, None, "s", 1.5, True, strata.float16)},
        empty=strata.ones(0, 3),
        half=strata.ones(2, dtype=strata.bfloat16),
        short=strata.tensor([1, 65535], dtype=strata.uint16),
        bits=strata.tensor([True, False]),
    )
    got = loaded(saved, format)
    assert type(got) is collections.OrderedDict and list(got) == list(saved) and got["plain"] == saved["plain"]
    first, second, third = got["p"]
    assert first is second and type(first) is nn.Parameter and first.requires_grad and not third.requires_grad
    assert type(got["size"]) is strata.Size and got["size"] == (2, 3) and got["leaf"].requires_grad
    for name in ("empty", "half", "short", "bits"):
        assert got[name].dtype is saved[name].dtype and got[name].shape == saved[name].shape
        assert strata.equal(got[name], saved[name])


def test_names_of_tied_weights_are_all_in_a_safetensors_file(tmp_path):
    a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    b.weight = a.weight
    path = tmp_path / "tied.safetensors"
    strata.save(nn.Sequential(a, b).state_dict(), path)
    assert set(strata.safetensors.load_file(path)) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    got = strata.load(path)
    assert got["0.weight"].data_ptr() == got["1.weight"].data_ptr()


@pytest.mark.parametrize(
    "structure",
    [
        '{"view":["w",0,[7],[1]]}',
        '{"view":["w",-1,[2],[1]]}',
        '{"view":["w",0,[2],[1,1]]}',
        '{"view":["w",0,[4611686018427387904,4],[1,1]]}',
        '{"view":["w",0,[2],[9223372036854775807]]}',
        '{"view":["x",0,[2],[1]]}',
        '{"view":["w",0,[-2],[1]]}',
        '{"view":["w"]}',
        '{"size":[1.5]}',
        '{"parameter":1}',
    ],
)
def test_bad_structures_are_refused(structure, tmp_path):
    path = tmp_path / "bad.safetensors"
    strata.safetensors.save_file({"w": strata.ones(6)}, path, {"strata.tree": structure})
    with pytest.raises((RuntimeError, ValueError)):
        strata.load(path)


# --- PyTorch's format ----------------------------------------------------------------------------------------------------------


class Custom:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)
        )
        self.register_buffer("steps", strata.zeros(1))

    def forward(self, x):
        return self.body(x)


def test_the_archive_has_pytorch_s_members_and_names(tmp_path):
    path = tmp_path / "model.pt"
    strata.save(nn.Linear(2, 3), path, format="torch")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names[0] == "model/data.pkl" and {
            "model/version",
            "model/byteorder",
            "model/data/0",
            "model/data/1",
        } <= set(names)
        assert archive.read("model/version") == b"3\n" and archive.read("model/byteorder") == b"little"
        assert all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
        text = archive.read("model/data.pkl")
        assert len(archive.read("model/data/0")) == 24
    opcodes = list(pickletools.genops(text))
    assert opcodes[0][0].name == "PROTO" and opcodes[0][1] == 2
    used = {arg for op, arg, _ in opcodes if op.name == "GLOBAL"}
    assert {"torch.nn.modules.linear Linear", "torch._utils _rebuild_tensor_v2", "torch FloatStorage"} <= used
    assert "torch._utils _rebuild_parameter" in used and not any(name.startswith("strata") for name in used)


def test_any_object_is_saved_and_loaded_where_the_file_is_trusted():
    tagged = strata.ones(2)
    tagged.tag = "a"
    obj = [np.arange(3), Custom(strata.ones(2).tolist()), {1, 2}, b"bytes", 1 + 2j, 2**70, tagged, strata.device("cpu")]
    got = trusted(obj)
    np.testing.assert_array_equal(got[0], obj[0])
    assert got[1:6] == obj[1:6] and got[6].tag == "a" and got[7] == strata.device("cpu")


def test_whole_modules_survive():
    net = Net().eval()
    x = strata.randn(2, 1, 4, 4)
    again = trusted(net)
    assert type(again) is Net and strata.equal(again(x), net(x)) and not again.training
    again.train()(x).sum().backward()
    assert again.body[0].weight.grad is not None
    recurrent = trusted(nn.LSTM(2, 3, bidirectional=True))
    assert recurrent(strata.ones(1, 1, 2))[0].shape == (1, 1, 6)
    encoder = trusted(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0))
    assert encoder(strata.ones(3, 1, 4)).shape == (3, 1, 4)


def test_optimizers_survive():
    net = nn.Linear(2, 1)
    optimizer = strata.optim.Adam(net.parameters(), lr=0.1)
    net(strata.ones(1, 2)).sum().backward()
    optimizer.step()
    again = trusted(optimizer)
    assert again.param_groups[0]["lr"] == 0.1 and len(again.state) == 2


def test_without_trust_objects_are_refused_by_name(tmp_path):
    path = tmp_path / "net.pt"
    strata.save(Custom(1), path)
    with pytest.raises(RuntimeError, match="Custom, which would run code"):
        strata.load(path)
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):  # what PyTorch raises
        strata.load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        strata.save([strata.ones(1)], path, format="torch")
        assert strata.load(path)[0].tolist() == [1]  # plain data: no warning


def test_names_can_be_allowed():
    file = io.BytesIO()
    strata.save({"c": Custom(5), "w": strata.ones(2)}, file, format="torch")
    with safe_globals([Custom]):
        file.seek(0)
        assert strata.load(file)["c"].x == 5
    file.seek(0)
    with pytest.raises(RuntimeError, match="would run code"):
        strata.load(file)
    add_safe_globals([nn.Linear])
    try:
        assert get_safe_globals() == [nn.Linear] and loaded(nn.Linear(1, 1), "torch").weight.shape == (1, 1)
        file.seek(0)
        with pytest.raises(Exception, match=r"asks for .*Custom, which is not allowed"):
            strata.load(file)
    finally:
        clear_safe_globals()
    assert get_safe_globals() == []


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_allowed_names_do_not_allow_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    strata.save([Custom(1), Evil()], file, format="torch")
    file.seek(0)
    with safe_globals([Custom]), pytest.raises(Exception, match="not allowed"):
        strata.load(file)
    assert not (tmp_path / "evil").exists()


class Call:
    """Pickles as the call of a name of torch."""

    def __init__(self, *name):
        self.name = name

    def __reduce__(self):
        from strata.torch.files import _Global

        return _Global(*self.name), (0,)


@pytest.mark.parametrize(
    "name",
    [("torch", "set_memory_limit"), ("torch", "manual_seed"), ("torch", "_C"), ("torch", "load"), ("builtins", "eval")]
    + [("builtins", "list"), ("torch.hub", "load"), ("torch._utils", "OrderedDict"), ("os", "system")],
)
def test_only_names_of_data_are_allowed_besides_those_given(name):
    file = io.BytesIO()
    strata.save([Custom(1), Call(*name)], file, format="torch")
    file.seek(0)
    with safe_globals([Custom]), pytest.raises(Exception, match=f"{name[1]}, which is not allowed"):
        strata.load(file)


def test_map_location_moves_tensors():
    obj = {"a": [strata.ones(2)], "p": nn.Parameter(strata.ones(1)), "s": strata.Size([1])}
    for format in FORMATS:
        got = loaded(obj, format, map_location="vgpu")
        assert got["a"][0].device.type == "vgpu" and type(got["p"]) is nn.Parameter and got["p"].device.type == "vgpu"
        assert type(got["s"]) is strata.Size
        assert loaded(obj, format, map_location=lambda storage, location: storage)["a"][0].device.type == "cpu"
    on_device = {"w": strata.ones(3, device="vgpu")}
    assert loaded(on_device, "torch")["w"].tolist() == [1, 1, 1]
    with pytest.warns(UserWarning):
        assert loaded(nn.Linear(1, 1), weights_only=False, map_location="vgpu").weight.device.type == "vgpu"


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    strata.save({"a": 1}, path, format="torch")
    with pytest.raises(Exception, match="lambda|local"):
        strata.save({"a": lambda: 1}, path, format="torch")
    assert strata.load(path) == {"a": 1} and os.listdir(tmp_path) == ["x.pt"]
    with pytest.raises(ValueError, match="expected 'safetensors' or 'torch'"):
        strata.save(1, path, format="zip")
