"""Everyday behavior that PyTorch programs rely on: sizes, data of torch.tensor, attributes, layouts of gradients, warnings."""

import collections
import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
import strata
from strata import nn

F = nn.functional


def test_slices_sums_and_multiples_of_a_size_are_sizes():
    s = strata.ones(2, 3, 4).shape
    for got, want in [
        (s[1:], (3, 4)),
        (s[::-1], (4, 3, 2)),
        (s + s[:1], (2, 3, 4, 2)),
        (s + (5,), (2, 3, 4, 5)),
        ((5,) + s, (5, 2, 3, 4)),
        (s * 2, (2, 3, 4, 2, 3, 4)),
        (2 * s[:1], (2, 2)),
        (pickle.loads(pickle.dumps(s)), (2, 3, 4)),
        (copy.deepcopy(s), (2, 3, 4)),
    ]:
        assert type(got) is strata.Size and got == want
    assert s[1:].numel() == 12 and s[:0].numel() == 1 and s[-1] == 4 and type(s[-1]) is int
    assert repr(s[1:]) == "strata.Size([3, 4])"
    with pytest.raises(TypeError, match="item 3 is 'str'"):
        s + ("a",)
    with pytest.raises(TypeError):
        s + [1]


class Pair:
    """A sequence by its length and items alone."""

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i + 0.5


@pytest.mark.parametrize(
    ("data", "want", "dtype"),
    [
        ([strata.tensor([1.0]), strata.tensor([2.0])], [1, 2], "float32"),
        ([strata.tensor([[1]]), 2.5], [1, 2.5], "float32"),
        ([[strata.tensor([1.0])], [strata.tensor([2.0])]], [[1], [2]], "float32"),
        ([strata.tensor(1.0, dtype=strata.float64), 2], [1, 2], "float64"),
        ([strata.ones(1, requires_grad=True)], [1], "float32"),
        ([np.ones(2), np.zeros(2)], [[1, 1], [0, 0]], "float64"),
        ([np.array([1, 2], dtype=np.int32), [3, 4]], [[1, 2], [3, 4]], "int64"),
        ([np.float32(1), np.float64(2)], [1, 2], "float64"),
        ([np.int64(3), 2.5], [3, 2.5], "float32"),
        ([1.5, np.float32(2)], [1.5, 2], "float32"),
        (range(3), [0, 1, 2], "int64"),
        ([range(2), range(2)], [[0, 1], [0, 1]], "int64"),
        (range(0), [], "float32"),
        (collections.deque([1, 2]), [1, 2], "int64"),
        (Pair(), [0.5, 1.5], "float32"),
        ([True, 2], [1, 2], "int64"),
        ([[], []], [[], []], "float32"),
        (strata.Size([4, 5]), [4, 5], "int64"),
    ],
)
def test_tensor_takes_the_sequences_of_pytorch(data, want, dtype):
    got = strata.tensor(data)
    assert got.tolist() == want and got.dtype is getattr(strata, dtype) and not got.requires_grad
    assert strata.as_tensor(data).tolist() == want and strata.Tensor(data).tolist() == want


@pytest.mark.parametrize("data", [[strata.ones(2), strata.ones(2)], [strata.ones(2), strata.ones(1)], [strata.ones(0)]])
def test_tensors_of_several_elements_are_not_numbers(data):
    with pytest.raises(ValueError, match="only one element tensors"):
        strata.tensor(data)


@pytest.mark.parametrize("data", ["a", ["a"], [b"ab"], {1: 2}, [None], {1, 2}, object()])
def test_tensor_refuses_what_is_not_a_sequence_of_numbers(data):
    with pytest.raises((TypeError, ValueError)):
        strata.tensor(data)


def test_a_sequence_of_impossible_length_is_refused_before_it_is_read():
    class Long(Pair):
        def __len__(self):
            return 2**60

    with pytest.raises(strata.OutOfMemoryError):
        strata.tensor(Long())


def test_ranges_and_deques_index():
    x = strata.arange(6.0)
    assert x[range(2)].tolist() == [0, 1] and x[collections.deque([4, 1])].tolist() == [4, 1]
    x[range(3)] = strata.tensor(7.0)
    assert x.tolist() == [7, 7, 7, 3, 4, 5]
    assert x.reshape(2, 3)[range(2), range(2)].tolist() == [7, 4]


def test_zero_dimensional_tensors_format_as_numbers():
    assert (
        f"{strata.tensor(3)}" == "3" and f"{strata.tensor(2.5):.3f}" == "2.500" and f"{strata.tensor(True)}" == "True"
    )
    assert f"{strata.tensor([3])}" == "tensor([3])" and str(strata.tensor(3)) == "tensor(3)"
    with pytest.raises(TypeError):
        f"{strata.ones(2):.2f}"


def test_plain_tensors_take_attributes():
    x = strata.ones(2)
    x.tag, x.other = "a", [1]
    assert x.tag == "a" and x.__dict__ == {"tag": "a", "other": [1]} and vars(x) is x.__dict__
    assert not hasattr(x + 1, "tag") and not hasattr(x.view(2), "tag")
    again = pickle.loads(pickle.dumps(x))
    assert again.tag == "a" and again.other == [1]
    copied = copy.deepcopy(x)
    assert copied.other == [1] and copied.other is not x.other
    del x.tag
    assert not hasattr(x, "tag")
    for name in ("shape", "dtype"):
        with pytest.raises(AttributeError):
            setattr(x, name, 1)
    p = nn.Parameter(strata.ones(2))
    p.tag = 1
    assert p.__dict__ == {"tag": 1} and copy.deepcopy(p).tag == 1


def test_a_shallow_copy_shares_memory():
    x = nn.Parameter(strata.ones(2))
    x.tag = "a"
    y = copy.copy(x)
    assert type(y) is nn.Parameter and y is not x and y.data_ptr() == x.data_ptr() and y.requires_grad and y.tag == "a"
    assert copy.copy(strata.ones(2)).__dict__ == {} and copy.copy(nn.Linear(2, 2)).weight.shape == (2, 2)


def test_attributes_do_not_outlive_their_tensor():
    x = strata.ones(2)
    x.tag = 1
    del x
    assert not any(hasattr(strata.ones(2), "tag") for _ in range(300))  # objects are reused


def test_cycles_through_attributes_are_collected():
    x = strata.ones(2)
    x.me, seen = x, weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_gradients_have_the_layout_of_their_leaf(device):
    x = strata.ones(2, 3, 4, 5, device=device).to(memory_format=strata.channels_last).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.stride() == x.stride()
    x.sum().backward()  # adds to it
    assert x.grad.stride() == x.stride() and x.grad.cpu().eq(3).all()
    row = strata.ones(3, 4, device=device, requires_grad=True)
    (row.t() * strata.ones(4, 3, device=device)).sum().backward()
    assert row.grad.stride() == (4, 1)
    wide = strata.ones(3, 4, device=device)[:, ::2].requires_grad_()  # not dense
    wide.exp().sum().backward()
    assert wide.grad.is_contiguous()
    turned = strata.ones(3, 4, device=device).t().requires_grad_()
    strata.autograd.backward(turned.exp().sum(), create_graph=True)
    assert turned.grad.stride() == (1, 4) and turned.grad.requires_grad


def test_a_channels_last_weight_gets_a_channels_last_gradient():
    layer = nn.Conv2d(3, 8, 3).to(memory_format=strata.channels_last)
    layer(strata.randn(2, 3, 9, 9)).sum().backward()
    assert layer.weight.grad.is_contiguous(memory_format=strata.channels_last)


def test_numpy_functions_of_tensors_return_tensors():
    x = strata.tensor([4.0, 9.0])
    assert type(np.sqrt(x)) is strata.Tensor and np.sqrt(x).tolist() == [2, 3]
    assert type(np.sqrt(strata.tensor(4.0))) is strata.Tensor
    assert type(np.add(x, np.ones(2))) is strata.Tensor and np.isnan(x).dtype is strata.bool
    assert type(np.asarray(x)) is np.ndarray


def test_trace_is_that_of_the_matrix():
    m = strata.arange(12.0).reshape(3, 4)
    assert strata.trace(m).item() == 15 and m.trace().item() == 15
    assert strata.trace(strata.ones(2, 2, dtype=strata.uint8)).dtype is strata.int64
    with pytest.raises(RuntimeError, match="expected a matrix"):
        strata.trace(strata.ones(2))
    m = strata.eye(2) * 4
    np.testing.assert_allclose(m.inverse().numpy(), np.eye(2) / 4)


def test_optimizers_may_skip_the_base_constructor():
    class Mine(strata.optim.Optimizer):
        def __init__(self, params):
            self.params = list(params)

        def step(self, closure=None):
            return "stepped"

    mine, seen = Mine([strata.ones(1)]), []
    assert mine.step() == "stepped"
    mine.register_step_post_hook(lambda *_: seen.append(1))
    mine.step()
    assert seen == [1] and Mine([strata.ones(1)])._post_hooks == ()


def test_a_sampler_draws_long_orders_in_pieces():
    data = strata.utils.data
    sampler = data.RandomSampler(range(5), replacement=True, num_samples=10**10)
    order = iter(sampler)
    assert all(0 <= next(order) < 5 for _ in range(10)) and len(sampler) == 10**10
    loader = iter(data.DataLoader(data.TensorDataset(strata.arange(5)), batch_size=4, sampler=sampler))
    assert next(loader)[0].shape == (4,)
    sampler._PIECE = 3
    few = data.RandomSampler(range(5), replacement=True, num_samples=10)
    few._PIECE = 3
    assert len(list(few)) == 10 and len(list(data.BatchSampler(few, 4, False))) == 3


# --- warnings --------------------------------------------------------------------------------------------------------------


def mse_with_unlike_sizes():
    F.mse_loss(strata.ones(3, 1), strata.ones(3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (mse_with_unlike_sizes, r"Using a target size \(strata.Size\(\[3\]\)\) that is different"),
        (lambda: nn.MSELoss()(strata.ones(3, 1), strata.ones(3)), "different to the input size"),
        (lambda: F.l1_loss(strata.ones(3), strata.ones(1)), "different to the input size"),
        (lambda: F.smooth_l1_loss(strata.ones(3), strata.ones(1)), "different to the input size"),
        (lambda: F.huber_loss(strata.ones(3), strata.ones(1)), "different to the input size"),
        (lambda: (strata.ones(2, requires_grad=True) * 2).grad, "not a leaf Tensor"),
        (lambda: strata.tensor(strata.ones(2)), "copy construct from a tensor"),
        (lambda: F.softmax(strata.ones(2)), "Implicit dimension choice for softmax"),
        (lambda: F.log_softmax(strata.ones(2)), "Implicit dimension choice for log_softmax"),
        (lambda: nn.Softmax()(strata.ones(2)), "Implicit dimension choice"),
    ],
)
def test_pytorch_s_warnings(call, text):
    with pytest.warns(UserWarning, match=text) as caught:
        call()
    assert caught[0].filename == __file__  # the user's line, not ours
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            call()


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.mse_loss(strata.ones(3), strata.ones(3))
        x = strata.ones(2, requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.sum().backward()
        assert x.grad is not None and y.grad is not None and strata.ones(2).grad is None and x.detach().grad is None
        strata.tensor([strata.tensor(1.0)])
        F.softmax(x, 0)


def test_ties_in_dilated_pools_go_to_the_first_window_position():
    x = strata.zeros(1, 1, 5, 5, requires_grad=True)
    F.max_pool2d(x, 3, 1, 1, dilation=2).sum().backward()
    want = np.zeros((5, 5))
    for top in range(-1, 2):
        for left in range(-1, 2):
            rows = [r for r in range(top, top + 5, 2) if 0 <= r < 5]
            columns = [c for c in range(left, left + 5, 2) if 0 <= c < 5]
            want[rows[0], columns[0]] += 1
    np.testing.assert_array_equal(x.grad[0, 0].numpy(), want)
