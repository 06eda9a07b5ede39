"""Views and in-place writes: one history per write, which writes are allowed, hooks and retained gradients that move."""

import pytest
import strata
from strata.autograd import Function, grad


def written_base(device="cpu"):
    """A leaf, a tensor made from it that was written to in place, and a view from before the write."""
    x = strata.ones(2, device=device, requires_grad=True)
    base = x * 2
    view = base[:]
    base.exp_()
    return x, base, view


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_every_use_of_a_view_after_a_write_shares_one_history(device):
    x, _, view = written_base(device)
    loss = (view * 7 + view * 11).sum()
    expected = [18 * 2 * strata.tensor(2.0).exp().item()] * 2
    assert grad(loss, x, retain_graph=True)[0].tolist() == pytest.approx(expected)
    loss.backward(inputs=[x], retain_graph=True)
    assert x.grad.tolist() == pytest.approx(expected)
    assert grad(loss, view)[0].tolist() == [18, 18]


def test_a_hook_on_a_view_after_a_write_sees_the_sum_once():
    _, _, view = written_base()
    seen = []
    a = view * 7
    view.register_hook(lambda g: seen.append(g.tolist()))
    (a + view * 11).sum().backward()
    assert seen == [[18, 18]]


@pytest.mark.parametrize(
    "op", ["lt_", "le_", "gt_", "ge_", "eq_", "ne_", "logical_and_", "logical_or_", "logical_xor_"]
)
@pytest.mark.parametrize("part", [slice(None), slice(0, 1)])
def test_comparisons_in_place_cut_the_gradient(op, part):
    x = strata.tensor([1.0, 3.0], requires_grad=True)
    y = x * 1
    getattr(y[part], op)(strata.tensor([2.0, 2.0])[part])
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == ([0, 0] if part == slice(None) else [0, 1])


def test_copying_into_integers_does_not_ask_for_a_gradient():
    n = strata.zeros(2, dtype=strata.int64)
    n.copy_(strata.ones(2, requires_grad=True))
    assert not n.requires_grad and n.is_leaf
    n[0] = strata.ones((), requires_grad=True)
    assert not n.requires_grad


# --- what may be written -----------------------------------------------------------------------------------------------------


def test_a_leaf_that_is_a_view_is_not_written():
    x = strata.tensor([1.0, 2.0, 3.0, 4.0]).view(2, 2).requires_grad_()
    for write in (lambda: x.mul_(2), lambda: x[0].mul_(2), lambda: x.__setitem__(0, 5)):
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            write()
    with strata.no_grad():
        x[0] = 5
    (x * x).sum().backward()
    assert x.grad.tolist() == [[10, 10], [6, 8]]


def test_a_leaf_view_joins_the_graph_of_its_base():
    base, w = strata.ones(4), strata.ones(4, requires_grad=True)
    x = base.view(2, 2).requires_grad_()
    base.mul_(2)  # nothing to record
    assert x.is_leaf
    base.mul_(w)
    assert not x.is_leaf
    x.sum().backward()
    assert w.grad.tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("leaf", [True, False])
def test_views_made_without_recording_are_not_written_with_it(leaf):
    base = strata.ones(4, requires_grad=True)
    base = base if leaf else base * 1
    with strata.no_grad():
        view = base[:2]
        view.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad mode.*modified inplace"):
        view.mul_(2)
    with strata.inference_mode():
        view = base[:2]
    assert not view.is_inference()
    with pytest.raises(RuntimeError, match="inference mode.*modified inplace"):
        view.mul_(2)


def test_a_view_made_without_recording_is_not_used_after_its_base_changed():
    base = strata.ones(4, requires_grad=True) * 1
    with strata.no_grad():
        view = base[:2]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified"):
        view * 2


def test_inference_tensors_stay_out_of_autograd():
    with strata.inference_mode():
        t = strata.ones(3)
        t.mul_(2)
    for write in (lambda: t.mul_(2), lambda: t[:1].mul_(2), lambda: strata.add(strata.ones(3), 1, out=t)):
        with pytest.raises(RuntimeError, match="inference tensor"):
            write()
    with pytest.raises(RuntimeError, match="inference tensor"):
        t.requires_grad_()
    assert (t + strata.ones(3, requires_grad=True)).requires_grad


# --- hooks and retained gradients --------------------------------------------------------------------------------------------


def test_a_retained_gradient_is_that_of_the_new_value():
    x = strata.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    (y * y).sum().backward()
    assert y.grad.tolist() == [12, 12]
    base = x * 2
    view = base[:1]
    view.retain_grad()
    base.retain_grad()
    base.mul_(3)
    view.mul_(2)
    base.sum().backward()
    assert base.grad.tolist() == [1, 1]
    assert view.grad is None  # the sum is over the base: the view's new value leads nowhere


def test_hooks_stay_with_the_value_they_were_registered_on():
    x = strata.ones(2, requires_grad=True)
    y = x * 2
    before, after = [], []
    handle = y.register_hook(lambda g: before.append(g.tolist()))
    y.mul_(3)
    y.register_hook(lambda g: after.append(g.tolist()))
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    assert before == [[36, 36]] and after == [[12, 12]]
    handle.remove()
    loss.backward()
    assert len(before) == 1 and len(after) == 2


def test_backward_with_computed_inputs_retains_their_gradients():
    x = strata.ones(2, requires_grad=True)
    y = x * 2
    (y * 3).sum().backward(inputs=[y], retain_graph=True)
    assert y.grad.tolist() == [3, 3] and x.grad is None and y.retains_grad
    with pytest.raises(RuntimeError, match="requires_grad=False"):
        (y * 3).sum().backward(inputs=[strata.ones(2)])


# --- .data -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_data_has_a_version_of_its_own(device):
    x = strata.ones(2, device=device, requires_grad=True)
    y = x.sin()
    data = x.data
    data.mul_(2)
    data[0].mul_(2)
    assert (x._version, data._version, data[0]._version) == (0, 2, 2)
    assert x.tolist() == [4, 2]
    y.sum().backward()  # with the new values, as the user of .data asked for
    x.detach().mul_(2)
    assert x._version == 1
    y = x.sin()
    x.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_data_shares_memory_for_overlaps_and_kept_forms_of_weights():
    x = strata.arange(5.0)
    x[1:].copy_(x.data[:-1])
    assert x.tolist() == [0, 0, 1, 2, 3]
    linear = strata.nn.Linear(64, 64, bias=False)
    inputs = strata.ones(3, 64)
    with strata.no_grad():
        for _ in range(3):
            linear(inputs)
        linear.weight.data[5, 7] += 1
        expected = inputs @ linear.weight.T.clone()
        strata.testing.assert_close(linear(inputs), expected)


def test_exchanged_data_is_noticed():
    x = strata.ones(2, requires_grad=True)
    y = x * x
    x.data = strata.zeros(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z = strata.ones(2)
    x.data = z
    z.mul_(3)
    assert x.tolist() == [3, 3]


def test_a_resized_tensor_is_noticed():
    with strata.no_grad():
        t = strata.ones(2)
        t.mul_(1)
    y = strata.ones(2, requires_grad=True) * t
    t.resize_(100000)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_leaf_of_another_shape_refuses_its_old_gradient():
    changes = {
        "out=": lambda x: strata.mul(strata.tensor(2.0), 3, out=x),
        "data": lambda x: setattr(x, "data", strata.ones(4)),
        "t_": lambda x: x.t_(),
    }
    for name, change in changes.items():
        x = strata.ones(3, 2, requires_grad=True)
        y = x * 2
        with strata.no_grad():
            change(x)
        (g,) = strata.autograd.grad(y.sum(), x, retain_graph=True)  # of the value that was used
        assert g.tolist() == [[2, 2]] * 3, name
        with pytest.raises(RuntimeError, match="shape of a leaf changed"):
            y.sum().backward()
        assert x.grad is None, name


def test_a_leaf_that_got_or_lost_dimensions_of_one_element_takes_its_gradient():
    for shape, change in (((2, 3), lambda x: x.unsqueeze_(0)), ((2, 1, 3), lambda x: x.squeeze_())):
        x = strata.ones(shape, requires_grad=True)
        y = x * strata.arange(6.0).reshape(shape)
        with strata.no_grad():
            change(x)
        y.sum().backward()
        assert x.grad.shape == x.shape and x.grad.flatten().tolist() == [0, 1, 2, 3, 4, 5]


# --- user-defined functions --------------------------------------------------------------------------------------------------


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_a_function_that_writes_to_a_view_reaches_the_base():
    x = strata.ones(3, requires_grad=True)
    y = x * 1
    view = y[1:]
    assert Twice.apply(view) is view
    y.sum().backward()
    assert x.grad.tolist() == [1, 2, 2]
    assert y.tolist() == [1, 2, 2]


def test_a_function_may_not_write_to_leaves_nor_hide_what_it_wrote():
    class Hides(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    x = strata.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        Twice.apply(x)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        Twice.apply(x[1:])
    with pytest.raises(RuntimeError, match="were not returned as output"):
        Hides.apply(x * 1)


@pytest.mark.parametrize("part", [slice(None), slice(0, 2)])
def test_views_that_a_function_returns_are_not_written(part):
    class Part(Function):
        @staticmethod
        def forward(ctx, x):
            return x if part == slice(None) else x[part]

        @staticmethod
        def backward(ctx, g):
            return strata.ones(3)

    x = strata.ones(3, requires_grad=True)
    y = x * 1
    out = Part.apply(y)
    assert out is not y
    with pytest.raises(RuntimeError, match="view.*modified inplace.*custom Function"):
        out.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view of its base.*custom Function"):
        out * 2


def test_a_refused_write_writes_nothing():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    y = strata.ones(3, requires_grad=True) * 2
    same, other = Same.apply(y), strata.zeros(3)
    y.mul_(2)
    for write in (lambda: other.copy_(same), lambda: other.add_(same), lambda: other.addcmul_(same, same)):
        with pytest.raises(RuntimeError, match="custom Function"):
            write()
    assert other.tolist() == [0, 0, 0] and other._version == 0


def test_a_function_with_many_outputs():
    class Many(Function):
        @staticmethod
        def forward(ctx, x):
            return tuple(x * i for i in range(1000))

        @staticmethod
        def backward(ctx, *grads):
            assert len(grads) == 1000
            return sum(i * g for i, g in enumerate(grads))

    x = strata.ones(1, requires_grad=True)
    outs = Many.apply(x)
    (outs[999] + outs[256]).sum().backward()
    assert x.grad.tolist() == [999 + 256]


def test_backward_gets_a_gradient_for_each_output_of_forward():
    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            constant = x * 3
            ctx.mark_non_differentiable(constant)
            return x * 2, constant, "text", x > 0

        @staticmethod
        def backward(ctx, g, of_constant, of_text, of_mask):
            assert of_constant.tolist() == [0, 0] and of_text is None and of_mask.dtype is strata.bool
            return g * 2

    x = strata.ones(2, requires_grad=True)
    y, constant, text, mask = Mixed.apply(x)
    assert y.requires_grad and not constant.requires_grad and text == "text" and not mask.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_function_that_saved_nothing_runs_backward_again():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Saves(Plain):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    x = strata.ones(2, requires_grad=True)
    y = Plain.apply(x)
    y.sum().backward()
    y.sum().backward()
    assert x.grad.tolist() == [4, 4]
    y = Saves.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_an_input_that_is_named_twice_gets_its_gradient_once():
    x = strata.ones(2, requires_grad=True)
    (x * 3).sum().backward(inputs=[x, x])
    assert x.grad.tolist() == [3.0, 3.0]
    a, b = strata.autograd.grad((x * 3).sum(), [x, x])
    assert a.tolist() == b.tolist() == [3.0, 3.0]
    y = x * 2
    (y * 3).sum().backward(inputs=[y, y])
    assert y.grad.tolist() == [3.0, 3.0]


def test_a_leaf_that_shares_the_written_memory_gets_its_gradient():
    x = strata.tensor([-1.75, 1.0, 0.75], requires_grad=True)
    y = x.detach()
    y.mul_(x)  # y becomes x², by old values of both
    (y * 5).sum().backward()
    assert x.grad.tolist() == [-8.75, 5.0, 3.75]


def test_a_view_that_changes_its_shape_without_recording_keeps_its_history():
    x = strata.ones(2, 3, requires_grad=True)
    y = x * 1
    row = y[:1]
    with strata.no_grad():
        row.t_()
    (row * strata.tensor([[2.0], [3.0], [4.0]])).sum().backward()
    assert x.grad.tolist() == [[2, 3, 4], [0, 0, 0]]


@pytest.mark.parametrize(
    "change", [lambda t: t.transpose_(0, 1), lambda t: t.t_(), lambda t: t.unsqueeze_(0), lambda t: t.squeeze_()]
)
def test_a_saved_tensor_that_changed_its_shape_is_refused(change):
    x = strata.rand(3, 1, dtype=strata.float64, requires_grad=True)
    y = x * 1
    z = y * strata.rand(3, 1, dtype=strata.float64) * y
    change(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_elements_that_share_a_place_share_the_gradient_of_as_strided():
    x = strata.arange(3.0).requires_grad_()
    x.expand(2, 3).as_strided((2,), (1,)).sum().backward()
    assert x.grad.tolist() == [1, 1, 0]
    assert strata.autograd.gradcheck(lambda t: t.expand(2, 3).as_strided((2, 2), (1, 1)) ** 2, strata.rand(3, dtype=strata.float64, requires_grad=True))  # fmt: skip


def test_diff_is_no_view_of_its_input():
    x = strata.ones(3, 1, requires_grad=True)
    assert strata.diff(x)._base is None and strata.diff(x, n=0)._base is None
    strata.diff(x, n=0).mul_(2)
    assert x.tolist() == [[1], [1], [1]] and strata.diff(x, n=4).shape == (3, 0)


def test_ravel_of_a_strided_tensor_is_a_copy():
    x = strata.arange(9.0).reshape(3, 3)
    line, whole = x.diagonal().ravel(), x.ravel()
    x.mul_(2)
    assert line.tolist() == [0, 4, 8] and whole.tolist() == x.flatten().tolist()


@pytest.mark.parametrize("reshape", [lambda t: t.unsqueeze_(0), lambda t: t.squeeze_(), lambda t: t.t_()])
def test_views_made_before_lead_through_the_new_shape(reshape):
    x = strata.ones(2, 3, requires_grad=True)
    base = x * 2
    view = base.reshape(-1)
    reshape(base)
    (g,) = strata.autograd.grad((view * strata.arange(6.0)).sum(), [base])
    assert tuple(g.shape) == tuple(base.shape) and sorted(g.flatten().tolist()) == list(range(6))
    (g,) = strata.autograd.grad((view * strata.arange(6.0)).sum(), [x])
    assert g.tolist() == [[0, 2, 4], [6, 8, 10]]
