"""Nested tensors against calls with each component."""

import copy
import pickle

import numpy as np
import pytest
import strata
import strata.nn as nn
import strata.nn.functional as F

LAYOUTS = ["strided", "jagged"]
nested_tensor, as_nested_tensor = strata.nested.nested_tensor, strata.nested.as_nested_tensor


def parts(dtype=strata.float32, device="cpu"):
    return [strata.randn(n, 8, dtype=dtype, device=device) for n in (3, 5, 0, 1)]


def same(got, components):
    assert got.is_nested and len(got) == len(components)
    for g, w in zip(got.unbind(), components, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g.detach().cpu().numpy(), w.detach().cpu().numpy(), rtol=1e-4, atol=1e-5)


FUNCTIONS = {
    "arithmetic": lambda x: 1 - (x * 2 + 1) / 3,
    "two tensors": lambda x: x * x + x.sigmoid(),
    "a row": lambda x: x + strata.arange(8.0, device=x.device),
    "activations": lambda x: F.gelu(F.relu(x)) + F.silu(x) + strata.tanh(x),
    "softmax": lambda x: F.softmax(x, -1) + x.log_softmax(dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, (8,)) + F.rms_norm(x, (8,)),
    "matmul": lambda x: x @ strata.ones(8, 3, device=x.device),
    "linear": lambda x: F.linear(x, strata.ones(3, 8, device=x.device), strata.ones(3, device=x.device)),
    "pieces": lambda x: x.chunk(2, -1)[0] + x.split(4, dim=-1)[1],
    "cat": lambda x: strata.cat([x, x * 2], -1),
    "shapes": lambda x: x.unflatten(-1, (2, 4)).flatten(-2, -1).unsqueeze(-1).squeeze(-1),
    "inner sums": lambda x: x.sum(-1, True) + x.mean(-1, keepdim=True) + x.amax(-1, True),
    "slices": lambda x: x[..., 2:5],
    "dtypes": lambda x: x.double().to(strata.float32).clone().detach(),
}


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_work_on_every_component(name, layout, device):
    components, function = parts(device=device), FUNCTIONS[name]
    out = function(nested_tensor(components, layout=layout))
    assert out.layout == layout and out.device.type == device
    same(out, [function(c) for c in components])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_facts(layout):
    components = parts()
    x = nested_tensor(components, layout=layout)
    assert (
        x.is_nested and not strata.ones(1).is_nested and x.dim() == x.ndim == 3 and x.size(0) == 4 and x.size(-1) == 8
    )
    assert x.numel() == 72 and x.dtype is strata.float32 and x.offsets().tolist() == [0, 3, 8, 8, 9]
    assert x.values().shape == (9, 8) and x.is_leaf and not x.requires_grad and x.is_contiguous()
    if layout == "strided":
        with pytest.raises(RuntimeError, match="different sizes"):
            x.size()
        with pytest.raises(RuntimeError, match="irregular"):
            x.size(1)
    else:
        assert x.size() == x.shape and x.shape[1] == (x * 2).shape[1] and str(x.shape) == "(4, j1, 8)"
    same(copy.deepcopy(x), components)
    same(pickle.loads(pickle.dumps(x)), components)
    same(x.view(4, -1, 2, 4).reshape(4, -1, 8), components)
    assert strata.equal(x[1], components[1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding(layout):
    components = parts()
    x = nested_tensor(components, layout=layout, requires_grad=True)
    dense = x.to_padded_tensor(-7.0)
    assert dense.shape == (4, 5, 8)
    for row, c in zip(dense, components, strict=True):
        assert strata.equal(row[: len(c)], c) and bool((row[len(c) :] == -7).all())
    assert strata.nested.to_padded_tensor(x, 0, (4, 9, 8)).shape == (4, 9, 8)
    dense.sum().backward()
    same(x.grad, [strata.ones_like(c) for c in components])
    assert nested_tensor([strata.zeros(0, 2)] * 2, layout=layout).to_padded_tensor(0).shape == (2, 0, 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_reductions_over_components(layout):
    components = [c for c in parts() if len(c)]
    x = nested_tensor(components, layout=layout)
    for got, want in (
        (x.sum(1), [c.sum(0) for c in components]),
        (x.mean(dim=1), [c.mean(0) for c in components]),
        (x.amax(1), [c.amax(0) for c in components]),
    ):
        np.testing.assert_allclose(got.numpy(), strata.stack(want).numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(float(x.sum()), sum(float(c.sum()) for c in components), rtol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_attention_and_its_gradients(layout, causal, device):
    components = [c.requires_grad_() for c in parts(device=device) if len(c)]
    project = nn.Linear(8, 24).to(device)

    def attend(x, split, merge):
        q, k, v = (split(t) for t in project(x).chunk(3, -1))
        return merge(F.scaled_dot_product_attention(q, k, v, is_causal=causal))

    x = as_nested_tensor(components, layout=layout)
    out = attend(x, lambda t: t.unflatten(-1, [2, 4]).transpose(1, 2), lambda t: t.transpose(1, 2).flatten(2))
    want = [
        attend(c, lambda t: t.unflatten(-1, [2, 4]).transpose(0, 1), lambda t: t.transpose(0, 1).flatten(1))
        for c in components
    ]
    same(out, want)
    wanted = strata.autograd.grad(sum((w**2).sum() for w in want), [*components, project.weight])
    found = strata.autograd.grad((out * out).sum(), [*components, project.weight])
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g.cpu().numpy(), w.cpu().numpy(), rtol=1e-3, atol=1e-4)


def test_jagged_values_without_copies():
    values = strata.randn(6, 2, requires_grad=True)
    x = strata.nested.nested_tensor_from_jagged(values, strata.tensor([0, 2, 6]))
    assert x.values() is values
    (x * 3).sum().backward()
    assert values.grad.tolist() == [[3.0, 3.0]] * 6
    same(strata.nested.nested_tensor_from_jagged(values, lengths=strata.tensor([2, 4])), [values[:2], values[2:]])
    same(as_nested_tensor(strata.ones(2, 3, 4)), [strata.ones(3, 4)] * 2)
    layer = nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1)).eval()
    same(layer(x), [layer(values[:2]), layer(values[2:])])
    same(strata.cat([x, x]), [values[:2], values[2:]] * 2)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: strata.fft.fft(x), NotImplementedError, "fft is not available"),
        (lambda x: nested_tensor(parts(), layout="jagged").softmax(1), NotImplementedError, "different sizes"),
        (lambda x: x + strata.ones(4, 5, 8), NotImplementedError, "dense"),
        (
            lambda x: x + nested_tensor([strata.ones(2, 8)]),
            (RuntimeError, NotImplementedError),
            "dimensions|equal lengths",
        ),
        (lambda x: x.numpy(), TypeError, "to_padded_tensor"),
        (lambda x: bool(x), RuntimeError, "truth"),
        (lambda x: x.view(32, 8), NotImplementedError, "view"),
        (lambda x: x.transpose(0, 1), NotImplementedError, "transpose"),
        (lambda x: F.scaled_dot_product_attention(x, x, x), NotImplementedError, "heads"),
        (lambda x: nested_tensor([]), RuntimeError, "empty"),
        (
            lambda x: nested_tensor([strata.ones(2, 3), strata.ones(2, 4)], layout="jagged"),
            NotImplementedError,
            "first dimension",
        ),
        (lambda x: nested_tensor([strata.ones(2), strata.ones(2, 2)]), RuntimeError, "number of dimensions"),
        (lambda x: nested_tensor([strata.ones(2)], layout="sparse_coo"), RuntimeError, "layouts"),
        (
            lambda x: strata.nested.nested_tensor_from_jagged(strata.ones(4), strata.tensor([0, 5])),
            RuntimeError,
            "rise",
        ),
        (lambda x: strata.nested.nested_tensor_from_jagged(strata.ones(4)), RuntimeError, "at least one"),
        (lambda x: x.to_padded_tensor(0, (4, 2, 8)), RuntimeError, "smaller"),
    ],
)
def test_nothing_becomes_dense_silently(call, error, text):
    with pytest.raises(error, match=text):
        call(nested_tensor(parts()))


def test_masked_select_keeps_the_chosen_elements_of_rows():
    x = strata.arange(6.0).reshape(2, 3).requires_grad_()
    mask = strata.tensor([[True, False, True], [False, True, False]])
    chosen = strata.nested.masked_select(x, mask)
    assert [t.tolist() for t in chosen.unbind()] == [[0, 2], [4]] and chosen.layout == "jagged"
    chosen.values().sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [0, 1, 0]]
    wide = strata.nested.masked_select(strata.tensor([1.0, 2.0, 3.0]), mask)  # broadcast over the rows
    assert [t.tolist() for t in wide.unbind()] == [[1, 3], [2]]
    with pytest.raises(ValueError, match="mask of bool"):
        strata.nested.masked_select(x, mask.long())
