"""Device meta: tensors with a shape and a dtype and no memory, as PyTorch has them."""

import copy
import pickle
import time
import warnings

import module_samples
import pytest
import records
import strata
from strata import nn


def meta(*shape, **options):
    return strata.empty(*shape, device="meta", **options)


def test_tensors_are_printed_as_in_pytorch():
    assert repr(meta(3)) == "tensor(..., device='meta', size=(3,))"
    assert repr(meta(())) == "tensor(..., device='meta', size=())"
    assert repr(meta(2, 0)) == "tensor(..., device='meta', size=(2, 0))"
    assert repr(meta(3, dtype=strata.int64)) == "tensor(..., device='meta', size=(3,), dtype=strata.int64)"
    grad = meta(2, 3, dtype=strata.float64, requires_grad=True)
    assert repr(grad) == ("tensor(..., device='meta', size=(2, 3), dtype=strata.float64,\n       requires_grad=True)")
    assert repr(grad * 2).endswith("grad_fn=<MulBackward0>)")
    assert f"{meta(3)}" == "tensor(..., device='meta', size=(3,))"
    with pytest.raises(TypeError):
        format(meta(()), ".2f")


def test_the_device_has_one_name():
    assert repr(strata.device("meta")) == "device(type='meta')"
    for name in ("meta", "meta:0", "meta:7", strata.device("meta", 1)):
        assert strata.empty(2, device=name).device == strata.device("meta")
    x = meta(2)
    assert x.is_meta and not x.is_cpu and not x.is_cuda and not strata.ones(2).is_meta
    assert x.get_device() == -1 and x.data_ptr() == 0 and x.nbytes == 8 and len(x) == 2
    assert not x.is_set_to(meta(2)) and x.is_set_to(x.view(2))


def test_tensors_are_made_there():
    made = [
        strata.zeros(2, 3, device="meta"),
        strata.full((2, 3), 7.0, device="meta"),
        strata.rand(2, 3, device="meta"),
        strata.tensor([[1.0, 2, 3]] * 2, device="meta"),
        strata.ones(2, 3).to("meta"),
        strata.ones_like(strata.ones(2, 3), device="meta"),
        meta(1).new_zeros(2, 3),
        strata.empty_like(meta(2, 3)),
    ]
    assert all(t.is_meta and t.shape == (2, 3) and t.dtype is strata.float32 for t in made)
    assert strata.arange(5, device="meta").dtype is strata.int64
    assert strata.randperm(4, device="meta").shape == (4,)
    assert not meta(2).new_zeros(3, device="cpu").is_meta
    assert strata.zeros_like(meta(2), device="cpu").tolist() == [0, 0]
    x = meta(2)
    assert x.to("meta") is x
    assert strata.ones(2, 3).t().to("meta").stride() == (1, 3)


def test_default_device():
    with strata.device("meta"):
        assert strata.empty(2).is_meta and strata.tensor([1.0]).is_meta and nn.Linear(2, 2).weight.is_meta
        with strata.device("cpu"):
            assert not strata.empty(2).is_meta
        assert strata.empty(2).is_meta
    assert not strata.empty(2).is_meta
    strata.set_default_device("meta")
    try:
        assert strata.randn(2).is_meta and strata.get_default_device() == strata.device("meta")
    finally:
        strata.set_default_device(None)
    with pytest.raises(RuntimeError, match="__exit__ without __enter__"):
        strata.device("cpu").__exit__(None, None, None)


def test_large_shapes_cost_nothing():
    before, began = strata.memory_stats(), time.monotonic()
    x = meta(2**50)
    y = (x * 2 + 1).sum()
    a, b = meta(2**25, 2**20), meta(2**20, 2**24)
    assert (a @ b).shape == (2**25, 2**24) and y.shape == ()
    assert x[1:].storage_offset() == 1 and x.reshape(2**25, 2**25).t().stride() == (1, 2**25)
    assert x.resize_(2**51).shape == (2**51,)
    big = nn.Linear(2**20, 2**22, device="meta")
    big(meta(2**16, 2**20)).sum().backward()
    assert big.weight.grad.shape == (2**22, 2**20)
    strata.optim.Adam(big.parameters()).step()
    strata.arange(2**50, out=meta(0, dtype=strata.int64))
    assert strata.combinations(meta(2**20)).shape == (2**19 * (2**20 - 1), 2)
    # Adam keeps its step counts, one number for each parameter, on the CPU.
    assert strata.memory_stats()["reserved_bytes"] <= before["reserved_bytes"] + 4096
    assert time.monotonic() - began < 5
    with pytest.raises(RuntimeError, match="more elements than can be addressed"):
        meta(2**62)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.item(),
        lambda x: bool(x),
        lambda x: int(x),
        lambda x: float(x),
        lambda x: range(10)[x.long()],
        lambda x: strata.equal(x, x),
        lambda x: strata.allclose(x, x),
        lambda x: strata.zeros(4).narrow(0, x.long(), 1),
    ],
)
def test_a_number_cannot_be_read(read):
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        read(meta(()))


@pytest.mark.parametrize(
    "copied",
    [
        lambda x: x.cpu(),
        lambda x: x.to("cpu"),
        lambda x: x.to("vgpu"),
        lambda x: x.tolist(),
        lambda x: strata.ones(3).copy_(x),
        lambda x: strata.ones(3, device="vgpu").copy_(x),
        lambda x: x[1:].tolist(),
        lambda x: x.tensor_split(x[:2].long()),
        lambda x: strata.ones(3).__setitem__(0, x[0]),
    ],
)
def test_values_cannot_be_copied_out(copied):
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        copied(meta(3))


def test_other_libraries_get_nothing():
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        meta(3).numpy()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        meta(3).__dlpack__()
    with pytest.raises(ValueError, match="Unknown device type meta"):
        meta(3).__dlpack_device__()
    with pytest.raises(BufferError, match="Cannot pack tensors on meta"):
        strata.from_dlpack(meta(3))
    with pytest.raises(RuntimeError, match="draws no numbers"):
        strata.Generator("meta")
    with pytest.raises(RuntimeError, match="cannot pin"):
        meta(3).pin_memory("vgpu")


@pytest.mark.parametrize(
    "call",
    [
        lambda x, mask: x.nonzero(),
        lambda x, mask: strata.where(mask),
        lambda x, mask: x[mask],
        lambda x, mask: x.masked_select(mask),
        lambda x, mask: strata.unique(x),
        lambda x, mask: strata.unique_consecutive(x, dim=0),
        lambda x, mask: strata.bincount(x.long(), minlength=5),
        lambda x, mask: x.repeat_interleave(x.long()),
        lambda x, mask: nn.functional.one_hot(x.long()),
        lambda x, mask: x[mask[0]],
        lambda x, mask: strata.linalg.lstsq(meta(4, 2), meta(4, 1), driver="gelsd"),
    ],
)
def test_shapes_that_depend_on_values_are_refused(call):
    with pytest.raises(NotImplementedError, match="depends on the values"):
        call(meta(4), meta(4, dtype=strata.bool))


def test_masks_may_be_written_through():
    x, mask = meta(4, 3), meta(4, dtype=strata.bool)
    x[mask] = 1.0
    x[mask] = meta(2, 3)
    x[mask, 1] = meta(2)
    x[:, meta(3, dtype=strata.bool)] = meta(4, 2)
    assert x.index_put((mask,), meta(3)).shape == (4, 3)
    assert x.masked_fill(mask[:, None], 0).shape == (4, 3)
    assert x.masked_scatter(mask[:, None], meta(12)).shape == (4, 3)
    source = meta(2, 3, requires_grad=True)
    y = meta(4, 3)
    y[mask] = source
    y.sum().backward()
    assert source.grad.shape == (2, 3) and source.grad.is_meta
    assert x[strata.tensor([True, False, True, True])].shape == (3, 3)
    assert x[strata.tensor([0, 1])].shape == (2, 3) and x[meta(5, dtype=strata.int64)].shape == (5, 3)


def test_devices_do_not_mix():
    x = meta(3)
    for call in (
        lambda: x + strata.ones(3),
        lambda: strata.ones(3) @ x,
        lambda: strata.add(x, x, out=strata.empty(3)),
        lambda: strata.ones(3).add_(x),
        lambda: x + strata.ones(3, device="vgpu"),
        lambda: strata.ones(3)[meta(2, dtype=strata.int64)],
    ):
        with pytest.raises(RuntimeError):
            call()
    assert (x + strata.tensor(1.0)).is_meta and (strata.tensor(1.0) + x).is_meta and (x * 2).is_meta
    assert x.copy_(strata.ones(3)) is x and x.copy_(strata.ones(3, device="vgpu")) is x


def test_copies_and_pickles_keep_the_shape():
    x = meta(2, 3, dtype=strata.float64).t().requires_grad_()
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert y.is_meta and y.shape == (3, 2) and y.dtype is strata.float64 and y.requires_grad
    assert pickle.loads(pickle.dumps(x)).stride() == (1, 3)
    p = pickle.loads(pickle.dumps(nn.Parameter(meta(2))))
    assert isinstance(p, nn.Parameter) and p.is_meta


def test_files(tmp_path):
    path = tmp_path / "tensors"
    with pytest.raises(NotImplementedError, match="no values to save"):
        strata.save({"x": meta(3)}, path)
    with pytest.raises(NotImplementedError, match="no values to save"):
        strata.save({"x": meta(3)[1:]}, path)
    strata.save({"x": strata.ones(3), "list": [strata.ones(2), 4]}, path)
    loaded = strata.load(path, map_location="meta")
    assert loaded["x"].is_meta and loaded["list"][0].is_meta and loaded["list"][1] == 4


def test_modules():
    layer = nn.Linear(3, 2, device="meta")
    assert repr(layer.weight) == ("Parameter containing:\ntensor(..., device='meta', size=(2, 3), requires_grad=True)")
    with pytest.raises(NotImplementedError, match="to_empty"):
        layer.to("cpu")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        layer.cpu()
    values = nn.Linear(3, 2).state_dict()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer.load_state_dict(values)
    assert len(caught) == 2 and "no-op" in str(caught[0].message)
    with pytest.raises(RuntimeError, match="Cannot copy out of meta tensor"):
        nn.Linear(3, 2).load_state_dict(layer.state_dict())
    same = layer.weight
    layer.to_empty(device="cpu").load_state_dict(values)
    assert layer.weight is same and not same.is_meta and same.tolist() == values["weight"].tolist()
    assert layer.to("meta").weight.is_meta and layer.double().weight.dtype is strata.float64
    other = nn.Linear(3, 2, device="meta")
    other.load_state_dict(values, assign=True)
    assert not other.weight.is_meta


def test_a_network_is_trained():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8, momentum=None),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(8 * 16, 10),
    ).to("meta")
    for rule in (strata.optim.SGD, strata.optim.Adam, strata.optim.RMSprop, strata.optim.NAdam, strata.optim.ASGD):
        optimizer = rule(model.parameters(), lr=0.1)
        state = strata.get_rng_state()
        loss = nn.functional.cross_entropy(model(meta(4, 3, 8, 8)), meta(4, dtype=strata.int64))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        assert loss.is_meta and norm.is_meta and loss.shape == norm.shape == ()
        assert strata.get_rng_state().tolist() == state.tolist()
        assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    adam = strata.optim.Adam(model.parameters())
    adam.step()
    first = next(iter(model.parameters()))
    # A step on device meta computes nothing, not even the count that is kept on the CPU.
    assert adam.state[first]["step"].item() == 0 and adam.state[first]["exp_avg"].is_meta


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(layer):
    out, _ = layer(4, 5, num_layers=2, bidirectional=True, device="meta")(meta(7, 3, 4))
    assert out.is_meta and out.shape == (7, 3, 10)
    packed = nn.utils.rnn.pack_padded_sequence(meta(7, 3, 4), strata.tensor([7, 4, 2]))
    out, _ = layer(4, 5, device="meta")(packed)
    assert out.data.shape == (13, 5) and out.data.is_meta


def test_transformers():
    layer = nn.TransformerEncoderLayer(16, 4, device="meta", batch_first=True)
    y = layer(meta(2, 5, 16, requires_grad=True))
    y.sum().backward()
    assert y.shape == (2, 5, 16) and all(p.grad.is_meta for p in layer.parameters())


def test_writes_are_noticed():
    x = meta(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = meta(3)
    version = z._version
    z.normal_()
    assert z._version == version + 1


def test_anomaly_mode_finds_nothing():
    with strata.autograd.set_detect_anomaly(True):
        x = meta(4, requires_grad=True)
        x[1:].exp().sum().backward()
    assert x.grad.is_meta


def test_explain_and_trace_say_that_nothing_runs():
    assert "meta: nothing runs" in str(strata.explain(strata.add, meta(3), meta(3)))
    with strata.tracing() as spans:
        meta(3) + 1
    assert "meta: nothing runs" in str(spans)


@pytest.mark.parametrize("record, number", module_samples.SAMPLES, ids=module_samples.LABELS)
def test_modules_have_the_shapes_of_the_cpu(record, number):
    def seen(place):
        strata.manual_seed(3)
        module = module_samples.made(record, number).to(place)
        xs = [x.to(place) for x in module_samples.inputs(record, number)]
        for x in xs:
            if x.is_floating_point():
                x.requires_grad_()
        out = records.tensors([module(*xs)])
        if out[0].requires_grad:
            out[0].sum().backward()
        grads = [t.grad for t in [*xs, *module.parameters()]]
        assert all(t.device.type == place for t in out + [g for g in grads if g is not None])
        return [t if t is None else (tuple(t.shape), t.stride(), t.dtype) for t in out + grads]

    assert seen("meta") == seen("cpu")
