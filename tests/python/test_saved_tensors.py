"""A tensor that a gradient needs, written to before backward(), is an error and never a wrong gradient."""

import pytest
import strata


@pytest.mark.parametrize("op", [strata.exp, strata.sigmoid, strata.tanh, strata.sqrt, strata.relu])
@pytest.mark.parametrize(
    "write", [lambda t: t.mul_(2), lambda t: t.zero_(), lambda t: t.__setitem__(0, 5.0), lambda t: t.view(2).add_(1)]
)
def test_writing_to_a_saved_result_is_an_error(op, write):
    x = strata.rand(2).add_(0.5).requires_grad_()
    result = op(x)
    loss = result.sum()
    write(result)
    with pytest.raises(
        RuntimeError, match=f"{op.__name__} saved a float32 tensor of shape .2. at version 0, it is now at version"
    ):
        loss.backward()


def test_writing_to_a_saved_input_is_an_error():
    x, w = strata.ones(2, requires_grad=True), strata.ones(2)
    loss = (x * w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match="mul saved"):
        loss.backward()


def test_writing_to_what_no_gradient_needs_is_fine():
    x = strata.ones(2, requires_grad=True)
    h = x * 1
    loss = h.exp().sum()  # exp needs its result, not its input
    h.zero_()
    loss.backward()
    assert strata.allclose(x.grad, strata.ones(2).exp())
    y = strata.ones(2, requires_grad=True)
    y.exp().add(0).exp_().sum().backward()  # in place: saved after the write
    assert strata.allclose(y.grad, (strata.ones(2).exp().exp() * strata.ones(2).exp()))


def test_the_result_of_matrix_exp_may_be_written_to():
    x = strata.zeros(2, 2, dtype=strata.float64, requires_grad=True)
    y = strata.linalg.matrix_exp(x)
    y.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [[3, 3], [3, 3]]
