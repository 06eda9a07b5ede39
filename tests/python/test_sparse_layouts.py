"""Matrices in compressed rows and columns, of elements and blocks, beside dense ones, on the CPU and the virtual GPU. Texts and
indices of the small example are PyTorch 2.15's."""

import copy
import inspect
import io
import pickle

import numpy as np
import pytest
import strata

DEVICES = ["cpu", "vgpu"]
LAYOUTS = [
    ("sparse_csr", None),
    ("sparse_csc", None),
    ("sparse_bsr", (2, 3)),
    ("sparse_bsc", (2, 3)),
    ("sparse_bsr", (1, 1)),
]
SMALL = [[1.0, 0, 2, 0], [0, 0, 0, 0], [0, 3, 4, 5], [0, 0, 0, 6]]


def random_matrix(rows, columns, density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((rows, columns)) < density, rng.standard_normal((rows, columns)), 0)


def in_layout(array, layout, blocksize, device="cpu", dtype=strata.float64):
    return strata.tensor(array, dtype=dtype, device=device).to_sparse(layout=layout, blocksize=blocksize)


def same(sparse, dense, tolerance=1e-12):
    x = sparse.to_dense() if isinstance(sparse, strata.sparse.SparseTensor) else sparse
    np.testing.assert_allclose(x.detach().cpu().numpy(), dense, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout,blocksize", LAYOUTS)
@pytest.mark.parametrize(
    "shape,density", [((8, 9), 0.3), ((2, 3), 1.0), ((6, 6), 0.0), ((40, 30), 0.05), ((0, 6), 1.0)]
)
def test_conversions(device, layout, blocksize, shape, density):
    a = random_matrix(*shape, density)
    x = in_layout(a, layout, blocksize, device)
    assert x.layout == layout and x.device.type == device and x.shape == shape and x.dtype == strata.float64
    assert not x.is_sparse and x.is_sparse_csr == (layout == "sparse_csr") and (x.sparse_dim(), x.dense_dim()) == (2, 0)
    same(x, a)
    coo = x.to_sparse()
    assert coo.layout == strata.sparse_coo and coo.is_coalesced()
    same(coo, a)
    for other, block in LAYOUTS:
        y = x.to_sparse(layout=other, blocksize=block)
        assert y.layout == other
        same(y, a)
    same(x.t(), a.T)
    assert x.t().t().layout == layout
    same(x.to("cpu").float(), a.astype(np.float32), 1e-6)


def test_the_parts_are_those_of_pytorch():
    d = strata.tensor(SMALL)
    csc = d.to_sparse_csc()
    assert csc.ccol_indices().tolist() == [0, 1, 2, 4, 6] and csc.row_indices().tolist() == [0, 2, 0, 2, 2, 3]
    assert csc.values().tolist() == [1, 3, 2, 4, 5, 6]
    bsr = d.to_sparse_bsr((2, 2))
    blocks = [[[1, 0], [0, 0]], [[2, 0], [0, 0]], [[0, 3], [0, 0]], [[4, 5], [0, 6]]]
    assert bsr.crow_indices().tolist() == [0, 2, 4] and bsr.col_indices().tolist() == [0, 1, 0, 1]
    assert bsr.values().tolist() == blocks and bsr._nnz() == 4
    bsc = d.to_sparse_bsc((2, 2))
    assert bsc.ccol_indices().tolist() == [0, 2, 4] and bsc.row_indices().tolist() == [0, 1, 0, 1]
    assert bsc.values().tolist() == [blocks[0], blocks[2], blocks[1], blocks[3]]
    assert d.to_sparse_bsr((2, 1))._nnz() == 5 and d.to_sparse_bsr((1, 2))._nnz() == 5
    assert {k: d.to_sparse(layout=k, blocksize=b and (2, 2)).t().layout for k, b in LAYOUTS[:4]} == {
        "sparse_csr": "sparse_csc", "sparse_csc": "sparse_csr", "sparse_bsr": "sparse_bsc", "sparse_bsc": "sparse_bsr"
    }  # fmt: skip


def test_construction():
    csc = strata.sparse_csc_tensor([0, 1, 1], [5], [1.0])
    assert csc.shape == (6, 2) and csc.to_dense()[5, 0] == 1
    bsr = strata.sparse_bsr_tensor([0, 1], [1], [[[1.0, 2], [3, 4]]])
    assert bsr.shape == (2, 4) and bsr.to_dense().tolist() == [[0, 0, 1, 2], [0, 0, 3, 4]]
    bsc = strata.sparse_bsc_tensor([0, 1], [1], [[[1.0, 2], [3, 4]]], (4, 2))
    assert bsc.shape == (4, 2) and bsc.to_dense().tolist() == [[0, 0], [0, 0], [1, 2], [3, 4]]
    made = strata.sparse_compressed_tensor([0, 1], [1], [1.0], layout=strata.sparse_csc, dtype=strata.float16)
    assert made.layout == "sparse_csc" and made.shape == (2, 1) and made.dtype == strata.float16


def test_printing():
    assert repr(strata.tensor(SMALL).to_sparse_csc()) == (
        "tensor(ccol_indices=tensor([0, 1, 2, 4, 6]),\n"
        "       row_indices=tensor([0, 2, 0, 2, 2, 3]),\n"
        "       values=tensor([1., 3., 2., 4., 5., 6.]), size=(4, 4), nnz=6,\n"
        "       layout=strata.sparse_csc)"
    )
    text = repr(strata.tensor(SMALL).to_sparse_bsr((2, 2)))
    assert text.startswith("tensor(crow_indices=tensor([0, 2, 4]),\n       col_indices=tensor([0, 1, 0, 1]),\n")
    assert "[0., 0.]],\n\n                      [[2., 0.]" in text  # empty lines have no spaces, as in PyTorch
    assert text.endswith("[0., 6.]]]), size=(4, 4), nnz=4,\n       layout=strata.sparse_bsr)")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout,blocksize", LAYOUTS)
def test_products(device, layout, blocksize):
    a, b = random_matrix(8, 9, seed=1), random_matrix(9, 6, 1.0, seed=2)
    x, y = in_layout(a, layout, blocksize, device), strata.tensor(b, device=device)
    same(x @ y, a @ b)
    same(x @ y[:, 0], a @ b[:, 0])
    same(y.t() @ x.t(), b.T @ a.T)
    same(strata.sparse.mm(x, y), a @ b)
    start = random_matrix(8, 6, 1.0, seed=3)
    same(strata.addmm(strata.tensor(start, device=device), x, y, beta=0.5, alpha=2), 0.5 * start + 2 * a @ b)
    for other, block in LAYOUTS[:4]:
        c = random_matrix(9, 6, seed=4)
        product = x @ in_layout(c, other, block and (3, 2), device)
        assert product.layout == "sparse_csr"
        same(product, a @ c)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout,blocksize", LAYOUTS)
def test_elements(device, layout, blocksize):
    a, b = random_matrix(8, 9, seed=1), random_matrix(8, 9, seed=5)
    x, y = in_layout(a, layout, blocksize, device), in_layout(b, layout, blocksize, device)
    for got, want in (
        (x * 2, a * 2),
        (x / 4, a / 4),
        (-x, -a),
        (x.sin(), np.sin(a)),
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
    ):
        assert got.layout == layout
        same(got, want)
    same(x + strata.tensor(b, device=device), a + b)
    same(strata.tensor(b, device=device) + x, a + b)
    same(x.sum(), a.sum())
    same(strata.zeros_like(x), a * 0)
    assert strata.zeros_like(x).layout == layout and strata.zeros_like(x)._nnz() == 0
    same(x.clone().mul_(3), a * 3)


@pytest.mark.parametrize("layout,blocksize", LAYOUTS)
def test_gradients_flow_through_the_values(layout, blocksize):
    x = in_layout(random_matrix(4, 6, 0.5), layout, blocksize)
    places, other = x._places, strata.tensor(random_matrix(6, 2, 1.0), requires_grad=True)

    def build(values):
        return strata.sparse_compressed_tensor(*places, values, (4, 6), layout=layout)

    values = x.values().clone().requires_grad_()
    assert strata.autograd.gradcheck(lambda v: build(v).to_dense(), (values,))
    assert strata.autograd.gradcheck(lambda v, o: build(v) @ o, (values, other))
    assert strata.autograd.gradcheck(lambda v: build(v).to_sparse_bsc((4, 2)).values(), (values,))
    leaf = build(values.detach()).requires_grad_()
    (leaf.to_dense() * 2).sum().backward()
    assert leaf.grad.layout == layout and (leaf.grad.values() == 2).all()


@pytest.mark.parametrize("layout,blocksize", LAYOUTS)
def test_copying_and_saving(layout, blocksize):
    a = random_matrix(4, 6)
    x = in_layout(a, layout, blocksize)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.detach()):
        assert y.layout == layout
        same(y, a)
    file = io.BytesIO()
    strata.save({"x": x}, file)
    file.seek(0)
    with pytest.warns(UserWarning):
        loaded = strata.load(file, weights_only=False)["x"]
    assert loaded.layout == layout
    same(loaded, a)


def test_bools_and_integers():
    x = strata.tensor([[True, False], [False, True]]).to_sparse_bsr((2, 2))
    assert x.dtype == strata.bool and x.to_dense().tolist() == [[True, False], [False, True]]
    assert strata.tensor([[0, 3]]).to_sparse_csc().to_dense().tolist() == [[0, 3]]


@pytest.mark.parametrize("call,error,text", [
    (lambda d: d.to_sparse_bsr((3, 2)), RuntimeError, "must be divisible by given blocksize"),
    (lambda d: d.to_sparse_bsr((0, 2)), RuntimeError, "blocksize needs to be positive"),
    (lambda d: d.to_sparse(layout="sparse_bsr"), RuntimeError, "needs a blocksize"),
    (lambda d: d.to_sparse(layout="sparse_csc", blocksize=(2, 2)), RuntimeError, "no blocksize"),
    (lambda d: d.to_sparse(layout="sparse_xyz"), NotImplementedError, "sparse_xyz is not supported"),
    (lambda d: d[0].to_sparse_csc(), RuntimeError, "expected a sparse matrix"),
    (lambda d: strata.sparse_csc_tensor([0, 1, 1], [5], [1.0], (3, 2)), RuntimeError, "within 0 and 2"),
    (lambda d: strata.sparse_csc_tensor([0, 2, 2], [1, 0], [1.0, 2], (3, 2)), RuntimeError, "must rise within each column"),
    (lambda d: strata.sparse_csc_tensor([0, 2, 3], [1, 0], [1.0, 2], (3, 2)), RuntimeError, "number of elements, 2"),
    (lambda d: strata.sparse_csc_tensor([0, 3, 2], [1, 0], [1.0, 2], (3, 2)), RuntimeError, "number of elements, 2"),
    (lambda d: strata.sparse_bsr_tensor([0, 1], [1], [[[1.0, 2], [3, 4]]], (3, 4)), RuntimeError, "must be divisible"),
    (lambda d: strata.sparse_bsr_tensor([0, 1], [1], [1.0], (2, 4)), RuntimeError, "a block"),
    (lambda d: strata.sparse_csr_tensor([0, 1], [1], [[[1.0]]], (1, 2)), RuntimeError, "a number"),
    (lambda d: strata.sparse_compressed_tensor([0], [], [], layout=strata.strided), RuntimeError, "expected sparse compressed"),
    (lambda d: d.to_sparse_csc().crow_indices(), RuntimeError, "crow_indices expected sparse row compressed"),
    (lambda d: d.to_sparse_csr().ccol_indices(), RuntimeError, "ccol_indices expected sparse column compressed"),
    (lambda d: d.to_sparse().row_indices(), RuntimeError, "row_indices expected sparse column compressed"),
    (lambda d: d.ccol_indices(), RuntimeError, "ccol_indices expected"),
    (lambda d: d.to_sparse_bsc((2, 2)).numpy(), TypeError, "can't convert"),
    (lambda d: d.to_sparse_bsc((2, 2)).exp(), NotImplementedError, "exp is not available"),
])  # fmt: skip
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(strata.tensor(SMALL))


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "bsc"])
def test_constructors_name_themselves_and_their_options(kind):
    make = getattr(strata, f"sparse_{kind}_tensor")
    assert list(inspect.signature(make).parameters)[3:] == [
        "size",
        "dtype",
        "device",
        "pin_memory",
        "requires_grad",
        "check_invariants",
    ]
    with pytest.raises(TypeError, match=rf"sparse_{kind}_tensor\(\) got an unexpected keyword argument 'foo'"):
        make([0, 1], [0], [1.0], foo=1)
