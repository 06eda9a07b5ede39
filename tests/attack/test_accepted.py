"""Rules of accepted.py hold for the programs that their reasons explain, and not for others."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import accepted
import differential
import examined
import strata


def program(lines, difference="", leaves=1, values=(1.0, 2.0, 3.0), ours=None, theirs=None):
    """The program after its last line, with Strata on both sides."""
    sides = []
    for name in ("strata", "torch"):
        side = differential.Executor(name, strata)
        side.data = [((3,), "float64", True, list(values))] * leaves
        for line in lines:
            assert side.run(line) is None
        sides.append(side)
    text = differential.Difference(difference)
    text.ours, text.theirs = ours, theirs
    return examined.Program(lines[:-1], lines[-1], *sides, text, differential.compare)


BEGIN = ["v0 = leaf(0)", "v1 = v0 * 1"]
END = ["loss = v2.sum()", "loss.backward()"]


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2 = v1.exp()", "v2.data.mul_(2)"], True),
        (["v2 = v1.exp()", "v3 = v2.data", "v3 += 1"], True),
        (["v2 = v1 * 3", "v2.data.mul_(2)"], False),  # nobody saved it
        (["v1.data.mul_(2)", "v2 = v1.exp()"], False),  # saved after the write
        (["v2 = v1.exp()", "v2.detach().clone()"], False),
    ],
)
def test_an_unseen_write_goes_to_a_saved_tensor(lines, holds):
    assert accepted.unseen_write(program([*BEGIN, *lines, *END])) == holds


HOOK = "v2.register_hook(lambda g: g * 2)"


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2 = v1[:2]", HOOK, "with T.no_grad(): v1.add_(1)"], True),
        (["v2 = v1[:2]", HOOK, "v1.detach().add_(1)"], True),
        (["v2 = v1[:2]", HOOK, "v3 = v1.detach()", "v3 += 1"], True),
        (["v2 = v1[:2]", "with T.no_grad(): v1.add_(1)", HOOK], False),  # the hook came after the write
        (["v2 = v1[:2]", HOOK, "v1.add_(1)"], False),  # recorded
        (["v2 = v1[:2]", HOOK, "v3 = v1[1:]", "v3.add_(1)"], True),  # through another view
        (["v2 = v1 * 2", HOOK, "v2.view(-1)[0] = 1"], True),  # through a view of the tensor itself
        (["v2 = v1 * 2", HOOK, "v2.select(0, 0).mul_(3)"], True),
        (["v2 = v1 * 2", HOOK, "with T.no_grad(): v1.add_(1)"], False),  # no view
        (["v2 = v1[:2]", HOOK, "v3 = v1 * 1", "with T.no_grad(): v3.add_(1)"], False),  # other memory
    ],
)
def test_the_hook_of_a_view_comes_before_an_unrecorded_write_or_one_through_a_view(lines, holds):
    assert accepted.hook_of_a_written_view(program([*BEGIN, *lines, *END])) == holds


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2 = v1[:2]", "with T.no_grad(): v1.add_(1)"], True),
        (["with T.no_grad(): v1.add_(1)", "v2 = v1[:2]"], False),
        (["v2 = v1[:2]", "v1.add_(1)"], False),
    ],
)
def test_the_gradient_of_a_view_is_asked_for_after_an_unrecorded_write(lines, holds):
    end = ["loss = v2.sum()", "grads = T.autograd.grad(loss, [v2])"]
    assert accepted.gradient_of_a_written_view(program([*BEGIN, *lines, *end])) == holds


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2.retain_grad()", "with T.no_grad(): v1.add_(1)"], True),
        (["v2.retain_grad()", "v1.add_(1)"], False),  # recorded
        (["with T.no_grad(): v1.add_(1)"], False),  # not retained
    ],
)
def test_a_view_retains_its_gradient_before_an_unrecorded_write(lines, holds):
    lines = [*BEGIN, "v2 = v1[:2]", *lines, *END]
    assert accepted.retained_by_a_written_view(program(lines, difference="v2.grad: a tensor beside nothing")) == holds


def test_the_gradient_that_comes_in_is_infinite():
    rule = accepted.infinite_gradient("softsign")
    ours, theirs = np.array([-np.inf, 1.0]), np.array([np.nan, 1.0])
    lines = [*BEGIN, "v2 = F.softsign(v1)", *END]
    assert rule(program(lines, ours=ours, theirs=theirs))
    assert not rule(program(lines, ours=np.array([0.0, 1.0]), theirs=theirs))  # finite
    assert not rule(program(lines, ours=ours, theirs=np.array([np.nan, 2.0])))  # another difference
    assert not rule(program([*BEGIN, "v2 = v1.exp()", *END], ours=ours, theirs=theirs))


@pytest.mark.parametrize("made, holds", [("v0.nonzero()", True), ("v0.long() * 1", False)])
def test_the_rows_of_nonzero_are_apart_in_the_memory_of_the_other(made, holds):
    p = program(["v0 = leaf(0)", f"v1 = {made}", "v1[0] = 1"], difference="v1: [")
    assert not accepted.of_nonzero(p)
    p.theirs["v1"] = strata.stack([p.theirs["v1"]] * 2, -1)[..., 0]
    assert accepted.of_nonzero(p) == holds


@pytest.mark.parametrize(
    "line, values, holds",
    [
        ("v2 = v1.amax(0)", (1, np.nan, 2), True),
        ("v2 = v1.amax(0)", (1, np.inf, 2), False),
        ("v2 = F.softsign(v1)", (1, np.inf, 2), True),
        ("v2 = F.softsign(v1)", (1, 0, 2), False),
        ("v2 = v1.var(0)", (2, 2, 2), True),
        ("v2 = v1.var(0)", (1, 2, 2), False),
        ("v2 = v1.exp()", (1, np.nan, 2), False),
    ],
)
def test_nan_is_explained_by_an_op_at_its_special_point(line, values, holds):
    rule = accepted.only_nan_there(amax=accepted.has_nan, softsign=accepted.not_finite, var=accepted.result_zero_or_nan)
    ours, theirs = np.array([0.0, 1.0]), np.array([np.nan, 1.0])
    assert rule(program([*BEGIN, line, *END], values=values, ours=ours, theirs=theirs)) == holds
    assert not rule(program([*BEGIN, line, *END], values=values, ours=ours, theirs=np.array([np.nan, 2.0])))


@pytest.mark.parametrize("values, holds", [((0.3, 0.3 + 1e-7, 2.0), True), ((0.3, 1.0, 2.0), False)])
def test_rounding_errors_are_amplified(values, holds):
    lines = ["v0 = leaf(0)", "v1 = 1 / (v0[0] - v0[1])", "v2 = v1 * v1"]
    p = program(lines, difference="v2: 1.0 beside 2.0", values=values)
    p.difference.ours = accepted.as_array(p.space["v2"])
    p.difference.theirs = p.difference.ours * (1 + 1e-8)
    assert accepted.amplified(p) == holds


@pytest.mark.parametrize("ours, theirs, holds", [(1e30, np.inf, True), (1e10, np.inf, False), (1e30, 2e30, False)])
def test_squares_of_distances_overflow(ours, theirs, holds):
    lines = [*BEGIN, "v2 = T.cdist(v1[:, None], v1[:, None])"]
    p = program(lines, ours=np.array([0.0, ours]), theirs=np.array([0.0, theirs]))
    assert accepted.squares_overflow(p) == holds


@pytest.mark.parametrize("values, holds", [((1.0, 0.0, 2.0), True), ((1.0, -1.0, 2.0), False)])
def test_prelu_met_zero(values, holds):
    p = program([*BEGIN, "v2 = F.prelu(v1, T.full((1,), 0.25, dtype=v1.dtype))", *END], values=values)
    assert p.met({"prelu": accepted.has_zero}) == holds


@pytest.mark.parametrize("values, holds", [((0, np.inf, 2), True), ((0, 1, 2), False)])
def test_nan_of_ours_is_explained_by_a_product_that_is_nan(values, holds):
    rule = accepted.only_nan_there(ours=True, cumprod=accepted.result_nan)
    lines = [*BEGIN, "v2 = v1.cumprod(0)", *END]
    ours, theirs = np.array([np.nan, 1.0]), np.array([0.0, 1.0])
    assert rule(program(lines, values=values, ours=ours, theirs=theirs)) == holds
    assert not rule(program(lines, values=values, ours=theirs, theirs=ours))


@pytest.mark.parametrize(
    "product, shape, holds",
    [
        ("v2 @ v3", "[1, 1, 3]", True),
        ("v2 @ v3", "[2, 3, 1]", False),  # has all batch dimensions
        ("v2 @ v2.mT", "[1, 1, 3]", False),
        ("v2[0] @ v3", "[2, 3, 1]", False),  # the names stand for three dimensions each
        ("v5 @ v3", "[2, 3, 1]", True),  # a matrix and a batch
    ],
)
def test_a_broadcast_operand_of_a_product_was_saved(product, shape, holds):
    lines = [
        "v2 = v1[None, None]",
        "v5 = v1[None]",
        "v3 = T.stack([v1, v1])[..., None]",
        f"v4 = {product}",
        "loss = v4.sum()",
    ]
    text = f"torch: only we refused it: inplace operation: matmul saved a float64 tensor of shape {shape} at version 1"
    assert accepted.broadcast_product(program([*BEGIN, *lines], text)) == holds


def test_a_result_has_a_hook():
    rule = accepted.hooked_result("(logsumexp|cdist)", "g * 2")
    lines = ["v2 = T.logsumexp(v1, 0)", HOOK]
    assert rule(program([*BEGIN, *lines, *END]))
    assert rule(program([*BEGIN, "v2 = T.cdist(v1[:, None], v1[:, None])", HOOK, *END]))
    assert not rule(program([*BEGIN, lines[0], "v1.register_hook(lambda g: g * 2)", *END]))


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2 = v1[:2]", "v1.unsqueeze_(0)"], True),
        (["v1.unsqueeze_(0)", "v2 = v1[:2]"], False),
        (["v2 = v1 * 2", "v3 = v1 * 1", "v3.unsqueeze_(0)"], False),
    ],
)
def test_a_tensor_was_reshaped_after_a_view_of_it_was_made(lines, holds):
    end = ["loss = v2.sum() + v1.sum()", "grads = T.autograd.grad(loss, [v1])"]
    assert accepted.reshaped_after_a_view(program([*BEGIN, *lines, *end])) == holds


@pytest.mark.parametrize("line, holds", [("v2 = v1.expand(2, 3)", True), ("v2 = T.stack([v1, v1])", False)])
def test_an_operand_repeats_its_elements(line, holds):
    assert accepted.expanded_operand(program([*BEGIN, line, "v3 = v2.median(0).values"])) == holds


def test_hooks_ran_in_another_order():
    log = "register_hook(lambda g: log.append(g.detach().clone()))"
    p = program([*BEGIN, f"v1.{log}", "v2 = v1 * 2", f"v2.{log}", *END])
    p.theirs["log"].reverse()
    assert accepted.same_hooks_in_another_order(p)
    p.theirs["log"][0] = p.theirs["log"][0] * 3
    assert not accepted.same_hooks_in_another_order(p)


def test_out_resized_a_tensor_under_its_view():
    lines = ["v0 = T.ones(1, 3)", "v1 = v0.expand(2, 1, 3)", "v2 = v0.clone()"]
    p = program([*lines, "T.mul(v1, v1, out=v0)"])
    assert accepted.resized_under_a_view(p)
    assert not accepted.resized_under_a_view(program([*lines, "T.mul(v2, v2, out=v0)"]))


def test_a_tensor_is_a_view_on_the_other_side_alone():
    p = program([*BEGIN, "v2 = v1 * 2", "loss = v2.sum()", "loss.backward(inputs=[v2])"])
    assert not accepted.view_only_there(p)
    p.other.space["v2"] = strata.ones(4)[:3]
    assert accepted.view_only_there(p)


@pytest.mark.parametrize("written, holds", [("v1", True), ("v0", False)])
def test_the_data_of_a_tensor_was_set(written, holds):
    lines = [*BEGIN, "v2 = v1[1:]", f"{written}.data = v0 * 2", "loss = v2.sum()", "loss.backward(inputs=[v1])"]
    p = program(lines, difference="v1.grad: a tensor beside nothing")
    assert accepted.data_was_set_of_the_difference(p) == holds


@pytest.mark.parametrize(
    "lines, call, holds",
    [
        (["v2.retain_grad()"], "create_graph=True", True),
        (["v2.retain_grad()"], "retain_graph=True", False),  # no graph of the gradient
        ([], "create_graph=True", False),  # not retained
    ],
)
def test_a_gradient_is_retained_with_a_graph(lines, call, holds):
    lines = [*BEGIN, "v2 = v1 * 2", *lines, "loss = v2.sum()", f"grads = T.autograd.grad(loss, [v2], {call})"]
    assert (
        accepted.retained_with_a_graph(program(lines, difference="v2.grad: requires_grad True beside False")) == holds
    )


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v2 = T.zeros(0)", "v3 = T.zeros(0, dtype=T.float64)"], True),
        (["v2 = T.zeros(0)", "v3 = T.zeros(0)"], False),  # one dtype
        (["v2 = T.zeros(3)", "v3 = T.zeros(3, dtype=T.float64)"], False),  # PyTorch compares the dtypes
    ],
)
def test_operands_of_different_dtypes_have_no_elements(lines, holds):
    p = program([*BEGIN, *lines, "v4 = T.einsum('...i,...i->...', v2, v3)"])
    assert accepted.empty_of_mixed_dtypes(p) == holds


@pytest.mark.parametrize(
    "dtype, ours, theirs, holds",
    [
        ("float32", [1.0, 0.5, 1 / 3], [1.0, 0.5, 0.4], True),
        ("float32", [1.0, 0.5, 0.4], [1.0, 0.5, 1 / 3], False),  # PyTorch's is nearer
        ("float32", [1.1, 0.5, 1 / 3], [1.0, 0.5, 0.4], False),  # each is nearer somewhere
        ("float32", [1.0, 0.5, 1 / 3], [1.0, 0.5, 1 / 3], False),  # no difference to explain
        ("float32", [1.0, 0.5, float("nan")], [1.0, 0.5, 0.4], False),
        ("float16", [1.0, 0.5, 1 / 3], [1.0, 0.5, float("inf")], True),
        ("int32", [1.0, 0.5, 1 / 3], [1.0, 0.5, 0.4], True),
    ],
)
def test_our_result_is_the_nearer_one(dtype, ours, theirs, holds):
    p = program([*BEGIN, "v2 = 1 / v1"], "v2: [", ours=np.array(ours), theirs=np.array(theirs))
    for side in (p.ours, p.other):
        side.data = [((3,), dtype, dtype != "int32", [1, 2, 3])]
    assert accepted.nearer_than_pytorch(p) == holds


def test_a_difference_that_stays_in_double_is_not_explained():
    p = program([*BEGIN, "v2 = 1 / v1"], "v2: [", ours=np.array([1.0, 0.5, 1 / 3]), theirs=np.array([1.0, 0.5, 0.4]))
    p.other.data = [((3,), "float64", True, [1.0, 2.0, 2.5])]
    assert not accepted.nearer_than_pytorch(p)


@pytest.mark.parametrize(
    "lines, holds",
    [
        (["v1 = v0.view(-1)", "v1.requires_grad_()", "v2 = v1[0]", "v0.neg_()"], True),
        (["v1 = v0.view(-1)", "v1.requires_grad_()", "v2 = v1[0]"], False),  # nothing was written
        (["v1 = v0.clone()", "v1.requires_grad_()", "v2 = v1[0]", "v0.neg_()"], False),  # memory of its own
    ],
)
def test_a_leaf_over_written_memory(lines, holds):
    lines = ["v0 = T.ones(3)", *lines, "loss = v2.sum() + v1.sum()", "loss.backward()"]
    assert accepted.view_over_written_memory(program(lines, "v1.grad: [")) == holds


@pytest.mark.parametrize(
    "write, holds",
    [
        ("with T.no_grad(): v1.mul_(2)", True),
        ("with T.no_grad(): F.hardtanh(v1, inplace=True)", True),
        ("with T.no_grad(): v3.mul_(2)", True),  # another view of the same memory
        ("v1.mul_(2)", False),  # recorded
        ("v4 = v0.exp()", False),
    ],
)
def test_a_view_over_written_memory(write, holds):
    lines = ["v2 = v1[:2]", "v3 = v1[1:]", write, "loss = v2.sum() + v1.sum()"]
    asked = program([*BEGIN, *lines, "grads = T.autograd.grad(loss, [v2, v0], allow_unused=True)"], "grads[0]: [")
    assert accepted.view_over_written_memory(asked) == holds
    asked.difference = differential.Difference("grads[1]: [")  # v0 is no view
    assert not accepted.view_over_written_memory(asked)


@pytest.mark.parametrize("line, holds", [("with T.no_grad(): v0.unsqueeze_(0)", True), ("v2 = v1.exp()", False)])
def test_the_gradient_has_the_new_shape_of_a_leaf(line, holds):
    p = program([*BEGIN, line, "loss = (v1 * 3).sum()", "loss.backward()"], "v0.grad: shape (1, 3) beside (3,)")
    assert accepted.same_numbers_in_the_new_shape(p) == holds
    p.theirs["v0"].grad = p.theirs["v0"].grad * 2
    assert not accepted.same_numbers_in_the_new_shape(p)


@pytest.mark.parametrize(
    "theirs, holds",
    [
        ([1.0, float("nan"), 3.0], True),
        ([1.0, float("nan"), float("nan")], False),  # NaN of a finite operand
        ([2.0, float("nan"), 3.0], False),
    ],
)
def test_infinities_give_nan_on_the_other_side(theirs, holds):
    ours = np.array([1.0, np.inf, 3.0])
    p = program(["v0 = leaf(0)", "v1 = F.gelu(v0)"], "v1: [", 1, (1.0, np.inf, 3.0), ours, np.array(theirs))
    assert accepted.nan_of_infinities(p) == holds


@pytest.mark.parametrize(
    "line, theirs, holds",
    [
        ("v1 = T.logcumsumexp(v0, 0)", [0.0, 1.0, 2.0], True),
        ("v1 = T.cumsum(v0, 0)", [0.0, 1.0, 2.0], False),  # another op
        ("v1 = T.logcumsumexp(v0, 0)", [5.0, 1.0, 2.0], False),
        ("v1 = T.logcumsumexp(v0, 0)", [0.0, 3.0, 2.0], False),
    ],
)
def test_a_gradient_drops_nan_on_the_other_side(line, theirs, holds):
    ours = np.array([np.nan, 1.0, 2.0])
    p = program(["v0 = leaf(0)", line], "grads[0]: [", ours=ours, theirs=np.array(theirs))
    assert accepted.nan_lost_there("logcumsumexp")(p) == holds


@pytest.mark.parametrize("values, theirs, holds", [((-0.1, 1.0, 2.0), [np.inf, 1.0, 2.0], True), ((-0.1, 1.0, 2.0), [np.inf, 1.0, 3.0], False), ((-1.0, 1.0, 2.0), [np.inf, 1.0, 2.0], False)])  # fmt: skip
def test_a_zero_has_another_sign(values, theirs, holds):
    rule = accepted.other_sign_of_infinity(softshrink=accepted.result_zero_or_nan)
    lines = ["v0 = leaf(0)", "v1 = F.softshrink(v0, 0.3)", "v2 = 1 / v1"]
    ours = np.array([-np.inf, 1.0, 2.0])
    assert rule(program(lines, "v2: [", 1, values, ours, np.array(theirs))) == holds


def test_out_moved_a_tensor_away_from_its_views():
    p = program(["v0 = T.ones(6)", "v1 = v0[3:]", "v2 = T.ones(8)", "T.mul(v2, v2, out=v0)"], "v1: [")
    p.other.space["v1"] = p.other.space["v0"][3:]
    assert accepted.moved(p)
    p.other.space["v1"] = strata.ones(3)
    assert not accepted.moved(p)
