"""Parametrizations: parametrize, weight and spectral norm, functional_call, averaged weights."""

import copy
import pickle

import numpy as np
import pytest
import strata
from strata import nn
from strata.nn.utils import parametrizations, parametrize
from strata.optim import swa_utils


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, x):
        return x.log()


class Twice(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def positive_linear():
    fc = nn.Linear(3, 2).double()
    fc.weight.data.uniform_(1, 2)
    return fc


def test_parametrizations_compose_invert_and_train_the_original():
    fc = positive_linear()
    held, before, x = fc.weight, fc.weight.detach().numpy().copy(), strata.randn(4, 3, dtype=strata.float64)
    parametrize.register_parametrization(fc, "weight", Exp())
    np.testing.assert_allclose(fc.weight.detach().numpy(), before)
    parametrize.register_parametrization(fc, "weight", Twice())
    np.testing.assert_allclose(fc.weight.detach().numpy(), 2 * before)
    assert [n for n, _ in fc.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert fc.parametrizations.weight.original is held, "an optimizer made before must still hold it"
    fc(x).sum().backward()
    np.testing.assert_allclose(held.grad.numpy(), x.numpy().sum(0) * 2 * np.exp(held.detach().numpy()))
    fc.weight = strata.full((2, 3), 6.0, dtype=strata.float64)
    np.testing.assert_allclose(held.detach().numpy(), np.full((2, 3), np.log(3)))
    assert parametrize.type_before_parametrizations(fc) is nn.Linear
    assert type(fc).__name__ == "ParametrizedLinear" and "(parametrizations): ModuleDict(" in repr(fc)


def test_copies_and_removal_are_independent():
    fc = parametrize.register_parametrization(positive_linear(), "weight", Exp())
    other, value, x = copy.deepcopy(fc), fc.weight.detach().numpy(), strata.ones(1, 3, dtype=strata.float64)
    parametrize.remove_parametrizations(fc, "weight")
    assert type(fc) is nn.Linear and isinstance(fc.weight, nn.Parameter) and not parametrize.is_parametrized(fc)
    np.testing.assert_array_equal(fc.weight.detach().numpy(), value)
    np.testing.assert_allclose(fc(x).detach().numpy(), other(x).detach().numpy())
    parametrize.remove_parametrizations(other, "weight", leave_parametrized=False)
    np.testing.assert_allclose(other.weight.detach().numpy(), np.log(value))
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(fc, "weight")


def test_state_dict_round_trip_and_no_pickle():
    one, two = (parametrizations.weight_norm(nn.Linear(3, 2)) for _ in range(2))
    two.load_state_dict(one.state_dict())
    np.testing.assert_array_equal(one.weight.detach().numpy(), two.weight.detach().numpy())
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(one)


def test_cached_computes_once():
    class Counting(nn.Module):
        calls = 0

        def forward(self, x):
            Counting.calls += 1
            return x * 1

    fc = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Counting())
    Counting.calls = 0
    with parametrize.cached():
        fc(fc(strata.ones(1, 2)))
    assert Counting.calls == 1
    fc(fc(strata.ones(1, 2)))
    assert Counting.calls == 3


def test_what_cannot_be_parametrized_says_why():
    with pytest.raises(ValueError, match="with name 'foo'"):
        parametrize.register_parametrization(nn.Linear(2, 2), "foo", Exp())
    fc = nn.Linear(2, 2)
    with pytest.raises(
        ValueError, match=r"shape and dtype it had, strata.float32 \[2, 2\], but gave strata.float32 \[4\]"
    ):
        parametrize.register_parametrization(fc, "weight", nn.Flatten(0))
    assert type(fc) is nn.Linear and fc.weight.shape == (2, 2), "a refusal changes nothing"


@pytest.mark.parametrize("dim", [0, 1, 2, None])
@pytest.mark.parametrize("older", [False, True])
def test_weight_norm_is_length_times_direction(dim, older):
    conv = nn.Conv1d(2, 3, 2).double()
    w = conv.weight.detach().numpy().copy()
    axes = tuple(a for a in range(3) if a != dim)
    (nn.utils if older else parametrizations).weight_norm(conv, dim=dim)
    named = dict(conv.named_parameters())
    g, v = [t for n, t in named.items() if n != "bias"]
    assert list(named)[1:] == (
        ["weight_g", "weight_v"] if older else [f"parametrizations.weight.original{i}" for i in (0, 1)]
    )
    length = np.sqrt((w**2).sum(axes, keepdims=dim is not None))
    np.testing.assert_allclose(g.detach().numpy(), length)
    with strata.no_grad():
        g.mul_(3)
        v.mul_(5)
    x = strata.randn(1, 2, 4, dtype=strata.float64)
    want = strata.nn.functional.conv1d(x, strata.tensor(3 * w), conv.bias)
    out = conv(x)
    np.testing.assert_allclose(out.detach().numpy(), want.detach().numpy())
    out.sum().backward()
    along = (v.grad.numpy() * v.detach().numpy()).sum(axes)  # a change of v's length changes nothing
    np.testing.assert_allclose(along, np.zeros_like(along), atol=1e-12)
    if older:
        nn.utils.remove_weight_norm(conv)
        np.testing.assert_allclose(conv.weight.detach().numpy(), 3 * w)
        assert [n for n, _ in conv.named_parameters()] == ["bias", "weight"]


@pytest.mark.parametrize("older", [False, True])
def test_spectral_norm_reaches_the_largest_singular_value(older):
    strata.manual_seed(0)
    layer = nn.ConvTranspose2d(4, 3, 2).double()
    matrix = layer.weight.detach().numpy().transpose(1, 0, 2, 3).reshape(3, -1)
    (nn.utils if older else parametrizations).spectral_norm(layer)
    x = strata.randn(1, 4, 5, 5, dtype=strata.float64)
    for _ in range(200):
        layer(x)
    layer.eval()
    first, second = layer(x), layer(x)
    assert strata.equal(first, second), "in evaluation mode nothing moves"
    np.testing.assert_allclose(
        layer.weight.detach().numpy().transpose(1, 0, 2, 3).reshape(3, -1),
        matrix / np.linalg.svd(matrix, compute_uv=False)[0],
        rtol=1e-6,
    )
    (first.sum() + layer.train()(x).sum()).backward()
    assert all(p.grad is not None for p in layer.parameters())
    if older:
        assert {"weight_orig", "weight_u", "weight_v"} <= set(layer.state_dict())
        nn.utils.remove_spectral_norm(layer)
        assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_older_norms_refuse_what_they_cannot_do():
    fc = nn.utils.weight_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="two weight_norm hooks"):
        nn.utils.weight_norm(fc)
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_spectral_norm(fc)
    with pytest.raises(ValueError, match="no parameter 'x'"):
        nn.utils.weight_norm(nn.Linear(2, 2), "x")


def test_functional_call_leaves_the_module_alone():
    fc = nn.Linear(2, 2)
    kept, w, x = fc.weight, strata.ones(2, 2, requires_grad=True), strata.tensor([[1.0, 2.0]])
    strata.func.functional_call(fc, ({"weight": w}, {"bias": strata.zeros(2)}), x).sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [[1, 2], [1, 2]])
    assert fc.weight is kept and kept.grad is None
    with pytest.raises(RuntimeError):
        strata.func.functional_call(fc, {"weight": strata.ones(3, 3)}, x)
    assert fc.weight is kept, "also after an error"
    with pytest.raises(RuntimeError, match="Missing key.*'bias'"):
        strata.func.functional_call(fc, {"weight": w}, x, strict=True)
    with pytest.raises(TypeError, match="'weight' must be a Tensor, got int"):
        strata.func.functional_call(fc, {"weight": 3}, x)
    tied = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    tied[1].weight = tied[0].weight
    assert strata.func.functional_call(tied, {"0.weight": strata.ones(2, 2)}, x).tolist() == [[6, 6]]


@pytest.mark.parametrize("kind", ["swa", "swa_avg_fn", "ema", "ema_avg_fn"])
def test_averages_of_weights(kind):
    made = {
        "swa": {},
        "swa_avg_fn": dict(avg_fn=swa_utils.get_swa_avg_fn()),
        "ema": dict(multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.75)),
        "ema_avg_fn": dict(avg_fn=swa_utils.get_ema_avg_fn(0.75)),
    }[kind]
    fc = nn.Linear(2, 2).double()
    average, seen = swa_utils.AveragedModel(fc, **made), []
    for _ in range(4):
        with strata.no_grad():
            fc.weight.normal_()
        average.update_parameters(fc)
        seen.append(fc.weight.detach().numpy().copy())
    want = seen[0]
    for w in seen[1:]:
        want = 0.75 * want + 0.25 * w
    want = np.mean(seen, axis=0) if kind.startswith("swa") else want
    np.testing.assert_allclose(average.module.weight.detach().numpy(), want)
    assert int(average.n_averaged) == 4 and "n_averaged" in average.state_dict()
    with pytest.raises(ValueError, match="must have the parameters"):
        average.update_parameters(nn.Linear(3, 2))


def test_update_bn_takes_the_mean_over_the_batches():
    net = nn.Sequential(nn.BatchNorm1d(2)).double().eval()
    batches = [np.random.RandomState(i).randn(5, 2) for i in range(3)]
    swa_utils.update_bn([(strata.tensor(b), 0) for b in batches], net)
    np.testing.assert_allclose(net[0].running_mean.numpy(), np.mean([b.mean(0) for b in batches], axis=0))
    np.testing.assert_allclose(net[0].running_var.numpy(), np.mean([b.var(0, ddof=1) for b in batches], axis=0))
    assert net[0].momentum == 0.1 and not net.training
    net[0].reset_running_stats()
    assert net[0].running_mean.tolist() == [0, 0] and net[0].running_var.tolist() == [1, 1]


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swalr_anneals_and_stays(strategy):
    optimizer = strata.optim.SGD([strata.ones(1, requires_grad=True)], lr=1.0)
    schedule, rates = swa_utils.SWALR(optimizer, 0.1, anneal_epochs=4, anneal_strategy=strategy), []
    for _ in range(6):
        optimizer.step()
        schedule.step()
        rates.append(schedule.get_last_lr()[0])
    t = np.minimum(np.arange(1, 7) / 4, 1)
    share = (1 - np.cos(np.pi * t)) / 2 if strategy == "cos" else t
    np.testing.assert_allclose(rates, 0.1 * share + 1.0 * (1 - share))
    with pytest.raises(ValueError, match="anneal_strategy"):
        swa_utils.SWALR(optimizer, 0.1, anneal_strategy="x")


@pytest.mark.parametrize("orthogonal_map", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_orthogonal_weights_stay_orthogonal(orthogonal_map, shape):
    layer = strata.nn.utils.parametrizations.orthogonal(strata.nn.Linear(shape[1], shape[0]), "weight", orthogonal_map)
    optimizer = strata.optim.SGD(layer.parameters(), 0.5)
    before = layer.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        (layer(strata.ones(2, shape[1])) ** 2).sum().backward()
        optimizer.step()
    w = layer.weight if shape[0] <= shape[1] else layer.weight.mT
    np.testing.assert_allclose((w @ w.mT).detach().numpy(), np.eye(min(shape)), atol=1e-5)
    assert float((layer.weight - before).abs().max()) > 1e-3


def test_orthogonal_refuses_what_it_cannot_do():
    from strata.nn.utils.parametrizations import orthogonal

    with pytest.raises(ValueError, match="matrix"):
        orthogonal(strata.nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="no parameter"):
        orthogonal(strata.nn.Linear(2, 2), "zork")
    with pytest.raises(ValueError, match="orthogonal_map"):
        orthogonal(strata.nn.Linear(2, 2), orthogonal_map="zork")
