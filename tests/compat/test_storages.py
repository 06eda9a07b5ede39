"""Storages: the memory behind tensors, as bytes and as numbers."""

import copy

import pytest
import strata


def test_bytes_can_be_changed_and_copied():
    x = strata.zeros(2)
    memory = x.untyped_storage()
    copied = memory.clone()
    memory.fill_(1)
    assert x.view(strata.int32).tolist() == [0x01010101] * 2 and copied.tolist() == [0] * 8
    assert list(copied) == [0] * 8 and copied.get_device() == -1 and not copied.is_pinned()
    assert copied.copy_(memory).tolist() == [1] * 8


def test_deepcopy_keeps_sharing():
    memory = strata.ones(2).untyped_storage()
    first, second = copy.deepcopy([memory, memory])
    assert first is second and first.data_ptr() != memory.data_ptr() and first.tolist() == memory.tolist()
    assert copy.copy(memory).data_ptr() != memory.data_ptr()


def test_sizes_change():
    memory = strata.UntypedStorage(4).fill_(7)
    assert memory.resize_(2).tolist() == [7, 7] and memory.nbytes() == 2


def test_memory_is_shared_between_processes():
    memory = strata.UntypedStorage(4).fill_(3).share_memory_()
    assert memory.is_shared() and memory.tolist() == [3] * 4


def test_printing():
    assert repr(strata.FloatStorage([1, 2])) == (
        " 1.0\n 2.0\n[strata.storage.TypedStorage(dtype=strata.float32, device=cpu) of size 2]"
    )
    assert repr(strata.UntypedStorage(2).fill_(5)) == " 5\n 5\n[strata.storage.UntypedStorage(device=cpu) of size 2]"


COPIES = [
    ("select_copy", (strata.arange(4).reshape(2, 2), 0, 1), [2, 3]),
    ("slice_copy", (strata.arange(5), 0, 1, 4, 2), [1, 3]),
    ("slice_copy", (strata.arange(4).reshape(2, 2), -1, 1), [[1], [3]]),
    ("detach_copy", (strata.arange(2),), [0, 1]),
    ("view_as_real_copy", (strata.tensor([1 + 2j]),), [[1.0, 2.0]]),
    ("view_as_complex_copy", (strata.tensor([[1.0, 2.0]]),), [1 + 2j]),
    ("values_copy", (strata.eye(2).to_sparse().coalesce(),), [1.0, 1.0]),
]


@pytest.mark.parametrize("name, arguments, expected", COPIES)
def test_copies_of_views(name, arguments, expected):
    copied = getattr(strata, name)(*arguments)
    assert copied.tolist() == expected
    if not arguments[0].is_sparse:
        before = arguments[0].tolist()
        copied.zero_()
        assert arguments[0].tolist() == before


def test_copies_of_several_views():
    x = strata.arange(3)
    first, second = strata.split_copy(x, 2)
    first.zero_()
    assert x.tolist() == [0, 1, 2] and second.tolist() == [2]


def test_numbers_of_sizes():
    assert strata.sym_int(2.7) == 2 and strata.sym_float(3) == 3.0 and strata.sym_not(True) is False
    assert strata.sym_max(3, 2.5) == 3.0 and isinstance(strata.sym_max(3, 2.5), float) and strata.sym_min(1, 2) == 1
    assert strata.sym_sum([1, 2]) == 3 and strata.sym_sqrt(4) == 2 and strata.sym_ite(False, 1, 2) == 2
    x = strata.ones(2)
    assert strata.cond(x.sum() > 1, lambda a: a + 1, lambda a: a - 1, (x,)).tolist() == [2, 2]
    n, y = strata.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2), (strata.tensor(0), x))
    assert n.item() == 3 and y.tolist() == [8, 8]


def test_methods_of_tensors():
    assert strata.allclose(strata.ones(1).polygamma(1), strata.tensor(1.6449341))
    assert strata.ones(1).polygamma_(1).item() == pytest.approx(1.6449341)
    assert strata.full((1,), 3.0, dtype=strata.float64).float_power_(2).tolist() == [9]
    with pytest.raises(RuntimeError, match="requires dtype"):
        strata.ones(1).float_power_(2)
    x = strata.tensor([1.0, 2.0])
    assert x.map_(strata.tensor(3.0), lambda a, b: a + b).tolist() == [4, 5]
    assert x.map2_(x.clone(), strata.ones(1), lambda a, b, c: a + b + c).tolist() == [9, 11]
    assert strata.ones(1).cfloat().dtype is strata.complex64 and strata.ones(1).cdouble().dtype is strata.complex128
    assert strata.arange(4).as_strided_((2,), (2,)).tolist() == [0, 2]
    base = strata.ones(2, requires_grad=True)
    assert (base * 1)[:1]._is_view() and not base._is_view()
