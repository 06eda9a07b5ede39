"""Sparse tensors beside dense ones and NumPy, on the CPU and the virtual GPU."""

import copy
import io
import pickle

import numpy as np
import pytest
import strata

DEVICES = ["cpu", "vgpu"]


def random_coo(rng, shape, count, device="cpu", dtype=strata.float64, dense=()):
    """Coordinates that may repeat, in any order."""
    indices = np.stack([rng.integers(0, n, count) for n in shape]) if count else np.zeros((len(shape), 0), np.int64)
    values = rng.standard_normal((count, *dense))
    x = strata.sparse_coo_tensor(indices, values, (*shape, *dense), dtype=dtype, device=device)
    expected = np.zeros((*shape, *dense))
    np.add.at(expected, tuple(indices), values)
    return x, expected


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "shape,count,dense", [((3, 4), 9, ()), ((5,), 7, (2,)), ((2, 3, 4), 30, ()), ((4, 4), 0, ()), ((1, 1), 3, (2, 2))]
)
def test_dense_and_coalesced_forms(device, shape, count, dense):
    rng = np.random.default_rng(count)
    x, expected = random_coo(rng, shape, count, device, dense=dense)
    np.testing.assert_allclose(x.to_dense().cpu().numpy(), expected, atol=1e-12)
    ordered = x.coalesce()
    assert ordered.is_coalesced() and ordered.device.type == device
    np.testing.assert_allclose(ordered.to_dense().cpu().numpy(), expected, atol=1e-12)
    places = ordered.indices().cpu().numpy()
    flat = np.ravel_multi_index(tuple(places), shape) if count else np.zeros(0)
    assert (np.diff(flat) > 0).all()
    assert ordered.values().shape == (places.shape[1], *dense)
    assert x.sparse_dim() == len(shape) and x.dense_dim() == len(dense)
    back = x.to_dense().to_sparse(len(shape))
    assert back.is_coalesced()
    np.testing.assert_allclose(back.to_dense().cpu().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "rows,inner,columns,count",
    [(5, 7, 3, 20), (40, 30, 33, 200), (1, 1, 1, 1), (4, 6, 2, 0), (3, 2, 0, 4), (200, 50, 17, 3000)],
)
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_products_beside_numpy(device, rows, inner, columns, count, layout):
    rng = np.random.default_rng(rows * 31 + count)
    a, dense_a = random_coo(rng, (rows, inner), count, device)
    a = a.to_sparse(layout=layout)
    b = rng.standard_normal((inner, columns))
    tensor_b = strata.tensor(b, device=device)
    np.testing.assert_allclose((a @ tensor_b).cpu().numpy(), dense_a @ b, atol=1e-12)
    np.testing.assert_allclose(strata.sparse.mm(a, tensor_b).cpu().numpy(), dense_a @ b, atol=1e-12)
    vector = rng.standard_normal(inner)
    np.testing.assert_allclose((a @ strata.tensor(vector, device=device)).cpu().numpy(), dense_a @ vector, atol=1e-12)
    np.testing.assert_allclose((tensor_b.t() @ a.t()).cpu().numpy(), b.T @ dense_a.T, atol=1e-12)
    other, dense_other = random_coo(rng, (inner, max(1, columns)), count // 2 + 1, device)
    product = a @ other
    assert product.layout == layout
    np.testing.assert_allclose(product.to_dense().cpu().numpy(), dense_a @ dense_other, atol=1e-12)
    start = strata.tensor(rng.standard_normal((rows, columns)), device=device)
    expected = 0.5 * start.cpu().numpy() + 2 * (dense_a @ b)
    np.testing.assert_allclose(
        strata.sparse.addmm(start, a, tensor_b, beta=0.5, alpha=2).cpu().numpy(), expected, atol=1e-12
    )


@pytest.mark.parametrize("dtype,tolerance", [(strata.float32, 1e-5), (strata.bfloat16, 5e-2), (strata.float16, 5e-3)])
@pytest.mark.parametrize("device", DEVICES)
def test_products_in_other_dtypes(dtype, tolerance, device):
    rng = np.random.default_rng(3)
    a, _ = random_coo(rng, (20, 30), 100, device, dtype)
    b = strata.tensor(rng.standard_normal((30, 20)), dtype=dtype, device=device)
    expected = a.to_dense().cpu().double().numpy() @ b.cpu().double().numpy()
    result = a @ b
    assert result.dtype == dtype
    np.testing.assert_allclose(result.cpu().double().numpy(), expected, rtol=tolerance, atol=10 * tolerance)


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(5)
    a, _ = random_coo(rng, (3000, 500), 40000, dtype=strata.float32)
    b = strata.tensor(rng.standard_normal((500, 64)), dtype=strata.float32)
    before = strata.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            strata.set_num_threads(threads)
            results.append((a @ b).numpy().tobytes())
    finally:
        strata.set_num_threads(before)
    assert len(set(results)) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_products(device):
    rng = np.random.default_rng(7)
    indices = strata.tensor(np.stack([rng.integers(0, 4, 9), rng.integers(0, 5, 9)]), device=device)
    values = strata.tensor(rng.standard_normal(9), device=device, requires_grad=True)
    dense = strata.tensor(rng.standard_normal((5, 3)), device=device, requires_grad=True)

    def multiply(v, d):
        return strata.sparse_coo_tensor(indices, v, (4, 5)) @ d

    assert strata.autograd.gradcheck(multiply, (values, dense))
    assert strata.autograd.gradgradcheck(multiply, (values, dense))


@pytest.mark.parametrize("f", [
    lambda x: x.to_dense(),
    lambda x: x.coalesce().values(),
    lambda x: (x @ x.t()).to_dense(),
    lambda x: (x + x.sin()).to_dense(),
    lambda x: (x * x).to_dense(),
    lambda x: (x * 3 / 2).to_dense(),
    lambda x: strata.sparse.softmax(x, 1).to_dense(),
    lambda x: strata.sparse.log_softmax(x, 0).values(),
    lambda x: strata.sparse.sum(x, 1).to_dense(),
    lambda x: strata.sparse.sum(x),
    lambda x: x.to_sparse_csr().to_dense(),
    lambda x: x.index_select(0, strata.tensor([2, 0])).to_dense(),
    lambda x: strata.cat([x, x], 1).to_dense(),
    lambda x: x.to_dense().sparse_mask(x.detach()).values(),
])  # fmt: skip
def test_gradients_of_other_functions(f):
    indices = strata.tensor([[0, 2, 1, 2, 0], [1, 3, 0, 3, 2]])
    values = strata.tensor([0.5, -1.25, 2.0, 0.75, -0.3], dtype=strata.float64, requires_grad=True)

    def of_values(v):
        return f(strata.sparse_coo_tensor(indices, v, (3, 4)))

    assert strata.autograd.gradcheck(of_values, (values,))


def test_a_sparse_leaf_has_a_sparse_gradient():
    x = strata.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), requires_grad=True)
    assert x.requires_grad and x.is_leaf and x.grad is None
    (x @ strata.ones(3, 2)).sum().backward()
    assert x.grad.is_sparse and x.grad._values().tolist() == [2.0, 2.0, 2.0]
    assert x.grad._indices().tolist() == x._indices().tolist()
    assert not x.detach().requires_grad and (x * 2).requires_grad


@pytest.mark.parametrize("device", DEVICES)
def test_arithmetic_beside_dense_tensors(device):
    rng = np.random.default_rng(11)
    x, a = random_coo(rng, (4, 5), 8, device)
    y, b = random_coo(rng, (4, 5), 6, device)
    z = strata.tensor(rng.standard_normal((4, 5)), device=device)

    def same(result, expected):
        dense = result.to_dense() if isinstance(result, strata.sparse.SparseTensor) else result
        np.testing.assert_allclose(dense.cpu().numpy(), expected, atol=1e-12)

    same(x + y, a + b)
    same(x - y, a - b)
    same(x * y, a * b)
    same(x * 2.5, a * 2.5)
    same(2.5 * x, a * 2.5)
    same(x / 4, a / 4)
    same(-x, -a)
    same(x * z, a * z.cpu().numpy())
    same(z + x, z.cpu().numpy() + a)
    same(x + z, z.cpu().numpy() + a)
    same(x.abs(), abs(a))
    same(x.relu(), a.clip(0))
    same(x.sqrt().nan_to_num(), np.sqrt(a.clip(0)))
    same(x**2, a**2)
    same(x.t(), a.T)
    same(x.T, a.T)
    same(x.sum(), a.sum())
    same(strata.sparse.sum(x, 0), a.sum(0))
    same(strata.sparse.sum(x, (0, 1)), a.sum())
    same(x.norm(), np.linalg.norm(a))
    same(strata.cat([x, y]), np.concatenate([a, b]))
    same(x.index_select(1, strata.tensor([3, 3, 0], device=device)), a[:, [3, 3, 0]])
    same(x[2], a[2])
    same(strata.zeros_like(x), a * 0)
    same(strata.sparse.sampled_addmm(y, z @ z.t(), z), (b + np.where(b != 0, (z @ z.t() @ z).cpu().numpy(), 0)))
    dense = z.clone()
    dense.add_(x, alpha=2)
    same(dense, z.cpu().numpy() + 2 * a)


def test_softmax_over_stored_elements():
    x = strata.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]).to_sparse()
    rows = strata.sparse.softmax(x, 1).to_dense().numpy()
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(rows, [[e[0] / e.sum(), 0, e[1] / e.sum()], [0, 0, 1], [0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(strata.sparse.log_softmax(x, 1).values().exp().numpy(), rows[rows != 0], rtol=1e-6)


def test_compressed_rows():
    x = strata.sparse_csr_tensor([0, 2, 2, 3], [0, 2, 1], [1.0, 2.0, 3.0], (3, 4))
    assert x.layout == strata.sparse_csr and x.is_sparse_csr and not x.is_sparse
    assert x.to_dense().tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [0, 3, 0, 0]]
    coo = x.to_sparse()
    assert coo.indices().tolist() == [[0, 0, 2], [0, 2, 1]] and coo.values().tolist() == [1, 2, 3]
    assert x.t().to_dense().tolist() == x.to_dense().t().tolist()
    assert strata.ones(2, 2).to_sparse_csr().crow_indices().tolist() == [0, 2, 4]


def test_dtypes_and_devices():
    x = strata.sparse_coo_tensor([[0, 1]], [1, 2], (3,))
    assert (
        x.dtype == strata.int64 and x.float().dtype == strata.float32 and x.to(strata.float16).dtype == strata.float16
    )
    y = x.to("vgpu")
    assert y.device.type == "vgpu" and y._indices().device.type == "vgpu" and y.cpu().to_dense().tolist() == [1, 2, 0]
    either = strata.sparse_coo_tensor([[1, 1, 0]], [True, False, False], (2,)).coalesce()
    assert either.values().tolist() == [False, True]
    assert strata.sparse_coo_tensor((2, 3)).to_dense().tolist() == [[0, 0, 0], [0, 0, 0]]
    assert strata.sparse_coo_tensor([[0, 2]], [1.0, 2.0]).shape == (3,)


def test_printing_copying_and_pickling():
    x = strata.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    assert repr(x) == (
        "tensor(indices=tensor([[0, 1],\n"
        "                       [2, 0]]),\n"
        "       values=tensor([3., 4.]),\n"
        "       size=(2, 3), nnz=2, layout=strata.sparse_coo)"
    )
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        assert y.to_dense().tolist() == x.to_dense().tolist() and type(y) is type(x)
    deep = copy.deepcopy(x)
    deep._values().zero_()
    assert x.to_dense().tolist() == [[0, 0, 3], [4, 0, 0]]
    for y in (x, x.to_sparse_csr()):
        file = io.BytesIO()
        strata.save({"x": y}, file)  # PyTorch's format: safetensors files have dense tensors only
        file.seek(0)
        with pytest.warns(UserWarning):
            loaded = strata.load(file, weights_only=False)["x"]
        assert loaded.to_dense().tolist() == x.to_dense().tolist() and loaded.layout == y.layout


@pytest.mark.parametrize("call,error,text", [
    (lambda x: strata.sparse_coo_tensor([[3]], [1.0], (3,)), RuntimeError, "for dim 0, size is 3 but found index 3"),
    (lambda x: strata.sparse_coo_tensor([[-1]], [1.0], (3,)), RuntimeError, "negative index -1"),
    (lambda x: strata.sparse_coo_tensor([[0, 1]], [1.0], (3,)), RuntimeError, "do not fit 2 elements"),
    (lambda x: strata.sparse_coo_tensor([[0.5]], [1.0], (3,)), RuntimeError, "expected integers"),
    (lambda x: strata.sparse_coo_tensor([[0], [0]], [1.0], (2**40, 2**40)), RuntimeError, "does not fit into 64 bits"),
    (lambda x: strata.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True), RuntimeError, "not in order, each once"),
    (lambda x: strata.sparse_coo_tensor([0, 1], 1.0, (2,)), RuntimeError, "sparse_dim x nnz"),
    (lambda x: strata.sparse_coo_tensor([[0]], [1], (2,), requires_grad=True), RuntimeError, "floating"),
    (lambda x: strata.sparse_csr_tensor([0, 2], [0, 0], [1.0, 2.0], (1, 3)), RuntimeError, "must rise within each row"),
    (lambda x: strata.sparse_csr_tensor([0, 1], [3], [1.0], (1, 3)), RuntimeError, "within 0 and 2"),
    (lambda x: strata.sparse_csr_tensor([1, 1], [], [], (1, 3)), RuntimeError, "must rise from 0"),
    (lambda x: x @ strata.ones(2, 2), RuntimeError, "do not fit"),
    (lambda x: x + 1, NotImplementedError, "dense sum"),
    (lambda x: x + strata.ones(4, 4).to_sparse(), RuntimeError, "equal shapes"),
    (lambda x: x.exp(), NotImplementedError, "exp is not available for sparse tensors"),
    (lambda x: strata.nn.functional.conv2d(x, x), NotImplementedError, "not available for sparse tensors"),
    (lambda x: x.reshape(6), NotImplementedError, "not available for sparse tensors"),
    (lambda x: strata.sparse_coo_tensor([[0, 0]], [1.0, 1.0], (2,)).values(), RuntimeError, "uncoalesced"),
    (lambda x: x.crow_indices(), RuntimeError, "expected sparse row compressed tensor layout but got sparse_coo"),
    (lambda x: x.to_sparse(layout="sparse_bsr"), RuntimeError, "sparse_bsr needs a blocksize"),
    (lambda x: bool(x), RuntimeError, "truth of a sparse tensor"),
    (lambda x: np.asarray(x), TypeError, "use to_dense"),
    (lambda x: x.item(), NotImplementedError, "item is not available"),
    (lambda x: x.numpy(), TypeError, "use to_dense"),
    (lambda x: x.data_ptr(), NotImplementedError, "data_ptr is not available"),
    (lambda x: x.tolist(), NotImplementedError, "tolist is not available"),
    (lambda x: x.transpose(0, 5), IndexError, "out of range"),
    (lambda x: strata.sparse.softmax(x, 7), IndexError, "out of range"),
])  # fmt: skip
def test_errors(call, error, text):
    x = strata.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    with pytest.raises(error, match=text):
        call(x)
    assert x.to_dense().tolist() == [[0, 0, 3], [4, 0, 0]]


def test_a_graph_network_trains():
    """Two steps of graph convolution: neighbours agree, so their labels are learned from few nodes."""
    strata.manual_seed(0)
    n = 12
    edges = [(i, j) for i in range(n) for j in range(n) if i == j or (i // 6 == j // 6 and (i + j) % 3)]
    adjacency = strata.sparse_coo_tensor(np.array(edges).T, np.ones(len(edges), np.float32), (n, n))
    degree = strata.sparse.sum(adjacency, 1).to_dense()
    first, second = strata.nn.Linear(n, 8), strata.nn.Linear(8, 2)
    optimizer = strata.optim.Adam([*first.parameters(), *second.parameters()], lr=0.05)
    labels = strata.arange(n) // 6
    known = strata.tensor([0, 11])
    for _ in range(60):
        hidden = (strata.spmm(adjacency, first(strata.eye(n))) / degree[:, None]).relu()
        out = strata.spmm(adjacency, second(hidden)) / degree[:, None]
        loss = strata.nn.functional.cross_entropy(out[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (out.argmax(1) == labels).all()
