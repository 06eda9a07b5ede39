"""Nested tensors whose components differ in several dimensions, against calls with each component."""

import copy
import pickle

import pytest
import strata
import strata.nn.functional as F
from test_nested import same

nested_tensor, as_nested_tensor = strata.nested.nested_tensor, strata.nested.as_nested_tensor
devices = pytest.mark.parametrize("device", ["cpu", "vgpu"])


def parts(device="cpu"):
    return [strata.randn(*s, device=device) for s in ((2, 3, 4), (1, 5, 4), (3, 0, 4))]


FUNCTIONS = {
    "arithmetic": lambda x: 1 - (x * 2 + x) / strata.tensor(3.0),
    "activations": lambda x: F.gelu(F.relu(x)) + x.sigmoid() + F.dropout(x, 0.5, False),
    "comparisons": lambda x: x.masked_fill(x > 0, 7.0) + (x == 0),
    "linear": lambda x: F.linear(x, strata.ones(6, 4, device=x.device), strata.ones(6, device=x.device)),
    "layer_norm": lambda x: F.layer_norm(x, (4,)) + F.rms_norm(x, (4,)),
    "softmax": lambda x: F.softmax(x, -1) + x.log_softmax(dim=-1) + x.softmax(-2),
    "products": lambda x: (x @ x.transpose(-1, -2)) @ x,
    "matrix": lambda x: x @ strata.ones(4, 2, device=x.device),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "shapes": lambda x: x.transpose(-1, -2).contiguous().unsqueeze(-2).squeeze(-2),
    "split": lambda x: x.chunk(2, -1)[0] + x.split(2, -1)[1],
    "cat": lambda x: strata.cat([x, x * 2], -1),
    "sums": lambda x: x.sum(-1, True) + x.mean(-1, keepdim=True) + x.amax(-1, True),
    "select": lambda x: x.select(-1, 2),
    "dtypes": lambda x: x.double().clone().detach().to(strata.float32),
}


@devices
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_work_on_every_component(name, device):
    components, function = parts(device), FUNCTIONS[name]
    out = function(nested_tensor(components))
    assert out.layout == "strided" and out.device.type == device
    same(out, [function(c) for c in components])


def test_facts():
    x = nested_tensor(parts())
    assert x.is_nested and x.dim() == x.ndim == 4 and len(x) == x.size(0) == 3 and x.size(-1) == 4
    assert x.numel() == 44 and x.values().shape == (44,) and x.is_contiguous()
    assert x._nested_tensor_size().tolist() == [[2, 3, 4], [1, 5, 4], [3, 0, 4]]
    assert repr(x.shape) == "(3, j1, j2, 4)" and x.shape == (x * 2).shape != nested_tensor(parts()).shape
    assert repr(nested_tensor([strata.zeros(1, 2), strata.zeros(2, 1)])) == (
        "nested_tensor([\n  tensor([[0., 0.]]),\n  tensor([[0.],\n          [0.]])\n])"
    )
    same(x[:, 0:1], [c[0:1] for c in x])
    assert strata.equal(x[1], x.unbind()[1]) and strata.equal(x[0, 1], x[0][1])
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), as_nested_tensor(x)):
        same(again, x.unbind())
    y = x.clone()
    assert y.mul_(2) is y and y.fill_(3.0) is y
    same(y, [strata.full_like(c, 3) for c in x])
    regular = nested_tensor([strata.randn(2, 3), strata.randn(4, 3)])
    same(regular @ regular.transpose(1, 2), [c @ c.T for c in regular])
    same(regular.softmax(1), [c.softmax(0) for c in regular])


def test_padding_fills_all_dimensions():
    a, b = strata.ones(2, 3), strata.ones(4, 1)
    dense = nested_tensor([a, b]).to_padded_tensor(9)
    assert dense.shape == (2, 4, 3) and (dense[0, 2:] == 9).all() and (dense[1, :, 1:] == 9).all()
    assert strata.equal(dense[0, :2], a) and strata.equal(dense[1, :, :1], b)
    assert nested_tensor([a, b]).to_padded_tensor(0, (2, 5, 6)).shape == (2, 5, 6)


@devices
def test_gradients(device):
    components = [p.requires_grad_() for p in parts(device)]
    (as_nested_tensor(components) * 3).to_padded_tensor(0).square().sum().backward()
    for c in components:
        assert strata.allclose(c.grad, 18 * c)
    x = nested_tensor(parts(device), requires_grad=True)
    (x @ x.transpose(-1, -2)).to_padded_tensor(0).sum().backward()
    leaves = [c.detach().requires_grad_() for c in x.unbind()]
    sum((c @ c.transpose(-1, -2)).sum() for c in leaves).backward()
    same(x.grad, [c.grad for c in leaves])


@devices
def test_narrow_takes_pieces_of_rows(device):
    x = strata.randn(3, 6, 2, device=device, requires_grad=True)
    starts, lengths = strata.tensor([0, 2, 5]), strata.tensor([3, 4, 0])
    for layout in ("strided", "jagged"):
        got = strata.nested.narrow(x, 1, starts, lengths, layout=layout)
        assert got.layout == layout
        same(got, [x[0, :3], x[1, 2:6], x[2, 5:5]])
    same(strata.nested.narrow(x, -1, 1, 1), [row[:, 1:] for row in x])
    strata.nested.narrow(x, 1, starts, lengths).values().sum().backward()
    assert x.grad.sum((1, 2)).tolist() == [6, 8, 0]
    for arguments, text in (
        ((x, 0, 0, 1), "dim must be one of 1 to 2"),
        ((x, 1, strata.tensor([0]), 1), "expected 3 numbers in start, found 1"),
        ((x, 1, 4, 5), "exceeds dimension size"),
        ((x[0, 0], 1, 0, 1), "at least 2 dimensions"),
    ):
        with pytest.raises(RuntimeError, match=text):
            strata.nested.narrow(*arguments)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: x + nested_tensor([strata.ones(1, 2, 3), strata.ones(2, 1, 3)]), RuntimeError, "equal sizes"),
        (lambda x: x + strata.ones(3, 1, 1), NotImplementedError, "dense"),
        (lambda x: x.softmax(0), NotImplementedError, "batch"),
        (lambda x: x.softmax(4), IndexError, "out of range"),
        (lambda x: x.fft(), AttributeError, "fft"),
        (lambda x: strata.fft.fft(x), NotImplementedError, "fft is not available"),
        (lambda x: x.size(), RuntimeError, "different sizes"),
        (lambda x: x.size(1), RuntimeError, "irregular"),
        (lambda x: x.offsets(), RuntimeError, "unbind"),
        (lambda x: x.to_padded_tensor(0, (3, 2, 2, 2)), RuntimeError, "smaller"),
        (lambda x: x.unbind(1), RuntimeError, "dim 0"),
        (lambda x: x @ nested_tensor(parts()[:2]), RuntimeError, "one length"),
        (lambda x: strata.ones(4, 4) @ x, NotImplementedError, "matmul"),
        (lambda x: x.split(2, 1), RuntimeError, "different numbers of pieces"),
        (lambda x: nested_tensor(parts(), layout="jagged"), NotImplementedError, "layout=torch.strided"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(nested_tensor(parts()))
