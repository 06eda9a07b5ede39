"""Names of PyTorch besides tensors and modules: legacy types, storages, jit, hub, trees, event files, shared memory."""

import collections
import copy
import io
import multiprocessing
import os
import pickle
import struct
import zlib

import numpy as np
import pytest
import strata
from strata import nn


def test_legacy_tensor_types():
    assert strata.FloatTensor(2, 3).shape == (2, 3) and strata.FloatTensor(strata.Size([4])).shape == (4,)
    assert strata.LongTensor(range(3)).tolist() == [0, 1, 2] and strata.LongTensor([1.5]).dtype is strata.int64
    assert strata.DoubleTensor().shape == (0,) and strata.FloatTensor.dtype is strata.float32
    x = strata.ones(2)
    assert isinstance(x, strata.FloatTensor) and not isinstance(x, strata.LongTensor)
    assert not isinstance(x, strata.cuda.FloatTensor)
    assert x.type() == "strata.FloatTensor" and x.type(strata.LongTensor).dtype is strata.int64
    assert x.type("torch.DoubleTensor").dtype is strata.float64 and x.type(strata.int32).dtype is strata.int32
    shared = strata.FloatTensor(x)
    assert shared.data_ptr() == x.data_ptr()
    with pytest.raises(TypeError, match="expected a tensor of strata.float32"):
        strata.FloatTensor(strata.ones(2, dtype=strata.int64))
    with pytest.raises(ValueError, match="invalid type"):
        x.type("torch.NoTensor")
    with pytest.raises(RuntimeError, match="not available"):
        x.type("torch.cuda.FloatTensor")
    assert strata.ones(2, dtype=strata.int64).new(3).dtype is strata.int64 and x.new([1, 2]).tolist() == [1, 2]


def test_the_default_type_can_be_set():
    try:
        strata.set_default_tensor_type(strata.DoubleTensor)
        assert strata.ones(1).dtype is strata.float64
    finally:
        strata.set_default_tensor_type("torch.FloatTensor")
    with pytest.raises(TypeError, match="floating-point"):
        strata.set_default_tensor_type(strata.LongTensor)


def test_storages_show_the_memory_that_views_share():
    x = strata.arange(6.0).reshape(2, 3)
    row = x[1]
    assert row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() == x.data_ptr()
    assert row.untyped_storage() == x.untyped_storage() and row.untyped_storage().nbytes() == 24
    s = row.storage()
    assert len(s) == 6 and s[1] == 1.0 and list(s) == [0, 1, 2, 3, 4, 5] and s.dtype is strata.float32
    s[0] = 9
    assert x[0, 0] == 9 and strata.is_storage(s) and not strata.is_storage(x)
    y = strata.zeros(1).set_(x.storage(), 2, (2,), (3,))
    assert y.tolist() == [2, 5]
    assert strata.FloatStorage([1, 2]).tolist() == [1, 2]


def test_variables_are_tensors():
    from strata.autograd import Variable

    x = strata.ones(2)
    v = Variable(x, requires_grad=True)
    assert isinstance(x, Variable) and type(v) is strata.Tensor and v.requires_grad and not x.requires_grad
    v.data[0] = 5
    assert x[0] == 5
    (grad,) = strata.autograd.grad((v * 2).sum(), v, only_inputs=True)
    assert grad.tolist() == [2, 2]
    with pytest.raises(ValueError, match="only_inputs"):
        strata.autograd.grad(v.sum(), v, only_inputs=False)


def test_modules_have_pytorch_s_bases():
    bases = nn.modules
    assert isinstance(nn.BatchNorm2d(2), bases.batchnorm._BatchNorm) and issubclass(nn.Conv1d, bases.conv._ConvNd)
    assert not isinstance(nn.Conv2d(1, 1, 1), bases.conv._ConvTransposeNd)
    assert isinstance(nn.MSELoss(), bases.loss._Loss) and not isinstance(nn.MSELoss(), bases.loss._WeightedLoss)
    assert isinstance(nn.Dropout(), bases.dropout._DropoutNd) and isinstance(
        nn.InstanceNorm1d(2), bases.instancenorm._NormBase
    )

    class Norm(bases.batchnorm._BatchNorm):
        pass

    norm = Norm(3)
    assert isinstance(norm, bases.batchnorm._BatchNorm) and not isinstance(nn.BatchNorm1d(3), Norm)
    for shape in ((4, 3), (4, 3, 5), (4, 3, 5, 6)):
        x = strata.randn(*shape)
        want = nn.functional.batch_norm(x, None, None, training=True)
        np.testing.assert_allclose(norm(x).detach().numpy(), want.numpy(), atol=1e-5)
    for name, file in bases.HOME.items():
        assert getattr(getattr(bases, file), name, None) is not None or name == "LazyModuleMixin", name


def test_data_parallel_is_the_module_itself():
    inner = nn.Linear(2, 1)
    outer = nn.DataParallel(inner)
    x = strata.ones(3, 2)
    assert (
        outer.module is inner
        and strata.equal(outer(x), inner(x))
        and list(outer.state_dict()) == ["module.weight", "module.bias"]
    )
    with pytest.raises(NotImplementedError, match="one device"):
        nn.DataParallel(inner, device_ids=[0, 1])


def test_sync_batch_norm_replaces_batch_norms():
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Sequential(nn.BatchNorm2d(2)))
    norm = model[1][0]
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(made[1][0]) is nn.SyncBatchNorm and made[1][0].weight is norm.weight
    x = strata.randn(3, 1, 4, 4)
    assert strata.allclose(made(x), norm(model[0](x)), atol=1e-6)


def test_jit_returns_what_it_gets():
    layer = nn.ReLU()
    assert strata.jit.script(layer) is layer
    assert not strata.jit.is_scripting() and not strata.jit.is_tracing()

    @strata.jit.ignore
    def one():
        return 1

    @strata.jit.unused
    def two():
        return 2

    @strata.jit.script
    def three(x: int) -> int:
        return x

    assert (one(), two(), three(3)) == (1, 2, 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_jit_saves_the_graph_of_a_module(tmp_path):
    class Net(strata.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = (
                strata.nn.Linear(3, 4),
                strata.nn.Sequential(strata.nn.Linear(4, 2), strata.nn.BatchNorm1d(2)),
            )
            self.register_buffer("shift", strata.ones(4))

        def forward(self, x):
            return self.rest(strata.relu(self.first(x)) + self.shift)

    jit, net, x = strata.jit, Net().eval(), strata.randn(5, 3)
    traced = jit.trace(net, x)
    jit.save(traced, tmp_path / "net.pt", _extra_files={"labels": "a,b"})
    files = {"labels": "", "other": "unchanged"}
    loaded = jit.load(tmp_path / "net.pt", _extra_files=files)  # the class is not needed
    assert type(loaded) is not Net and not loaded.training and files == {"labels": "a,b", "other": "unchanged"}
    assert strata.equal(loaded(x), net(x)) and loaded.state_dict().keys() == net.state_dict().keys()
    memory = io.BytesIO()
    jit.save(jit.trace(lambda a, b: a @ b.t(), (x, x)), memory)
    memory.seek(0)
    assert strata.equal(jit.load(memory)(x, x), x @ x.t())
    with pytest.raises(NotImplementedError, match="cannot be traced"):
        jit.save(lambda a: a if a.sum() > 0 else -a, io.BytesIO())
    strata.save({"x": x}, tmp_path / "x.pt", format="torch")
    with pytest.raises(RuntimeError, match="no graph that torch.jit.save wrote"):
        jit.load(tmp_path / "x.pt")


class Branching(nn.Module):
    """Python decides by values here, so that fx cannot trace it."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.unused = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(1, 1)
        self.register_buffer("shift", strata.ones(4))

    def forward(self, x, scale=2):
        y = strata.relu(self.first(x)) + strata.arange(4.0)
        if y.sum() > 0:
            y = y + self.shift
        y = self.norm(y)
        y[:, 0] = 0
        a, b = y.chunk(2, -1)
        return {"a": (a * scale).view(a.shape[0], -1), "b": [b.T, y.max(1)[0]]}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_traced_module_has_a_graph(tmp_path):
    jit, net, x = strata.jit, Branching().eval(), strata.randn(5, 3)
    traced = jit.trace(net, x)
    assert (
        isinstance(traced, Branching)
        and isinstance(traced, jit.ScriptModule)
        and traced.first.weight is net.first.weight
    )
    assert traced.original_name == "Branching" and repr(traced) == repr(net) and jit.trace(traced, x) is traced
    assert "chunk" in traced.code and any(n.op == "get_attr" and n.target == "shift" for n in traced.graph.nodes)
    traced.save(tmp_path / "net.pt")
    loaded = jit.load(tmp_path / "net.pt")
    assert loaded.state_dict().keys() == net.state_dict().keys() and not loaded.training
    for module in (loaded, traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
        got, want = module(x), net(x)
        assert strata.equal(got["a"], want["a"]) and all(map(strata.equal, got["b"], want["b"]))
    simple = jit.trace_module(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), {"forward": x})
    assert [n.op for n in simple.graph.nodes] == ["placeholder", "call_module", "call_module", "output"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_traced_function_has_a_graph():
    jit, x = strata.jit, strata.randn(2, 3)

    def product(a, b):
        "Of matrices."
        return (a @ b.t(), a.sum()) if a.numel() > 1 else b

    traced = jit.trace(product, (x, x))
    assert isinstance(traced, jit.ScriptFunction) and (traced.__name__, traced.__doc__) == ("product", "Of matrices.")
    assert strata.equal(traced(x, x)[0], x @ x.t()) and "matmul" in traced.code
    memory = io.BytesIO()
    jit.save(traced, memory)
    memory.seek(0)
    assert strata.equal(jit.load(memory)(x, x)[0], x @ x.t())
    noisy = jit.trace(lambda a: a + strata.rand(3) if a.sum() > -9 else a, strata.zeros(3))
    memory = io.BytesIO()
    noisy.save(memory)
    memory.seek(0)
    again = jit.load(memory)
    assert not strata.equal(again(strata.zeros(3)), again(strata.zeros(3)))
    with pytest.raises(NotImplementedError, match="one entry, 'forward'"):
        jit.trace_module(nn.ReLU(), {"other": x})
    with pytest.raises(RuntimeError, match="have no graph"):
        print(jit.trace(lambda a: open("/dev/null") if a.sum() > 0 else a.close(), strata.ones(1)).graph)


def test_chunks_are_joined():
    """As in PyTorch 2.15: the chunks of each tensor, filled up with zeros, side by side."""
    a, b = strata.arange(6.0).reshape(3, 2), strata.arange(4.0)
    assert strata._chunk_cat([a, b], 0, 2).tolist() == [[0, 1, 2, 3, 0, 1], [4, 5, 0, 0, 2, 3]]
    assert strata._chunk_cat([a], 1, 2).tolist() == [[[0], [1]], [[2], [3]], [[4], [5]]]
    out = strata.empty(2, 4)
    assert strata._chunk_cat([a], 0, 2, out=out) is out and out[1].tolist() == [4, 5, 0, 0]
    with pytest.raises(RuntimeError, match="positive num_chunks"):
        strata._chunk_cat([a], 0, 0)


def test_hub_loads_from_a_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "def model(n, bias=True):\n    'a layer'\n    import strata\n    return strata.nn.Linear(n, n, bias)\n"
    )
    assert strata.hub.list(str(tmp_path), source="local") == ["model"]
    assert strata.hub.load(str(tmp_path), "model", 3, source="local", bias=False).bias is None
    assert strata.hub.help(str(tmp_path), "model", source="local") == "a layer"
    with pytest.raises(NotImplementedError, match="clone a/b"):
        strata.hub.load("a/b", "model")
    with pytest.raises(RuntimeError, match="no callable 'absent'"):
        strata.hub.load(str(tmp_path), "absent", source="local")


def test_trees_are_taken_apart_and_built():
    from strata.utils import _pytree as tree

    Point = collections.namedtuple("Point", "x y")
    data = {"a": [1, (2, 3)], "b": Point(4, None), "c": collections.OrderedDict(d=5)}
    leaves, spec = tree.tree_flatten(data)
    assert leaves == [1, 2, 3, 4, None, 5] and tree.tree_unflatten(leaves, spec) == data and spec.num_leaves == 6
    assert tree.tree_map(lambda x: x and x * 2, data)["b"] == Point(8, None)
    assert tree.tree_map_only(int, str, [1, "a"]) == ["1", "a"]
    with pytest.raises(ValueError, match="6 leaves"):
        tree.tree_unflatten([1], spec)


def test_vmap_stacks_the_results_of_slices():
    x, y = strata.randn(4, 3), strata.randn(3, 4)
    got = strata.vmap(lambda a, b: (a * b, a.sum()), in_dims=(0, 1), out_dims=(1, 0))(x, y)
    np.testing.assert_allclose(got[0].numpy(), (x * y.t()).t().numpy(), rtol=1e-6)
    np.testing.assert_allclose(got[1].numpy(), x.sum(1).numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="same size"):
        strata.vmap(lambda a, b: a)(strata.ones(2), strata.ones(3))


def test_the_profiler_counts_calls(tmp_path):
    x = strata.ones(4)
    with strata.profiler.profile(activities=[strata.profiler.ProfilerActivity.CPU]) as p:
        with strata.profiler.record_function("work"):
            x.exp().exp()
        p.step()
    exp = next(a for a in p.key_averages() if a.key == "exp")
    assert exp.count == 2 and "exp" in p.key_averages().table(sort_by="cpu_time_total", row_limit=5)
    p.export_chrome_trace(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 0


def test_back_ends_answer_what_they_are():
    backends = strata.backends
    import strata.backends.cudnn as cudnn

    assert cudnn is backends.cudnn and not backends.mps.is_available() and backends.mkldnn.is_available()
    with cudnn.flags(benchmark=True, deterministic=True):
        assert cudnn.benchmark and cudnn.deterministic
    assert not cudnn.benchmark
    with backends.cuda.sdp_kernel(enable_flash=False):
        pass
    assert backends.cuda.flash_sdp_enabled()
    with pytest.warns(UserWarning, match="no effect"):
        backends.cuda.enable_flash_sdp(False)
    assert not backends.cuda.flash_sdp_enabled() and backends.cuda.math_sdp_enabled()
    backends.cuda.enable_flash_sdp(True)
    with pytest.warns(UserWarning, match="no effect"), backends.mkldnn.flags(enabled=False, deterministic=True):
        assert backends.mkldnn.enabled and backends.mkldnn.deterministic
    assert backends.mkldnn.enabled and not backends.mkldnn.deterministic
    with pytest.raises(NotImplementedError, match="can_use_flash_attention"):
        backends.cuda.can_use_flash_attention()
    with pytest.raises(AttributeError):
        cudnn.misspelled = True


def test_distributed_sampler_splits_the_indices():
    from strata.utils.data.distributed import DistributedSampler

    parts = [list(DistributedSampler(range(7), 3, rank, shuffle=False)) for rank in range(3)]
    assert parts == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    sampler = DistributedSampler(range(8), 2, 0, seed=1)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler) and len(sampler) == 4
    with pytest.raises(NotImplementedError, match="process groups"):
        DistributedSampler(range(3))


# --- event files -------------------------------------------------------------------------------------------------------------


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """The fields of a protocol buffer: (number, value)."""

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at, found = 0, []
    while at < len(message):
        key = varint()
        kind, number = key & 7, key >> 3
        if kind == 0:
            found.append((number, varint()))
        elif kind == 2:
            size = varint()
            found.append((number, message[at : at + size]))
            at += size
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[kind]
            found.append((number, struct.unpack(form, message[at : at + size])[0]))
            at += size
    return found


def events(folder):
    (name,) = [n for n in os.listdir(folder) if "tfevents" in n]
    data = open(os.path.join(folder, name), "rb").read()
    at = 0
    while at < len(data):
        (size,) = struct.unpack("<Q", data[at : at + 8])
        assert struct.unpack("<I", data[at + 8 : at + 12])[0] == crc32c(data[at : at + 8])
        body = data[at + 12 : at + 12 + size]
        assert struct.unpack("<I", data[at + 12 + size : at + 16 + size])[0] == crc32c(body)
        at += 16 + size
        yield fields(body)


def test_event_files_have_the_format_of_tensorboard(tmp_path):
    from strata.utils.tensorboard import SummaryWriter

    assert crc32c(b"123456789") == (((0xE3069283 >> 15) | (0xE3069283 << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", strata.tensor(0.5), 3)
        writer.add_histogram("weights", strata.arange(5.0), 1, bins=5)
        writer.add_image("image", strata.zeros(3, 4, 5), 0)
        writer.add_text("note", "hello", 2)
        with pytest.raises(NotImplementedError, match="add_pr_curve.*add_figure"):
            writer.add_pr_curve("curve", strata.ones(1), strata.ones(1))
    version, *rest = [dict(e) for e in events(tmp_path)]
    assert version[3] == b"brain.Event:2"
    values = {v[1]: (e.get(2), v) for e in rest for v in [dict(fields(dict(fields(e[5]))[1]))]}
    assert values[b"loss"][0] == 3 and values[b"loss"][1][2] == 0.5
    histogram = dict(fields(values[b"weights"][1][5]))
    assert (histogram[1], histogram[2], histogram[3], histogram[4], histogram[5]) == (0, 4, 5, 10, 30)
    assert struct.unpack("<5d", histogram[7]) == (1, 1, 1, 1, 1)
    image = dict(fields(values[b"image"][1][4]))
    assert (image[1], image[2], image[3]) == (4, 5, 3) and image[4].startswith(b"\x89PNG")
    pixels = zlib.decompress(image[4][image[4].index(b"IDAT") + 4 : image[4].index(b"IEND") - 8])
    assert pixels == bytes(4 * (1 + 15))
    assert b"hello" in values[b"note/text_summary"][1][8]
    with pytest.raises(ValueError, match="closed"):
        writer.add_scalar("loss", 1)


def test_images_are_saved_as_png_grids(tmp_path):
    from strata.vision.utils import make_grid, save_image

    images = strata.zeros(3, 1, 2, 2)
    images[1] = 1
    grid = make_grid(images, nrow=2, padding=1, pad_value=0.5)
    assert grid.shape == (3, 7, 7) and grid[0, 1, 4] == 1 and grid[0, 0, 0] == 0.5 and grid[0, 4, 1] == 0
    save_image(images, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="only .png"):
        save_image(images, tmp_path / "a.jpg")


# --- shared memory -----------------------------------------------------------------------------------------------------------


def write_into(tensor, model, queue, done):
    tensor.add_(1)
    model.weight.data.fill_(7)
    queue.put(tensor)
    done.wait(60)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_share_tensors(method):
    context = multiprocessing.get_context(method)
    model = nn.Linear(2, 2).share_memory()
    x = strata.zeros(3).share_memory_()
    queue, done = context.Queue(), context.Event()
    process = context.Process(target=write_into, args=(x, model, queue, done))
    process.start()
    again = queue.get(timeout=60)
    again[0] = 9
    done.set()
    process.join(60)
    assert process.exitcode == 0 and x.tolist() == [9, 1, 1] and model.weight.eq(7).all()
    assert x.is_shared() and model.weight.is_shared() and again.is_shared() and not strata.zeros(1).is_shared()


def test_shared_tensors_keep_values_layout_and_gradients():
    x = strata.randn(2, 3, 4, 5).to(memory_format=strata.channels_last).requires_grad_()
    values, stride = x.detach().clone(), x.stride()
    assert x.share_memory_() is x and strata.equal(x.detach(), values) and x.stride() == stride and x.requires_grad
    (x * 2).sum().backward()
    assert x.grad.eq(2).all()
    assert strata.zeros(0, 3).share_memory_().shape == (0, 3) and strata.tensor(5).share_memory_().item() == 5
    with pytest.raises(RuntimeError, match="no memory"):
        strata.ones(2, device="meta").share_memory_()


def test_copies_of_views():
    x = strata.arange(6.0).reshape(2, 3)
    copy = strata.view_copy(x.t(), (6,))
    assert copy.tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert strata.view_copy(strata.ones(1), strata.int32).tolist() == [1065353216]
    first, second = strata.split_with_sizes_copy(x, [1, 2], dim=1)
    first.zero_()
    assert x[1, 0] == 3 and second.tolist() == [[1.0, 2.0], [4.0, 5.0]]
    targets = [strata.zeros(2, 1), strata.zeros(2, 2)]
    strata.split_with_sizes_copy(x, [1, 2], 1, out=targets)
    assert targets[1].tolist() == second.tolist()
    with pytest.raises(RuntimeError, match="2 tensors"):
        strata.split_with_sizes_copy(x, [1, 2], 1, out=targets[:1])


def test_seeds_by_name():
    strata.manual_seed(seed=3)
    first = strata.rand(2)
    generator = strata.Generator().manual_seed(seed=3)
    assert strata.equal(first, strata.rand(2, generator=generator))


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_gradient_of_neighbors_on_every_device(device):
    x = strata.arange(5.0, device=device)
    (got,) = strata.gradient(x * x, edge_order=2)
    assert got.device.type == device and got.tolist() == [0, 2, 4, 6, 8]
