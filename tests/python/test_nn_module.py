"""Module in Python: registration, traversal, state, modes, hooks, containers, copying."""

import collections
import copy
import gc
import pickle

import numpy as np
import pytest
import strata
from strata import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 4)
        self.fc2 = nn.Linear(4, 2)
        self.scale = nn.Parameter(strata.ones(1))
        self.register_buffer("count", strata.zeros(1))
        self.register_buffer("scratch", strata.zeros(1), persistent=False)

    def forward(self, x):
        return self.fc2(strata.relu(self.fc1(x))) * self.scale


def test_names_come_in_order_and_once():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert list(net.state_dict()) == ["scale", "count", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    assert [n for n, _ in net.named_modules()] == ["", "fc1", "fc2"]
    assert [n for n, _ in net.named_buffers()] == ["count", "scratch"]
    net.fc2 = net.fc1
    assert len(list(net.parameters())) == 3
    assert len(list(net.children())) == 1
    assert net.get_parameter("fc1.weight") is net.fc1.weight
    assert net.get_submodule("fc1") is net.fc1
    assert net.get_buffer("count") is net.count
    with pytest.raises(AttributeError, match="no attribute `fc3`"):
        net.get_submodule("fc3")
    assert {"fc1", "scale", "count", "forward"} <= set(dir(net))


def test_assignments_register_and_refuse():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'scale'"):
        net.scale = strata.ones(1)
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'fc1'"):
        net.fc1 = 3
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'count'"):
        net.count = 3
    net.count = strata.ones(1)
    assert net.state_dict()["count"].item() == 1
    net.extra = nn.Buffer(strata.ones(2))
    assert "extra" in net.state_dict()
    del net.extra
    assert not hasattr(net, "extra")
    with pytest.raises(KeyError, match="contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("forward", None)
    with pytest.raises(ValueError, match="non-leaf"):
        net.register_parameter("made", nn.Parameter(strata.ones(1), False).add_(nn.Parameter(strata.ones(1))))
    with pytest.raises(TypeError, match="is not a Module subclass"):
        net.add_module("other", 3)

    class Early(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()


def test_state_that_does_not_fit_is_explained():
    net = Net()
    state = net.state_dict()
    state["other"] = state.pop("scale")
    state["fc2.bias"] = strata.zeros(3)
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    text = str(error.value)
    assert text.startswith("Error(s) in loading state_dict for Net:\n\t")
    assert 'Missing key(s) in state_dict: "scale". ' in text
    assert 'Unexpected key(s) in state_dict: "other". ' in text
    assert "size mismatch for fc2.bias: copying a param with shape strata.Size([3]) from checkpoint, " in text
    state["fc2.bias"] = strata.zeros(2)
    found = net.load_state_dict(state, strict=False)
    assert found.missing_keys == ["scale"]
    assert found.unexpected_keys == ["other"]
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict([1])


def test_loading_writes_in_place_or_assigns():
    a, b = Net(), Net()
    weight = b.fc1.weight
    b.load_state_dict(a.state_dict())
    assert b.fc1.weight is weight
    assert strata.equal(weight, a.fc1.weight)
    state = {k: v.double() for k, v in a.state_dict().items()}
    b.load_state_dict(state, assign=True)
    assert b.fc1.weight.dtype == strata.float64
    assert b.fc1.weight.data_ptr() == state["fc1.weight"].data_ptr()
    assert isinstance(b.fc1.weight, nn.Parameter)


def test_conversions_keep_parameter_objects():
    net = Net()
    weight = net.fc1.weight
    net(strata.randn(2, 3)).sum().backward()
    net.to(strata.float64)
    assert net.fc1.weight is weight
    assert weight.dtype == weight.grad.dtype == net.count.dtype == strata.float64
    assert net.half().fc1.weight.dtype == strata.float16
    assert net.bfloat16().float().cpu().scale.dtype == strata.float32
    conv = nn.Conv2d(3, 4, 3).to(memory_format=strata.channels_last)
    assert conv.weight.stride(1) == 1
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(strata.int64)


def test_modes_gradients_and_apply():
    net = Net()
    assert net.eval() is net
    assert not net.fc1.training
    net.train()
    assert net.fc2.training
    net(strata.randn(2, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "Net"]


def test_forward_hooks():
    fc, x = nn.Linear(2, 2), strata.ones(1, 2)
    plain = fc(x)
    log = []
    with fc.register_forward_pre_hook(lambda m, args: (args[0] * 0,)):
        assert strata.equal(fc(x)[0], fc.bias)
    first = fc.register_forward_hook(lambda m, args, out: log.append("first"))
    fc.register_forward_hook(lambda m, args, out: log.append("zero"), prepend=True)
    doubled = fc.register_forward_hook(lambda m, args, kwargs, out: out * 2, with_kwargs=True)
    assert strata.equal(fc(x), plain * 2)
    assert log == ["zero", "first"]
    doubled.remove(), first.remove()
    assert strata.equal(fc(input=x), plain)
    assert log == ["zero", "first", "zero"]
    fc.register_forward_hook(lambda m, args, out: log.append(("always", out)), always_call=True)
    with pytest.raises(RuntimeError):
        fc(strata.ones(1, 3))
    assert log[-1] == ("always", None)


def test_backward_hooks():
    fc = nn.Linear(2, 1, bias=False)
    seen = {}

    def after(module, grad_input, grad_output):
        seen["input"], seen["output"] = grad_input[0].clone(), grad_output[0].clone()
        return (grad_input[0] * 10,)

    fc.register_full_backward_hook(after)
    fc.register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 2,))
    x = strata.ones(1, 2, requires_grad=True)
    fc(x).sum().backward()
    assert seen["output"].item() == 2
    assert strata.equal(seen["input"], fc.weight.detach() * 2)
    assert strata.equal(x.grad, fc.weight.detach() * 20)
    assert strata.equal(fc.weight.grad, strata.full((1, 2), 2.0))


def test_backward_hooks_keep_no_graph_alive():
    fc = nn.Linear(4, 4)
    fc.register_full_backward_hook(lambda module, grad_input, grad_output: None)
    x, held = strata.ones(8, 4, requires_grad=True), []
    gc.collect()  # cycles that earlier tests left
    for _ in range(3):
        fc(x).sum().backward()
        held.append(strata.memory_stats()["allocated_bytes"])
    assert held[0] == held[2]


def test_a_plain_tensor_may_take_the_place_of_a_parameter():
    x = strata.tensor([[1.0, 2.0]])
    for forget in (lambda m: delattr(m, "weight"), lambda m: m._parameters.pop("weight")):
        fc = nn.Linear(2, 2, bias=False)
        weight = fc.weight
        forget(fc)
        fc.weight = weight.detach() * 2
        copies = [fc, copy.deepcopy(fc), pickle.loads(pickle.dumps(fc))]
        fc.weight = fc.weight * 2
        for module, factor in zip(copies, (4, 2, 2), strict=True):
            assert list(module.parameters()) == []
            np.testing.assert_allclose(module(x).numpy(), x.numpy() @ weight.detach().numpy().T * factor, rtol=1e-6)
    lstm = nn.LSTM(2, 3)
    raw = lstm.weight_hh_l0
    del lstm.weight_hh_l0
    with pytest.raises(AttributeError, match="weight_hh_l0"):
        lstm(strata.ones(2, 1, 2))
    lstm.weight_hh_l0 = raw * 0.5
    lstm(strata.ones(2, 1, 2))[0].sum().backward()
    assert raw.grad.abs().sum() > 0
    norm = nn.BatchNorm1d(2).eval()
    del norm.running_mean
    norm.running_mean = strata.tensor([1.0, 2.0])
    np.testing.assert_array_equal(norm(x).detach().numpy(), np.zeros((1, 2)))


def test_a_new_parameter_takes_the_place_of_the_old_one_in_the_order():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight = one.weight
    assert list(nn.Sequential(one, two).state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_state_dict_hooks():
    fc = nn.Linear(2, 1)
    fc.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop(prefix + "bias") and None)
    assert list(fc.state_dict()) == ["weight"]
    other = nn.Linear(2, 1)

    def rename(m, state, prefix, *rest):
        state[prefix + "bias"] = state.pop(prefix + "offset")

    other.register_load_state_dict_pre_hook(rename)
    done = []
    other.register_load_state_dict_post_hook(lambda m, keys: done.append(keys))
    other.load_state_dict({"weight": strata.ones(1, 2), "offset": strata.ones(1)})
    assert other.bias.item() == 1
    assert len(done) == 1


def test_copies_and_pickles():
    net = Net()
    x = strata.randn(2, 3)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net.fc1))):
        original = net if isinstance(twin, Net) else net.fc1
        assert strata.equal(twin(x), original(x))
        first, second = next(twin.parameters()), next(original.parameters())
        assert first.data_ptr() != second.data_ptr()
        assert isinstance(first, nn.Parameter)


def test_sequential():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = strata.randn(4, 2)
    expected = np.maximum(x.numpy() @ net[0].weight.detach().numpy().T + net[0].bias.detach().numpy(), 0)
    expected = expected @ net[-1].weight.detach().numpy().T + net[-1].bias.detach().numpy()
    np.testing.assert_allclose(net(x).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert len(net[:2]) == 2
    net.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in net] == ["Identity", "Linear", "ReLU", "Linear", "Tanh"]
    del net[0]
    assert list(net.state_dict())[0] == "0.weight"
    named = nn.Sequential(collections.OrderedDict(a=nn.Linear(2, 2), b=nn.ReLU()))
    assert repr(named).startswith("Sequential(\n  (a): Linear(")
    with pytest.raises(IndexError):
        net[9]


def test_lists_and_dicts():
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    assert repr(layers) == "ModuleList(\n  (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)\n)"
    layers.extend([nn.ReLU()])
    assert len(layers[1:]) == 3
    table = nn.ModuleDict({"a": nn.Linear(1, 1), "b": layers})
    assert list(table.keys()) == ["a", "b"]
    assert "a" in table
    assert table.pop("a").in_features == 1
    values = nn.ParameterList([strata.ones(2), strata.zeros(3)])
    assert [n for n, _ in values.named_parameters()] == ["0", "1"]
    assert values[-1].shape == (3,)
    named = nn.ParameterDict({"w": strata.ones(2)})
    assert named["w"].requires_grad
    assert [n for n, _ in named.named_parameters()] == ["w"]
    assert "(w): Parameter containing: [strata.float32 of size 2]" in repr(named)


def test_lazy_modules_take_their_width_from_the_input():
    lazy = nn.LazyLinear(3)
    assert lazy.has_uninitialized_params()
    assert lazy(strata.randn(2, 5)).shape == (2, 3)
    assert type(lazy) is nn.Linear
    assert lazy.in_features == 5
    assert nn.LazyConv2d(4, 3)(strata.randn(1, 2, 5, 5)).shape == (1, 4, 3, 3)
    norm = nn.LazyBatchNorm1d()
    norm(strata.randn(4, 6))
    assert norm.running_mean.shape == (6,)
    fresh = nn.LazyLinear(3)
    fresh.load_state_dict(lazy.state_dict())
    assert strata.equal(fresh.weight, lazy.weight)


def test_a_small_network_learns():
    strata.manual_seed(0)
    x = strata.randn(256, 2)
    target = ((x[:, 0] * x[:, 1]) > 0).long()
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    loss_of = nn.CrossEntropyLoss()
    for _ in range(300):
        loss = loss_of(net(x), target)
        net.zero_grad()
        loss.backward()
        with strata.no_grad():
            for p in net.parameters():
                p -= 1.0 * p.grad
    assert loss.item() < 0.2
