"""Autograd over all op records: writing in place has the gradient of the out-of-place form, also through a view of a base, and
results that cannot have a gradient do not require one."""

import pytest
import records
import strata
from records import RECORDS, label
from strata import _C

FORMS = [r for r in RECORDS if r["inplace"] and r["samples"] and strata.float64 in r["dtypes"]]


def first_name(record):
    return record["schema"].split("(", 1)[1].split()[1].rstrip(",)")


def gradients(loss, leaves):
    return strata.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)


def cases(record):
    """Sample calls whose result fits into the first argument, with a leaf for each float64 tensor."""
    first = first_name(record)
    for text, arguments in records.samples(record, strata.float64):
        target = arguments.get(first)
        if "!" in text[:2] or not isinstance(target, strata.Tensor) or target.dtype is not strata.float64:
            continue
        strata.manual_seed(0)
        want = records.call(record, arguments)
        if tuple(want.shape) != tuple(target.shape) or not strata.can_cast(want.dtype, target.dtype):
            continue
        leaves = {
            k: records.map_tensors(lambda t: t.clone().requires_grad_() if t.dtype is strata.float64 else t, v)
            for k, v in arguments.items()
            if k not in record["constants"]
        }
        yield text, first, {**arguments, **leaves}


def out_of_place(record, arguments):
    strata.manual_seed(0)
    return records.call(record, arguments)


def in_place(record, first, target, arguments):
    strata.manual_seed(0)
    rest = {k: v for k, v in arguments.items() if k != first}
    result = _C.ops[record["name"] + "_"](target, **rest)
    assert result is target


@pytest.mark.parametrize("record", FORMS, ids=label)
@pytest.mark.parametrize("through_view", [False, True], ids=["whole", "view"])
def test_writing_in_place_has_the_gradient_of_the_out_of_place_form(record, through_view):
    for text, first, arguments in cases(record):
        leaves = [t for t in records.tensors(arguments) if t.requires_grad]
        x = arguments[first]
        want = out_of_place(record, arguments)
        weight = strata.arange(1.0, want.numel() + 1, dtype=strata.float64).reshape(want.shape)
        # An op without a gradient cuts the graph: the gradient of the old value is zero.
        expected = [strata.zeros_like(t) for t in leaves]
        if want.requires_grad:
            try:
                expected = gradients((want * weight).sum(), leaves)
            except NotImplementedError as e:
                assert "derivative" in str(e)
                continue
        if through_view:
            base = strata.stack([x * 1, x * 1])
            target = base[1]
            expected = [e + weight if t is x else e for e, t in zip(expected, leaves, strict=True)]
        else:
            base = target = x * 1
        in_place(record, first, target, arguments)
        what = f"{label(record)}_ ({text})"
        assert target.requires_grad == target.dtype.is_floating_point, what
        records.assert_same(target, want.to(target.dtype), strata.float64, what)
        got = gradients((base * weight).sum(), leaves)
        for g, e in zip(got, expected, strict=True):
            records.assert_same(g, e, strata.float64, what)


@pytest.mark.parametrize("record", [r for r in RECORDS if r["samples"]], ids=label)
def test_results_without_gradients_do_not_ask_for_one(record):
    if strata.float64 not in record["dtypes"] or record["schema"].endswith("-> ()") or record["name"].endswith("_"):
        return
    for text, arguments in records.samples(record, strata.float64):
        leaves = records.map_tensors(
            lambda t: t.clone().requires_grad_() if t.dtype is strata.float64 else t, arguments
        )
        strata.manual_seed(0)
        for out in records.tensors(records.call(record, leaves)):
            assert out.is_floating_point() or out.is_complex() or not out.requires_grad, f"{label(record)} ({text})"
