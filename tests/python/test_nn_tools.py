"""nn.init and nn.utils: distributions of the initial values, clipping, vectors, fusing."""

import math

import numpy as np
import pytest
import strata
from strata import nn
from strata.nn import init, utils


def numbers(t):
    return t.detach().numpy()


@pytest.mark.parametrize(
    ("name", "options", "std", "bound"),
    [
        ("uniform_", {"a": -2.0, "b": 2.0}, 2 / math.sqrt(3), 2),
        ("normal_", {"mean": 0.0, "std": 3.0}, 3, None),
        ("xavier_uniform_", {}, math.sqrt(2 / 500), math.sqrt(6 / 500)),
        ("xavier_normal_", {"gain": 2.0}, 2 * math.sqrt(2 / 500), None),
        ("kaiming_uniform_", {"nonlinearity": "relu"}, math.sqrt(2 / 200), math.sqrt(6 / 200)),
        ("kaiming_normal_", {"mode": "fan_out", "nonlinearity": "linear"}, math.sqrt(1 / 300), None),
    ],
)
def test_distributions(name, options, std, bound):
    strata.manual_seed(0)
    w = nn.Parameter(strata.empty(300, 200))
    assert getattr(init, name)(w, **options) is w
    values = numbers(w)
    assert abs(values.mean()) < 4 * std / math.sqrt(values.size)
    assert abs(values.std() / std - 1) < 0.02
    if bound:
        assert abs(values).max() <= bound
        assert abs(values).max() > 0.99 * bound


def test_truncated_normal_is_cut():
    strata.manual_seed(0)
    values = numbers(init.trunc_normal_(strata.empty(50000), mean=1.0, std=2.0, a=0.0, b=3.0))
    assert values.min() >= 0
    assert values.max() <= 3
    # The mean of a normal distribution cut at -1/2 and 1 standard deviations.
    pdf, cdf = (lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)), (lambda x: (1 + math.erf(x / 2**0.5)) / 2)
    expected = 1 + 2 * (pdf(-0.5) - pdf(1)) / (cdf(1) - cdf(-0.5))
    assert abs(values.mean() - expected) < 0.02


def test_exact_patterns():
    assert numbers(init.eye_(strata.empty(2, 3))).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert numbers(init.constant_(strata.empty(2), 7)).tolist() == [7, 7]
    assert numbers(init.ones_(strata.empty(2))).tolist() == [1, 1]
    assert numbers(init.zeros_(strata.ones(2))).tolist() == [0, 0]
    x = strata.randn(1, 4, 5, 5)
    weight = init.dirac_(strata.empty(4, 2, 3, 3), groups=2)
    assert strata.equal(nn.functional.conv2d(x, weight, padding=1, groups=2), x)
    for shape in ((5, 3), (3, 5), (4, 2, 3)):
        flat = numbers(init.orthogonal_(strata.empty(*shape), gain=2.0)).reshape(shape[0], -1)
        gram = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)
    sparse = numbers(init.sparse_(strata.empty(10, 4), 0.3))
    assert (sparse == 0).sum(0).tolist() == [3, 3, 3, 3]


def test_gains_and_mistakes():
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("sine")
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(strata.empty(3))
    assert init.kaiming_uniform_(strata.empty(0, 3)).shape == (0, 3)


def test_layers_start_as_pytorchs_do():
    strata.manual_seed(0)
    linear, conv = nn.Linear(100, 400), nn.Conv2d(16, 64, 5)
    for weight, bias, fan in ((linear.weight, linear.bias, 100), (conv.weight, conv.bias, 400)):
        for t in (weight, bias):
            assert abs(numbers(t)).max() <= 1 / math.sqrt(fan)
            assert abs(numbers(t)).max() > 0.95 / math.sqrt(fan)
    assert abs(nn.Embedding(1000, 20).weight.std().item() - 1) < 0.02
    assert (nn.Embedding(5, 3, padding_idx=1).weight[1] == 0).all()
    table = nn.Embedding.from_pretrained(strata.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert table(strata.tensor([1])).tolist() == [[3.0, 4.0]]
    assert not table.weight.requires_grad


def with_grads(*grads):
    ps = [nn.Parameter(strata.zeros(g.shape, dtype=strata.float64)) for g in grads]
    for p, g in zip(ps, grads, strict=True):
        p.grad = strata.tensor(g)
    return ps


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
def test_clip_grad_norm(norm_type):
    rng = np.random.default_rng(0)
    grads = [rng.standard_normal((3, 4)), rng.standard_normal(5), np.zeros(0)]
    ps = [*with_grads(*grads), nn.Parameter(strata.zeros(2))]
    flat = np.concatenate([g.reshape(-1) for g in grads])
    want = np.linalg.norm(flat, norm_type)
    total = utils.clip_grad_norm_(ps, 0.5, norm_type)
    np.testing.assert_allclose(total.item(), want, rtol=1e-7)
    for p, g in zip(ps, grads, strict=False):
        np.testing.assert_allclose(numbers(p.grad), g * 0.5 / (want + 1e-6), rtol=1e-7)
    before = numbers(ps[0].grad).copy()
    utils.clip_grad_norm_(ps, 1e6, norm_type)
    assert (numbers(ps[0].grad) == before).all()


def test_clip_without_or_with_bad_gradients():
    assert utils.clip_grad_norm_([nn.Parameter(strata.ones(2))], 1.0).item() == 0
    (p,) = with_grads(np.array([1.0, math.inf]))
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    (p,) = with_grads(np.array([3.0, -0.5]))
    utils.clip_grad_value_(p, 1)
    assert p.grad.tolist() == [1.0, -0.5]
    half = nn.Parameter(strata.zeros(1000, dtype=strata.float16))
    half.grad = strata.full((1000,), 300.0, dtype=strata.float16)  # the sum of squares overflows float16
    assert abs(utils.clip_grad_norm_(half, 1.0).item() / (300 * math.sqrt(1000)) - 1) < 1e-3


def test_vectors_and_fusing():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (13,)
    utils.vector_to_parameters(vector * 2, net.parameters())
    assert strata.equal(utils.parameters_to_vector(net.parameters()), vector * 2)
    strata.manual_seed(0)
    conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
    norm(conv(strata.randn(8, 3, 5, 5)))
    conv.eval(), norm.eval()
    x = strata.randn(2, 3, 5, 5)
    fused = utils.fuse_conv_bn_eval(conv, norm)
    np.testing.assert_allclose(numbers(fused(x)), numbers(norm(conv(x))), rtol=1e-4, atol=1e-5)


def test_padding_of_sequences():
    a, b = strata.tensor([1.0, 2.0, 3.0]), strata.tensor([4.0])
    assert utils.rnn.pad_sequence([a, b], batch_first=True).tolist() == [[1, 2, 3], [4, 0, 0]]
    assert utils.rnn.pad_sequence([b, a], True, -1.0, "left").tolist() == [[-1, -1, 4], [1, 2, 3]]
    packed = utils.rnn.pack_sequence([b, a], enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [2, 1, 1]
    padded, lengths = utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=4)
    assert padded.tolist() == [[4, 0, 0, 0], [1, 2, 3, 0]]
    assert lengths.tolist() == [1, 3]
