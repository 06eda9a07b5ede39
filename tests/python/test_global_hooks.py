"""Hooks of all modules, of what modules register, and of all optimizers."""

import pytest
import strata
from strata import nn
from strata.nn.modules import module as hooks
from strata.optim import optimizer as optim_hooks


def test_forward_hooks_see_every_module():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    seen = []
    with hooks.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__)):
        net(strata.ones(1, 2))
    assert seen == ["Linear", "ReLU", "Sequential"]
    net(strata.ones(1, 2))
    assert len(seen) == 3 and not nn.Module._hooked


def test_forward_hooks_replace_inputs_and_outputs():
    net = nn.Identity()
    net.register_forward_hook(lambda m, args, out: out * 10)
    with hooks.register_module_forward_pre_hook(lambda m, args: (args[0] + 1,)):
        with hooks.register_module_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True):
            assert net(strata.ones(1)).item() == 20
    with hooks.register_module_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True):
        assert net(input=strata.ones(1)).item() == 20
    assert net(strata.ones(1)).item() == 10


def test_a_hook_that_is_always_called_runs_after_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    seen = []
    with hooks.register_module_forward_hook(lambda m, args, out: seen.append(out), always_call=True):
        with pytest.raises(ValueError, match="broken"):
            Broken()(1)
    assert seen == [None]


def test_backward_hooks_see_every_module():
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    for p in net.parameters():
        nn.init.constant_(p, 2.0)
    seen, before = [], []
    with hooks.register_module_full_backward_hook(
        lambda m, gi, go: seen.append((type(m).__name__, gi[0].item(), go[0].item()))
    ):
        with hooks.register_module_full_backward_pre_hook(lambda m, go: before.append(go[0].item())):
            net(strata.ones(1, 1, requires_grad=True)).sum().backward()
    assert seen == [("Linear", 2.0, 1.0), ("Linear", 4.0, 2.0), ("Sequential", 4.0, 1.0)]
    assert before == [1.0, 1.0, 2.0]


def test_registration_hooks_replace_what_is_registered():
    names = []

    def frozen(module, name, parameter):
        names.append(name)
        return None if parameter is None else nn.Parameter(parameter.detach(), requires_grad=False)

    with hooks.register_module_parameter_registration_hook(frozen):
        with hooks.register_module_buffer_registration_hook(lambda m, name, b: names.append(name)):
            with hooks.register_module_module_registration_hook(
                lambda m, name, c: nn.Tanh() if name == "act" else None
            ):
                net = nn.Module()
                net.fc, net.act = nn.Linear(1, 1), nn.ReLU()
                net.register_buffer("mean", strata.zeros(1))
    assert names == ["weight", "bias", "mean"] and not any(p.requires_grad for p in net.parameters())
    assert isinstance(net.act, nn.Tanh) and nn.Linear(1, 1).weight.requires_grad


def test_hooks_of_all_optimizers():
    p = nn.Parameter(strata.ones(1))
    p.grad = strata.ones(1)
    seen = []
    with optim_hooks.register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append(("before", p.item()))):
        with optim_hooks.register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append(("after", p.item()))):
            strata.optim.SGD([p], lr=0.5).step()
    assert seen == [("before", 1.0), ("after", 0.5)]
    strata.optim.SGD([p], lr=0.5).step()
    assert len(seen) == 2


def test_state_dict_hooks_of_an_optimizer():
    o = strata.optim.SGD([nn.Parameter(strata.ones(1))], lr=0.5)
    seen = []
    o.register_state_dict_pre_hook(lambda o: seen.append("before saving"))
    o.register_state_dict_post_hook(lambda o, state: {**state, "epoch": 3})
    o.register_load_state_dict_pre_hook(lambda o, state: {k: v for k, v in state.items() if k != "epoch"})
    last = o.register_load_state_dict_post_hook(lambda o: seen.append("after loading"))
    state = o.state_dict()
    assert state["epoch"] == 3
    state["param_groups"][0]["lr"] = 0.25
    o.load_state_dict(state)
    assert o.param_groups[0]["lr"] == 0.25 and seen == ["before saving", "after loading"]
    last.remove()
    o.load_state_dict(state)
    assert len(seen) == 2


def test_modules_convert_to_complex_numbers():
    linear = nn.Linear(2, 1).to(strata.complex64)
    linear.weight.data.fill_(1j)
    nn.init.zeros_(linear.bias)
    assert linear(strata.tensor([1 + 1j, 2])).tolist() == [-1 + 3j]
    with pytest.raises(TypeError, match="floating point or complex"):
        linear.to(strata.int64)


def test_a_prefix_is_removed_from_a_state_dict():
    net = nn.DataParallel(nn.Sequential(nn.Linear(1, 1)))
    state = net.state_dict()
    assert list(state) == ["module.0.weight", "module.0.bias"]
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and list(state._metadata) == ["", "0"]
    assert net.module.load_state_dict(state).missing_keys == []


def test_errors_of_loading_name_missing_keys_first():
    with pytest.raises(RuntimeError, match='Missing key.*"weight".*\n.*Unexpected key.*"w"'):
        nn.Linear(1, 1, bias=False).load_state_dict({"w": strata.ones(1, 1)})


BASES = [
    ("pooling", "_MaxPoolNd", nn.MaxPool2d(2), nn.AvgPool2d(2)),
    ("pooling", "_AvgPoolNd", nn.AvgPool1d(2), nn.MaxPool1d(2)),
    ("pooling", "_AdaptiveAvgPoolNd", nn.AdaptiveAvgPool2d(1), nn.AvgPool2d(2)),
    ("pooling", "_AdaptiveMaxPoolNd", nn.AdaptiveMaxPool3d(1), nn.MaxPool3d(2)),
    ("pooling", "_LPPoolNd", nn.LPPool1d(2, 2), nn.MaxPool1d(2)),
    ("pooling", "_MaxUnpoolNd", nn.MaxUnpool1d(2), nn.MaxPool1d(2)),
    ("padding", "_ConstantPadNd", nn.ZeroPad2d(1), nn.ReflectionPad2d(1)),
    ("padding", "_ReflectionPadNd", nn.ReflectionPad1d(1), nn.ConstantPad1d(1, 0)),
    ("padding", "_ReplicationPadNd", nn.ReplicationPad3d(1), nn.ReflectionPad3d(1)),
    ("rnn", "RNNCellBase", nn.LSTMCell(1, 1), nn.LSTM(1, 1)),
]


@pytest.mark.parametrize("file, base, member, other", BASES)
def test_common_bases_know_their_members(file, base, member, other):
    kind = getattr(getattr(nn.modules, file), base)
    assert isinstance(member, kind) and issubclass(type(member), kind) and not isinstance(other, kind)
