"""Sparse gradients of embeddings and the optimizers that take them, beside dense gradients and NumPy. The texts of errors are
PyTorch 2.15's."""

import copy
import io

import numpy as np
import pytest
import strata
import strata.nn.functional as F
from strata import nn, optim

DEVICES = ["cpu", "vgpu"]
INDICES = [[0, 1, 4], [3, 0, 1]]


def table(device="cpu", dtype=strata.float64, rows=5):
    values = np.random.default_rng(1).standard_normal((rows, 3))
    return strata.tensor(values, dtype=dtype, device=device, requires_grad=True)


def both(call, device="cpu", dtype=strata.float64):
    """The gradients of a weight, dense and sparse: call(weight, sparse) returns the output."""
    found = []
    for sparse in (False, True):
        weight = table(device, dtype)
        out = call(weight, sparse)
        factors = strata.arange(out.numel(), device=device).reshape(out.shape).to(dtype) + 1
        (out * factors).sum().backward()
        found.append(weight.grad)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [strata.float64, strata.float32, strata.bfloat16])
@pytest.mark.parametrize("index_dtype", [strata.int64, strata.int32])
@pytest.mark.parametrize("padding", [None, 1, -5])
def test_gradients_of_an_embedding(device, dtype, index_dtype, padding):
    indices = strata.tensor(INDICES, dtype=index_dtype, device=device)
    dense, sparse = both(lambda w, s: F.embedding(indices, w, padding, sparse=s), device, dtype)
    assert sparse.is_sparse and sparse.layout == strata.sparse_coo and sparse.device.type == device
    assert sparse.dtype == dtype and sparse.shape == (5, 3) and (sparse.sparse_dim(), sparse.dense_dim()) == (1, 1)
    assert not sparse.is_coalesced() and not sparse.requires_grad
    left = [i for row in INDICES for i in row if padding is None or i != padding % 5]
    assert sparse._indices().tolist() == [left]
    assert strata.equal(sparse.to_dense(), dense)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [
    {"mode": "sum"},
    {"mode": "mean"},
    {"mode": "mean", "padding_idx": 1},
    {"mode": "sum", "per_sample_weights": [[0.5, 1, 2], [3, -1, 0.25]]},
    {"mode": "sum", "offsets": [0, 2, 2, 5]},
    {"mode": "mean", "offsets": [0, 2, 6], "include_last_offset": True},
])  # fmt: skip
def test_gradients_of_bags(device, options):
    options = dict(options)
    for name, dtype in (("offsets", strata.int64), ("per_sample_weights", strata.float64)):
        if name in options:
            options[name] = strata.tensor(options[name], dtype=dtype, device=device)
    indices = strata.tensor(INDICES, device=device)
    if "offsets" in options:
        indices = indices.reshape(-1)
    dense, sparse = both(lambda w, s: F.embedding_bag(indices, w, sparse=s, **options), device)
    assert sparse.is_sparse
    np.testing.assert_allclose(sparse.to_dense().cpu().numpy(), dense.cpu().numpy(), atol=1e-14)


def test_without_indices_the_gradient_has_no_rows():
    weight = table()
    F.embedding(strata.zeros(0, dtype=strata.int64), weight, sparse=True).sum().backward()
    assert weight.grad._nnz() == 0 and weight.grad.to_dense().tolist() == [[0.0] * 3] * 5
    weight = table()
    F.embedding(strata.tensor([2, 2]), weight, 2, sparse=True).sum().backward()  # padding only
    assert weight.grad._nnz() == 0


def test_gradients_accumulate():
    indices, weight = strata.tensor([0, 3, 0]), table()
    F.embedding(indices, weight, sparse=True).sum().backward()
    first = weight.grad
    F.embedding(strata.tensor([3, 4]), weight, sparse=True).sum().backward()
    assert weight.grad is first and first.is_sparse
    assert first.to_dense()[:, 0].tolist() == [2, 0, 0, 2, 1]
    weight.sum().backward()  # a dense gradient makes the sum dense
    assert not weight.grad.is_sparse and weight.grad[:, 0].tolist() == [3, 1, 1, 3, 2]
    dense = weight.grad
    F.embedding(indices, weight, sparse=True).sum().backward()
    assert weight.grad is dense and dense[:, 0].tolist() == [5, 1, 1, 4, 2]
    # Two uses in one graph.
    weight = table()
    (F.embedding(indices, weight, sparse=True).sum() + F.embedding(indices + 1, weight, sparse=True).sum()).backward()
    assert weight.grad.is_sparse and weight.grad.to_dense()[:, 0].tolist() == [2, 2, 0, 1, 1]
    weight = table()
    (F.embedding(indices, weight, sparse=True).sum() + (weight * 2).sum()).backward()
    assert not weight.grad.is_sparse and weight.grad[:, 0].tolist() == [4, 2, 2, 3, 2]


def test_the_gradient_does_not_share_the_memory_of_the_indices():
    indices, weight = strata.tensor([0, 3]), table()
    F.embedding(indices, weight, sparse=True).sum().backward()
    indices.fill_(4)
    assert weight.grad._indices().tolist() == [[0, 3]]


def test_indices_that_were_written_to_are_found():
    indices, weight = strata.tensor([0, 3]), table()
    out = F.embedding(indices, weight, sparse=True)
    indices.fill_(4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_second_pass_needs_the_graph():
    weight = table()
    out = F.embedding(strata.tensor([0, 3]), weight, sparse=True).sum()
    out.backward(retain_graph=True)
    out.backward()
    assert weight.grad.to_dense()[:, 0].tolist() == [2, 0, 0, 2, 0]
    with pytest.raises(RuntimeError, match="a second time"):
        out.backward()


def test_hooks_and_grad_get_sparse_gradients():
    weight, seen = table(), []
    weight.register_hook(lambda g: seen.append(g.is_sparse) or g * 2)
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.is_sparse))
    F.embedding(strata.tensor([1, 1]), weight, sparse=True).sum().backward()
    assert seen == [True, True] and weight.grad.to_dense()[1].tolist() == [4, 4, 4]
    plain = table()
    (found,) = strata.autograd.grad(F.embedding(strata.tensor([1, 1]), plain, sparse=True).sum(), [plain])
    assert found.is_sparse and found._values().tolist() == [[1] * 3] * 2 and plain.grad is None


def test_a_computed_weight_gets_a_dense_gradient():
    weight = table()
    F.embedding(strata.tensor([1, 1]), weight * 3, sparse=True).sum().backward()
    assert not weight.grad.is_sparse and weight.grad[:, 0].tolist() == [0, 6, 0, 0, 0]


def test_second_derivatives_flow_through_the_values():
    weight = table()
    (first,) = strata.autograd.grad(
        (F.embedding(strata.tensor([1, 3]), weight, sparse=True) ** 3).sum(), [weight], create_graph=True
    )
    assert first.is_sparse and first.requires_grad
    (first._values() ** 2).sum().backward()  # (3 w^2)^2, whose derivative is 36 w^3
    expected = np.zeros((5, 3))
    expected[[1, 3]] = 36 * weight.detach().numpy()[[1, 3]] ** 3
    np.testing.assert_allclose(weight.grad.to_dense().numpy(), expected, rtol=1e-12)


def test_gradients_can_be_assigned_and_changed():
    weight = table()
    F.embedding(strata.tensor([1, 3, 1]), weight, sparse=True).sum().backward()
    grad = weight.grad
    grad.mul_(3)
    assert weight.grad is grad and grad._values()[0].tolist() == [3, 3, 3]
    grad.div_(3).add_(grad)
    assert weight.grad.to_dense()[1].tolist() == [4, 4, 4]
    grad.zero_()
    assert weight.grad._nnz() == 0
    weight.grad = strata.ones(5, 3, dtype=strata.float64).to_sparse(1)
    assert weight.grad.is_sparse and weight.grad._nnz() == 5
    with pytest.raises(RuntimeError, match="assigned grad has shape"):
        weight.grad = strata.ones(5, 4, dtype=strata.float64).to_sparse()
    copied = copy.deepcopy(weight.grad)
    weight.grad = None
    assert weight.grad is None and copied._nnz() == 5


@pytest.mark.parametrize("call,error,text", [
    (lambda w, i: F.embedding(i, w, scale_grad_by_freq=True, sparse=True).sum().backward(), RuntimeError,
     "scale_grad_by_freq not supported with sparse gradients"),
    (lambda w, i: F.embedding_bag(i, w, mode="max", sparse=True), ValueError, "max mode does not support sparse weights"),
    (lambda w, i: F.embedding(i + 9, w, sparse=True), IndexError, "out of range"),
])  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(table(), strata.tensor(INDICES))


# --- optimizers -----------------------------------------------------------------------------------------------------------


def trained(make, device="cpu", steps=4, sparse=True, dtype=strata.float64):
    weight = strata.nn.Parameter(table(device, dtype).detach())
    optimizer = make([weight])
    for k in range(steps):
        optimizer.zero_grad()
        (F.embedding(strata.tensor([0, 3, k % 3, 0], device=device), weight, sparse=sparse) ** 2).sum().backward()
        optimizer.step()
    return weight.detach().cpu().double().numpy(), optimizer


def gradient(w, k):
    """The dense gradient of the loss above in step k, and the rows that it has."""
    g, rows = np.zeros_like(w), [0, 3, k % 3, 0]
    np.add.at(g, rows, 2 * w[rows])
    return g, sorted(set(rows))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [
    {}, {"maximize": True}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.5}, {"momentum": 0.9, "nesterov": True}
])  # fmt: skip
def test_sgd_takes_the_steps_of_dense_gradients(device, options):
    make = lambda params: optim.SGD(params, lr=0.05, **options)  # noqa: E731
    sparse, optimizer = trained(make, device)
    np.testing.assert_allclose(sparse, trained(make, device, sparse=False)[0], rtol=1e-12)
    if options.get("momentum"):
        (state,) = optimizer.state.values()
        assert state["momentum_buffer"].is_sparse


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"maximize": True}, {"lr_decay": 0.1, "initial_accumulator_value": 0.5}])
def test_adagrad_takes_the_steps_of_dense_gradients(device, options):
    make = lambda params: optim.Adagrad(params, lr=0.05, **options)  # noqa: E731
    sparse, optimizer = trained(make, device)
    np.testing.assert_allclose(sparse, trained(make, device, sparse=False)[0], rtol=1e-12)
    (state,) = optimizer.state.values()
    assert state["step"].item() == 4 and not state["sum"].is_sparse


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("maximize", [False, True])
def test_sparse_adam_beside_numpy(device, maximize):
    lr, betas, eps = 0.1, (0.8, 0.95), 1e-6
    got, optimizer = trained(lambda p: optim.SparseAdam(p, lr, betas, eps, maximize), device, steps=6)
    w = table().detach().numpy().copy()
    m, v = np.zeros_like(w), np.zeros_like(w)
    for k in range(6):
        g, rows = gradient(w, k)
        g = -g[rows] if maximize else g[rows]
        m[rows] += (1 - betas[0]) * (g - m[rows])  # other rows keep their means
        v[rows] += (1 - betas[1]) * (g * g - v[rows])
        size = lr * np.sqrt(1 - betas[1] ** (k + 1)) / (1 - betas[0] ** (k + 1))
        w[rows] -= size * m[rows] / (np.sqrt(v[rows]) + eps)
    np.testing.assert_allclose(got, w, rtol=1e-11)
    (state,) = optimizer.state.values()
    assert state["step"] == 6 and sorted(state) == ["exp_avg", "exp_avg_sq", "step"]
    np.testing.assert_allclose(state["exp_avg"].cpu().numpy(), m, rtol=1e-11)


# PyTorch 2.15: weight 1, lookups 0, 2 and k in step k of three, lr 0.1.
OF_PYTORCH = [
    ("SGD", {}, [0.6, 0.9, 0.6, 1.0]),
    ("SGD", {"momentum": 0.9}, [0.168, 0.81, 0.339, 1.0]),
    ("SGD", {"momentum": 0.9, "nesterov": True}, [-0.1488, 0.729, 0.0051, 1.0]),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}, [0.313, 0.905, 0.534, 1.0]),
    ("SGD", {"maximize": True}, [1.4, 1.1, 1.4, 1.0]),
    ("Adagrad", {}, [0.8144538, 0.9, 0.7476397, 1.0]),
    ("Adagrad", {"maximize": True}, [1.1855462, 1.1, 1.2523603, 1.0]),
    ("Adagrad", {"lr_decay": 0.1}, [0.8253235, 0.9090909, 0.7676762, 1.0]),
]


@pytest.mark.parametrize("name,options,expected", OF_PYTORCH)
def test_steps_are_those_of_pytorch(name, options, expected):
    weight = nn.Parameter(strata.ones(4, 2))
    optimizer = getattr(optim, name)([weight], lr=0.1, **options)
    for k in range(3):
        weight.grad = None
        F.embedding(strata.tensor([0, 2, k]), weight, sparse=True).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(weight.detach()[:, 0].numpy(), expected, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("name,text", [
    *((n, f"{n} does not support sparse gradients, please consider SparseAdam instead") for n in ("Adam", "AdamW")),
    *((n, f"{n} does not support sparse gradients") for n in "NAdam RAdam Adamax Adadelta RMSprop ASGD Rprop Muon".split()),
])  # fmt: skip
def test_other_optimizers_refuse(name, text):
    weight = nn.Parameter(strata.ones(4, 2))
    F.embedding(strata.tensor([0, 2]), weight, sparse=True).sum().backward()
    with pytest.raises(RuntimeError, match=text):
        getattr(optim, name)([weight]).step()
    assert weight.tolist() == [[1, 1]] * 4


def test_options_that_do_not_fit():
    weight = nn.Parameter(strata.ones(4, 2))
    F.embedding(strata.tensor([0, 2]), weight, sparse=True).sum().backward()
    for name in ("SGD", "Adagrad"):
        with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse gradients"):
            getattr(optim, name)([weight], weight_decay=0.1).step()
    weight.grad = strata.ones(4, 2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        optim.SparseAdam([weight]).step()
    with pytest.raises(ValueError, match="SparseAdam requires dense parameter tensors"):
        optim.SparseAdam([strata.ones(2, 2).to_sparse().requires_grad_()])
    with pytest.raises(ValueError, match="Invalid learning rate"):
        optim.SparseAdam([weight], lr=0.0)
    with pytest.raises(ValueError, match="beta"):
        optim.SparseAdam([weight], betas=(1.0, 0.9))


def test_dense_and_sparse_parameters_of_one_optimizer():
    embedding, linear = nn.Embedding(5, 3, sparse=True), nn.Linear(3, 1)
    optimizer = optim.SGD([*embedding.parameters(), *linear.parameters()], lr=0.1)
    before = [p.detach().clone() for p in linear.parameters()]
    linear(embedding(strata.tensor([0, 1]))).sum().backward()
    optimizer.step()
    assert embedding.weight.grad.is_sparse and not linear.weight.grad.is_sparse
    assert all(not strata.equal(a, b.detach()) for a, b in zip(before, linear.parameters(), strict=True))
    optimizer.zero_grad(set_to_none=False)
    assert embedding.weight.grad._nnz() == 0 and linear.bias.grad.tolist() == [0]


@pytest.mark.parametrize("make", [lambda p: optim.SparseAdam(p, 0.1), lambda p: optim.SGD(p, 0.1, momentum=0.9)])
def test_training_resumes(make):
    whole, _ = trained(make, steps=6)
    weight = nn.Parameter(table().detach())
    optimizer = make([weight])
    for k in range(6):
        if k == 3:  # another optimizer continues
            saved = optimizer.state_dict()
            optimizer = make([weight])
            optimizer.load_state_dict(saved)
        optimizer.zero_grad()
        (F.embedding(strata.tensor([0, 3, k % 3, 0]), weight, sparse=True) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(weight.detach().numpy(), whole, rtol=1e-12)


def test_clipping_uses_the_norm_of_coalesced_values():
    weight = nn.Parameter(strata.ones(4, 2))
    F.embedding(strata.tensor([0, 2, 0]), weight, sparse=True).sum().backward()
    total = nn.utils.clip_grad_norm_([weight], 0.1)
    assert abs(total.item() - 10**0.5) < 1e-6 and abs(weight.grad.norm().item() - 0.1) < 1e-6


def test_a_sparse_gradient_is_saved():
    weight = table()
    F.embedding(strata.tensor([1, 3, 1]), weight, sparse=True).sum().backward()
    file = io.BytesIO()
    strata.save({"grad": weight.grad}, file)
    file.seek(0)
    with pytest.warns(UserWarning):
        loaded = strata.load(file, weights_only=False)["grad"]
    assert loaded.is_sparse and strata.equal(loaded.to_dense(), weight.grad.to_dense())


@pytest.mark.parametrize("device", DEVICES)
def test_an_embedding_learns(device):
    strata.manual_seed(0)
    words = nn.EmbeddingBag(20, 4, mode="sum", sparse=True).to(device)
    optimizer = optim.SparseAdam(words.parameters(), lr=0.05)
    inputs = strata.arange(20, device=device).reshape(10, 2)
    target = strata.linspace(-1, 1, 40).reshape(10, 4).to(device)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(words(inputs), target)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01
