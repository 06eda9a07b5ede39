"""Every module of the records against NumPy in float64: values, and gradients by differences of the NumPy function."""

import json
import pathlib

import numpy as np
import pytest
import strata
from loss_references import LOSSES, OTHERS
from module_references import ACTIVATIONS, LAYERS
from module_samples import LABELS, RECORDS, SAMPLES, arguments, inputs, made

REFERENCES = {**ACTIVATIONS, **LAYERS, **LOSSES, **OTHERS}
DROPOUTS = {"Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"}
RANDOM = DROPOUTS | {"RReLU", "FractionalMaxPool2d", "FractionalMaxPool3d"}
REPRS = json.loads((pathlib.Path(__file__).parent / "module_reprs.json").read_text())


def numbers(t):
    return t.detach().numpy().copy()


def in_double(record, number):
    """Module and inputs of a sample in float64; running statistics start as they are."""
    strata.manual_seed(11)
    module = made(record, number).double()
    xs = [x.double() if x.is_floating_point() else x for x in inputs(record, number)]
    return module, xs


def value_of(record, number, module, xs):
    state = {name: numbers(t) for name, t in module.state_dict().items()}
    return REFERENCES[record.name](state, arguments(record, number), *[numbers(x) for x in xs])


CASES = [(s, label) for s, label in zip(SAMPLES, LABELS, strict=True) if s[0].name not in RANDOM]


def test_every_module_has_a_reference_and_a_sample():
    missing = {r.name for r in RECORDS} - set(REFERENCES) - RANDOM
    assert not missing, f"add a NumPy function to module_references.py or loss_references.py for {missing}"
    assert {r.name for r in RECORDS} == set(REFERENCES) | RANDOM
    assert all(r.samples for r in RECORDS)
    assert len(RECORDS) > 100


@pytest.mark.parametrize("case", [c[0] for c in CASES], ids=[c[1] for c in CASES])
def test_values(case):
    module, xs = in_double(*case)
    expected = value_of(*case, module, xs)
    np.testing.assert_allclose(numbers(module(*xs)), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("case", [c[0] for c in CASES], ids=[c[1] for c in CASES])
def test_gradients_agree_with_differences_of_the_reference(case):
    module, xs = in_double(*case)
    varied = [x for x in xs if x.is_floating_point()] + list(module.parameters())
    if case[0].name in ("BCELoss", "BCEWithLogitsLoss", "KLDivLoss", "MultiLabelSoftMarginLoss"):
        varied = varied[:1]  # the target is a constant
    for t in varied:
        t.requires_grad_()
    log_inputs = case[0].name == "CTCLoss"  # its gradient holds for normalised log probabilities

    def prepared():
        return [strata.log_softmax(xs[0], -1), *xs[1:]] if log_inputs else xs

    out = module(*prepared())
    weights = strata.randn(tuple(out.shape), dtype=strata.float64)
    (out * weights).sum().backward()
    rng, step = np.random.default_rng(5), 1e-6
    for t in varied:
        direction = rng.standard_normal(tuple(t.shape))
        if arguments(*case).get("padding_idx") is not None:
            direction[module.padding_idx] = 0  # that row receives no gradient by definition
        sides = []
        for sign in (1, -1):
            with strata.no_grad():
                t += strata.tensor(sign * step * direction)
                sides.append((value_of(*case, module, prepared()) * numbers(weights)).sum())
                t -= strata.tensor(sign * step * direction)
        slope = 0.0 if t.grad is None else (numbers(t.grad) * direction).sum()
        np.testing.assert_allclose(slope, (sides[0] - sides[1]) / (2 * step), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", SAMPLES, ids=LABELS)
def test_text_is_pytorchs(case):
    record, number = case
    key, text = f"{record.name} {number}", repr(made(*case))
    assert key in REPRS, (
        f"add what PyTorch prints, or the intended text, to module_reprs.json: {json.dumps({key: text})}"
    )
    assert text == REPRS[key]


@pytest.mark.parametrize("case", SAMPLES, ids=LABELS)
def test_state_survives_a_round_trip(case):
    strata.manual_seed(1)
    first = made(*case)
    strata.manual_seed(2)
    second = made(*case)
    assert str(second.load_state_dict(first.state_dict())) == "<All keys matched successfully>"
    for (name, a), (other, b) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert name == other
        assert strata.equal(a, b)
    first.eval(), second.eval()
    xs = inputs(*case)
    results = []
    for module in (first, second):
        strata.manual_seed(3)  # some pools draw in evaluation too
        results.append(module(*xs))
    assert strata.equal(*results)


@pytest.mark.parametrize("name", sorted(DROPOUTS))
def test_dropout_drops_in_training_only(name):
    strata.manual_seed(3)
    module = getattr(strata.nn, name)(0.25)
    x = strata.randn((40, 50, 4, 4, 4)[: 5 if name == "Dropout3d" else 4 if name == "Dropout2d" else 3])
    y = module(x)
    assert not strata.equal(x, y)
    if name == "Dropout":
        kept = y != 0
        assert 0.72 < kept.float().mean().item() < 0.78
        np.testing.assert_allclose(numbers(y)[numbers(kept)], numbers(x)[numbers(kept)] / 0.75, rtol=1e-6)
    elif "Alpha" not in name:
        zeros = (y == 0).reshape(40, 50, -1)
        assert strata.equal(zeros.all(-1), zeros.any(-1))  # whole channels or nothing
        assert 0.2 < zeros.all(-1).float().mean().item() < 0.3
    else:
        assert abs(y.mean().item()) < 0.1
        assert abs(y.var().item() - 1) < 0.1
    module.eval()
    assert strata.equal(module(x), x)


def test_rrelu_draws_slopes_in_training():
    strata.manual_seed(3)
    module, x = strata.nn.RReLU(0.1, 0.3), strata.randn(1000)
    slopes = (module(x) / x)[x < 0]
    assert 0.1 <= slopes.min().item() < 0.12
    assert 0.28 < slopes.max().item() < 0.3
    assert strata.equal(module(x)[x > 0], x[x > 0])
    module.eval()
    np.testing.assert_allclose(numbers(module(x)[x < 0]), 0.2 * numbers(x[x < 0]), rtol=1e-6)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_pool_takes_windows_at_the_given_places(n):
    strata.manual_seed(3)
    samples, x = strata.rand(1, 2, n), strata.randn(1, 2, *[7] * n)
    module = getattr(strata.nn, f"FractionalMaxPool{n}d")(2, output_size=3, _random_samples=samples)
    out, size, step = numbers(module(x)), 3, (7 - 2) / (3 - 1)
    for c in range(2):
        starts = []
        for d in range(n):
            u = numbers(samples)[0, c, 1 - d if n == 2 else d].item()  # in two dimensions the width comes first
            starts.append([int((i + u) * step) - int(u * step) for i in range(size - 1)] + [7 - 2])
        for at in np.ndindex(*[size] * n):
            cut = tuple(slice(starts[d][at[d]], starts[d][at[d]] + 2) for d in range(n))
            assert out[(0, c, *at)] == numbers(x)[(0, c, *cut)].max()
    with pytest.raises(ValueError, match="exactly one of output_size and output_ratio"):
        type(module)(2)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_batch_norm_keeps_running_statistics(momentum):
    strata.manual_seed(4)
    module = strata.nn.BatchNorm1d(3, momentum=momentum).double()
    mean, var = np.zeros(3), np.ones(3)
    for count in range(1, 4):
        x = strata.randn(5, 3, 4, dtype=strata.float64) * count + 1
        module(x)
        factor = 1 / count if momentum is None else momentum
        mean = mean * (1 - factor) + factor * numbers(x).mean((0, 2))
        var = var * (1 - factor) + factor * numbers(x).var((0, 2), ddof=1)
    np.testing.assert_allclose(numbers(module.running_mean), mean, rtol=1e-7)
    np.testing.assert_allclose(numbers(module.running_var), var, rtol=1e-7)
    assert module.num_batches_tracked.item() == 3
    module.eval()
    expected = (numbers(x) - mean[:, None]) / np.sqrt(var + 1e-5)[:, None]
    np.testing.assert_allclose(numbers(module(x)), expected, rtol=1e-7, atol=1e-7)
    assert module.num_batches_tracked.item() == 3


@pytest.mark.parametrize("dtype", [strata.float32, strata.float16, strata.bfloat16])
@pytest.mark.parametrize("name", ["Linear", "Conv2d", "LayerNorm", "BatchNorm2d", "Embedding"])
def test_modules_are_made_in_a_dtype(name, dtype):
    record, number = next(s for s in SAMPLES if s[0].name == name)
    text = record.samples[number][0]
    module = eval(f"nn.{name}({text}, dtype=dtype)", {"nn": strata.nn, "dtype": dtype})
    assert all(p.dtype == dtype for p in module.parameters())
    xs = [x.to(dtype) if x.is_floating_point() else x for x in inputs(record, number)]
    assert module(*xs).dtype == dtype


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda nn: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
        (lambda nn: nn.Conv2d(3, 4, 3, padding="full"), ValueError, "padding must be amounts"),
        (lambda nn: nn.Conv2d(3, 4, 3, padding_mode="odd"), ValueError, "padding_mode must be one of"),
        (lambda nn: nn.Conv2d(3, 4, (3, 3, 3)), ValueError, "kernel_size: expected one integer or a list of 2"),
        (lambda nn: nn.Linear(-1, 3), RuntimeError, "negative"),
        (lambda nn: nn.Dropout(1.5), ValueError, "between 0 and 1"),
        (lambda nn: nn.GroupNorm(3, 4), ValueError, "divisible by num_groups"),
        (lambda nn: nn.Embedding(5, 3, padding_idx=5), ValueError, "within num_embeddings"),
        (lambda nn: nn.EmbeddingBag(5, 3, mode="min"), ValueError, "one of sum, mean or max"),
        (lambda nn: nn.MSELoss(reduction="product"), ValueError, "not a valid value for reduction"),
        (lambda nn: nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"), ValueError, "only padding_mode='zeros'"),
        (lambda nn: nn.BatchNorm2d(3)(strata.randn(2, 3)), ValueError, "expected 4D input"),
        (lambda nn: nn.ConvTranspose1d(1, 1, 2, stride=2)(strata.randn(1, 1, 3), [9]), ValueError, "valid sizes"),
        (lambda nn: nn.NoSuchModule(1), AttributeError, "no attribute 'NoSuchModule'"),
        (lambda nn: nn.Linear(3, 2)(strata.randn(2, 4)), RuntimeError, "input has 4 features"),
    ],
)
def test_mistakes_are_explained(build, error, text):
    with pytest.raises(error, match=text):
        build(strata.nn)
