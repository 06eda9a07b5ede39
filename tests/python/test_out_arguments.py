"""Invalid out= arguments: generated from the records, for every op that takes it."""

import numpy as np
import pytest
import records
import signatures
import strata
from records import PUBLIC, label

WITH_OUT = [
    r
    for r in PUBLIC
    if r["out"]
    and r["samples"]
    and not r["random"]
    and r["outputs"] != 0
    and signatures.Schema(r["schema"]).result != "Tensor[]"
]
by_record = pytest.mark.parametrize("record", WITH_OUT, ids=label)


def first_call(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    _, arguments = records.samples(record, dtype)[0]
    results = records.call(record, arguments)
    return arguments, results if isinstance(results, tuple) else (results,)


def call_out(record, arguments, outs):
    return records.callable_of(record)(**arguments, out=outs if len(outs) > 1 else outs[0])


@by_record
def test_out_of_a_dtype_that_loses_is_refused(record):
    arguments, results = first_call(record)
    if not all(t.dtype.is_floating_point for t in results):
        return
    with pytest.raises(RuntimeError, match="dtype|cast"):
        call_out(record, arguments, tuple(strata.empty(t.shape, dtype=strata.int64) for t in results))


@by_record
def test_out_of_another_device_is_refused(record):
    arguments, results = first_call(record)
    if not records.tensors(arguments):
        return  # made from nothing: out= says where
    with pytest.raises(RuntimeError, match="same device"):
        call_out(record, arguments, tuple(strata.empty(t.shape, dtype=t.dtype, device="vgpu") for t in results))


@by_record
def test_out_that_requires_a_gradient_is_refused(record):
    arguments, results = first_call(record)
    if not results[0].dtype.is_floating_point:
        return
    outs = tuple(strata.empty_like(t) for t in results)
    outs[0].requires_grad_()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        call_out(record, arguments, outs)


@by_record
def test_expanded_out_is_refused(record):
    arguments, results = first_call(record)
    if results[0].numel() < 2:
        return
    outs = tuple(strata.empty((), dtype=t.dtype).expand(t.shape) for t in results)
    with pytest.raises(RuntimeError, match="single memory location"):
        call_out(record, arguments, outs)


@by_record
def test_outs_that_overlap_are_refused(record):
    arguments, results = first_call(record)
    same = [t for t in results if t.dtype is results[0].dtype and t.shape == results[0].shape]
    if len(results) < 2 or len(same) != len(results) or not results[0].numel():
        return
    out = strata.empty_like(results[0])
    with pytest.raises(ValueError, match="must not overlap"):
        call_out(record, arguments, (out,) * len(results))


def test_pointwise_out_may_be_an_input_but_not_a_part_of_one():
    x = strata.arange(6.0)
    strata.add(x, 1, out=x)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match="single memory location"):
        strata.add(x[:4], 1, out=x[1:5])
    strata.add(x[::2], 1, out=x[1::2])  # no element in common
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("device", ["cpu", "vgpu"])
def test_out_that_shrinks_keeps_its_memory(device):
    x = strata.zeros(2, 3, device=device)
    seen = x.reshape(-1)
    two = strata.full((2,), 2.0, device=device)
    strata.mul(two, two, out=x)
    assert x.tolist() == [4, 4] and seen.tolist() == [4, 4, 0, 0, 0, 0]
    strata.add(two, 1, out=x.resize_(0))
    assert seen.tolist() == [3, 3, 0, 0, 0, 0]


def test_out_that_shrinks_keeps_the_memory_of_an_array():
    a, fixed = np.zeros(3), np.zeros(3)
    fixed.flags.writeable = False
    strata.mul(strata.ones(2), 2, out=strata.from_numpy(a))
    assert a.tolist() == [2, 2, 0]
    t = strata.from_numpy(fixed)
    assert strata.mul(strata.ones(2), 2, out=t).tolist() == [2, 2]  # gets memory of its own
    assert fixed.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: strata.cat([x, x], out=x),
        lambda x, i: strata.stack([x[0], x[0]], out=x[:2]),
        lambda x, i: strata.gather(x, 0, i, out=x),
        lambda x, i: strata.index_select(x, 0, i[0], out=x),
        lambda x, i: strata.take(x, i, out=x),
        lambda x, i: strata.masked_select(x, x > 0, out=x),
    ],
)
def test_ops_that_move_elements_refuse_an_input_as_out(call):
    with pytest.raises(RuntimeError, match="single memory location"):
        call(strata.ones(4, 4), strata.zeros(4, 4, dtype=strata.int64))


def test_cat_on_a_device_refuses_inputs_of_the_cpu():
    x = strata.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        strata.cat([x, x], out=strata.empty(4, device="vgpu"))
    with pytest.raises(RuntimeError, match="same device"):
        strata.cat([x.to("vgpu"), x], out=strata.empty(4, device="vgpu"))


def test_numbers_stand_for_tensors_where_pytorch_takes_them():
    x, bits = strata.tensor([[2.0, 1.0], [0.0, 3.0]]), strata.tensor([6])
    assert strata.linalg.matrix_rank(x, atol=0.1, rtol=0.2) == 2 and strata.linalg.pinv(x, rtol=1e-6).shape == (2, 2)
    assert strata.pow(2, x).tolist() == [[4, 2], [1, 8]] and strata.remainder(7, x[0]).tolist() == [1, 0]
    assert strata.where(x > 1, x, 0).tolist() == [[2, 0], [0, 3]] and strata.clamp(x, 1, 2).tolist() == [[2, 1], [1, 2]]
    assert strata.bitwise_and(3, bits).tolist() == [2] and strata.lerp(x, x, 0.5).equal(x)
    assert strata.xlogy(1, x[0, 1]) == 0 and strata.rsub(x[0], 1).tolist() == [-1, 0]
    assert x.masked_fill(x > 1, 0).tolist() == [[0, 1], [0, 0]] and x.copysign(-1)[0].tolist() == [-2, -1]


@by_record
def test_numbers_do_not_stand_for_tensors(record):
    """Where PyTorch has no form with a number. The first parameter of most ops is such a tensor."""
    takes = "add bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor div float_power floor_divide mul pow"
    takes += " remainder special.xlog1py sub xlogy bucketize isin normal to where"
    params = signatures.Schema(record["schema"]).params
    if record["name"] in takes.split() or not params or params[0].kind != "Tensor":
        return
    arguments, _ = first_call(record)
    name = params[0].name
    if not isinstance(arguments.get(name), strata.Tensor):
        return
    with pytest.raises(TypeError):
        records.callable_of(record)(**{**arguments, name: 2})


@pytest.mark.parametrize("shapes", [((3,), (2, 3)), ((0,), (1, 0)), ((1, 0), (2, 1, 0))])
def test_out_that_is_an_input_is_not_resized(shapes):
    out, other = map(strata.ones, shapes)
    with pytest.raises(RuntimeError, match="is an input too"):
        strata.add(out, other, out=out)
    assert out.shape == shapes[0]
    strata.add(out + 1, other, out=out)  # no input any more
    assert out.shape == (out + other).shape
