"""Sparse tensors in other shapes: the results are those of dense tensors."""

import pytest
import strata

DENSE = strata.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
HYBRID = strata.tensor([[[0.0, 0.0]], [[1.0, 2.0]]])


def same(sparse, dense):
    assert sparse.is_sparse and sparse.shape == dense.shape and strata.equal(sparse.to_dense(), dense)
    assert strata.equal(sparse.coalesce().to_dense(), dense)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_unsqueeze(dim):
    same(DENSE.to_sparse().unsqueeze(dim), DENSE.unsqueeze(dim))


@pytest.mark.parametrize("dim", range(4))
def test_unsqueeze_of_dense_dimensions(dim):
    same(HYBRID.to_sparse(1).unsqueeze(dim), HYBRID.unsqueeze(dim))


def test_squeeze():
    x = DENSE.reshape(1, 2, 1, 3)
    same(x.to_sparse().squeeze(), x.squeeze())
    same(x.to_sparse().squeeze(0), x.squeeze(0))
    same(x.to_sparse().squeeze((0, 1, -2)), x.squeeze((0, 2)))
    same(HYBRID.to_sparse(1).squeeze(1), HYBRID.squeeze(1))
    with pytest.raises(NotImplementedError, match="one sparse dimension"):
        strata.ones(1, 1).to_sparse().squeeze()


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack(dim):
    same(strata.stack([DENSE.to_sparse(), 2 * DENSE.to_sparse()], dim), strata.stack([DENSE, 2 * DENSE], dim))
    with pytest.raises(RuntimeError, match="equal shapes"):
        strata.stack([DENSE.to_sparse(), DENSE.t().to_sparse()], dim)


def test_permute():
    x = strata.arange(24.0).reshape(2, 3, 4)
    same(x.to_sparse().permute(2, 0, 1), x.permute(2, 0, 1))
    same(strata.permute(x.to_sparse(), (1, -1, 0)), x.permute(1, 2, 0))
    same(x.to_sparse(1).permute(0, 2, 1), x.permute(0, 2, 1))
    with pytest.raises(NotImplementedError, match="cannot be exchanged"):
        x.to_sparse(1).permute(1, 0, 2)
    with pytest.raises(RuntimeError, match="each of 3 dimensions once"):
        x.to_sparse().permute(0, 0, 1)


def test_gradients_flow_through():
    x = DENSE.clone().requires_grad_()
    (strata.stack([x.to_sparse(), x.to_sparse()]).unsqueeze(0).to_dense() * 3).sum().backward()
    assert x.grad.tolist() == [[0, 6, 0], [6, 0, 6]]


DIAGONALS = [
    ([[1.0, 2, 3], [4, 5, 6]], [0, 1], (3, 3), [[1, 5, 0], [0, 2, 6], [0, 0, 3]]),
    ([[1.0, 2, 3], [4, 5, 6]], [-1, 1], (3, 3), [[0, 5, 0], [1, 0, 6], [0, 2, 0]]),
    ([1.0, 2, 3], 0, (2, 4), [[1, 0, 0, 0], [0, 2, 0, 0]]),
]


@pytest.mark.parametrize("diagonals, offsets, shape, expected", DIAGONALS)
def test_spdiags(diagonals, offsets, shape, expected):  # the expected matrices are PyTorch's
    made = strata.sparse.spdiags(strata.tensor(diagonals), strata.tensor(offsets), shape)
    assert made.to_dense().tolist() == expected and made.layout == "sparse_coo"
    rows = strata.sparse.spdiags(strata.tensor(diagonals), strata.tensor(offsets), shape, layout=strata.sparse_csr)
    assert rows.layout == "sparse_csr" and rows.to_dense().tolist() == expected


def test_spdiags_checks_offsets():
    with pytest.raises(RuntimeError, match="duplicate"):
        strata.sparse.spdiags(strata.ones(2, 2), strata.tensor([0, 0]), (2, 2))
    with pytest.raises(RuntimeError, match="one offset for each"):
        strata.sparse.spdiags(strata.ones(2, 2), strata.tensor([0]), (2, 2))


def test_printing_without_elements():
    assert repr(strata.zeros(2, 2).to_sparse()) == (
        "tensor(indices=tensor([], size=(2, 0)),\n"
        "       values=tensor([], size=(0,)),\n"
        "       size=(2, 2), nnz=0, layout=strata.sparse_coo)"
    )
