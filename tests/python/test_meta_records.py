"""Tests generated from the op records, on device meta: each sample of each op has the shapes, strides and dtypes of the call on
the CPU, in place, with out= and in its gradients. No op is left out: those that raise, because the shape of their result depends
on values, are listed, sample by sample."""

import pytest
import records
import strata
from records import RECORDS, label
from strata import _C

ALL = "all samples"
# The shape of the result is in the values.
REFUSED = {
    "_pack_padded_sequence": ALL,  # of lengths on meta; see test_lengths_stay_on_the_host
    "_pad_packed_sequence": ALL,
    "_lstm_projected.data": ALL,  # as for packing
    "argwhere": ALL,
    "bincount": ALL,
    "gru.data": ALL,
    "index": ("f(4,3), [b(4)]", "f(4,3), [b(4,3)]"),
    "lstm.data": ALL,
    "_masked_select": ALL,
    "_sparse_coalesce": ALL,  # as unique
    "_sparse_product": ("t[0,0,2], t[1,2,0], f(3), t[0,2,2,3], t[0,1,3], f(3)",),  # as repeat_interleave
    "_sparse_softmax": ("t[[2,0,2], [1,3,2]], f(3), [3, 4], 1", "t[[2,0,2], [1,3,2]], f(3,2), [3, 4, 2], 0, True"),
    "masked_select": ALL,
    "nn.functional.one_hot": ("i4(5)", "i3()"),
    "nonzero": ALL,
    "repeat_interleave": ALL,
    "repeat_interleave.self_Tensor": ALL,
    "rnn_relu.data": ALL,
    "rnn_tanh.data": ALL,
    "tensor_split.tensor_indices_or_sections": ALL,
    "unique": ALL,
    "unique_consecutive": ALL,
    "vision.ops.nms": ALL,
}
sampled = [r for r in RECORDS if r["samples"]]
differentiable = [r for r in sampled if r["differentiable"] and strata.float64 in r["dtypes"]]
KINDS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, strata.OutOfMemoryError, OSError)


def by_record(list_of_records):
    return pytest.mark.parametrize("record", list_of_records, ids=label)


def refuses(record, text):
    texts = REFUSED.get(label(record), ())
    return texts is ALL or text in texts


def without_values(t):
    """The same shape, strides and dtype on device meta."""
    there = strata.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")
    return there.requires_grad_() if t.requires_grad else there


def moved(record, arguments):
    """The arguments with every tensor on device meta; creation ops get it as their device."""
    there = records.map_tensors(without_values, arguments)
    if "device? device" in record["schema"] and not records.tensors(there):
        there["device"] = "meta"
    elif there.get("device") is not None:  # a copy to the CPU would need values
        there["device"] = "meta"
    return there


def seen(t):
    return tuple(t.shape), t.stride(), t.dtype, t.requires_grad


def same(got, want, what):
    got, want = records.tensors(got), records.tensors(want)
    assert [seen(t) for t in got] == [seen(t) for t in want], what
    assert all(t.is_meta and t.device == strata.device("meta") for t in got), what


def on_meta(record, arguments):
    """The call on meta; an op without tensors and without a device argument makes its result on the default device."""
    if records.tensors(arguments) or "device" in arguments:
        return records.callable_of(record)(**arguments)
    with strata.device("meta"):
        return records.callable_of(record)(**arguments)


def outcome(record, arguments, what):
    """The results of the op on meta, or None if it must raise."""
    try:
        return on_meta(record, arguments)
    except NotImplementedError as e:
        if "depends on the values" not in str(e):
            raise AssertionError(f"{what}: {e}") from e
        return None


def fresh(arguments):
    return records.map_tensors(lambda t: t.clone(), arguments)


@by_record(sampled)
def test_shapes_strides_and_dtypes_are_those_of_the_cpu(record):
    for dtype in record["dtypes"]:
        for text, arguments in records.samples(record, dtype):
            what = f"{label(record)} ({text}) {dtype}"
            try:
                want = records.callable_of(record)(**fresh(arguments))
            except RuntimeError as e:  # numbers that do not fit the dtype
                with pytest.raises(type(e), match="out of bounds"):
                    records.callable_of(record)(**moved(record, arguments))
                continue
            got = outcome(record, moved(record, arguments), what)
            if record["schema"].endswith("-> ()"):
                continue
            assert (got is None) == refuses(record, text), f"{what}: the list of ops that refuse says otherwise"
            if got is not None:
                same(got, want, what)


def transposed(t):
    return t.transpose(0, -1).contiguous().transpose(0, -1) if t.dim() >= 2 else t


def sliced(t):
    if t.dim() == 0:
        return t
    wide = strata.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype, device=t.device)
    wide[..., ::2] = t
    return wide[..., ::2]


def channels_last(t):
    return t.contiguous(memory_format="channels_last") if t.dim() == 4 else t


@pytest.mark.parametrize("layout", [transposed, sliced, channels_last])
@by_record([r for r in sampled if not r["schema"].endswith("-> ()") and label(r) not in REFUSED])
def test_layouts_are_those_of_the_cpu(record, layout):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text, arguments in records.samples(record, dtype):
        laid_out = records.map_tensors(layout, arguments)
        there = records.map_tensors(layout, moved(record, arguments))
        try:
            want = records.callable_of(record)(**laid_out)
        except (RuntimeError, IndexError) as e:  # as_strided of a view, view of a strided tensor: refused everywhere
            with pytest.raises(type(e)):
                records.callable_of(record)(**there)
            continue
        same(on_meta(record, there), want, f"{label(record)} ({text})")


@by_record([r for r in sampled if r["inplace"] and not r["name"].endswith("_")])
def test_in_place(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    first = record["schema"].split("(", 1)[1].split()[1].rstrip(",)")
    for text, arguments in records.samples(record, dtype):
        target = arguments.get(first)
        rest = {k: v for k, v in arguments.items() if k != first}
        call = _C.ops[record["name"] + "_"]
        if not isinstance(target, strata.Tensor):
            continue
        there = without_values(target)
        try:
            want = call(target.clone(), **rest)
        except RuntimeError as e:  # the result does not fit
            with pytest.raises(type(e)):
                call(there, **moved(record, rest))
            continue
        version = there._version
        got = call(there, **records.map_tensors(without_values, rest))
        assert got is there and there._version > version
        same(got, want, f"{label(record)}_ ({text})")


@by_record(
    [r for r in sampled if r["out"] and "Tensor[]" not in r["schema"].split("->")[1] and "-> ()" not in r["schema"]]
)
def test_out(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text, arguments in records.samples(record, dtype):
        if refuses(record, text):
            continue
        want = records.tensors(records.callable_of(record)(**fresh(arguments)))
        for make in (strata.empty_like, lambda t: strata.empty(0, dtype=t.dtype)):
            outs = tuple(make(w) for w in want)
            there = tuple(map(without_values, outs))
            try:
                records.callable_of(record)(**fresh(arguments), out=outs[0] if len(outs) == 1 else outs)
            except TypeError:  # no such form of this overload
                continue
            meta = moved(record, arguments)
            records.callable_of(record)(**meta, out=there[0] if len(there) == 1 else there)
            same(there, outs, f"{label(record)} ({text}) out=")


def gradients(record, arguments, place):
    def leaf(t):
        t = place(t)
        return t.clone().requires_grad_() if t.dtype is strata.float64 else t

    leaves = {k: records.map_tensors(place if k in record["constants"] else leaf, v) for k, v in arguments.items()}
    if leaves.get("device") is not None and place is without_values:
        leaves["device"] = "meta"
    inputs = [t for t in records.tensors(leaves) if t.requires_grad and t.numel()]
    given = fresh(leaves) if record["name"].endswith("_") else leaves  # leaves may not be written to
    outs = [o for o in records.tensors(records.callable_of(record)(**given)) if o.requires_grad]
    if not inputs or not outs:
        return []
    first = strata.autograd.grad(outs, inputs, [strata.ones_like(o) for o in outs], allow_unused=True)
    return [g if g is None else g.detach() for g in first]


@by_record(differentiable)
def test_gradients(record):
    for text, arguments in records.samples(record, strata.float64):
        if refuses(record, text):
            continue
        what = f"gradient of {label(record)} ({text})"
        try:
            want = gradients(record, arguments, lambda t: t)
        except RuntimeError as e:  # there is no formula, or the op refuses histories, which is the same everywhere
            if "ill-defined" in str(e):  # the values decide: a loss that depends on the phase of complex vectors
                continue
            with pytest.raises(type(e)):
                gradients(record, arguments, without_values)
            continue
        got = gradients(record, arguments, without_values)
        assert [g is None for g in got] == [w is None for w in want], what
        same([g for g in got if g is not None], [w for w in want if w is not None], what)


@by_record([r for r in RECORDS if r["errors"]])
def test_misuse_is_an_error_or_a_matter_of_values(record):
    """The same error as on the CPU, or a result where only the values are wrong."""
    for text, kind, message in record["errors"]:
        arguments = _C._sample(record["index"], text, strata.float32)
        try:
            records.callable_of(record)(**moved(record, arguments))
        except KINDS as e:
            memory = KINDS[kind] is strata.OutOfMemoryError  # there is always enough of it, but sizes have a limit
            known = "depends on the values" in str(e) or isinstance(e, RuntimeError if memory else KINDS[kind])
            assert known, f"{label(record)} ({text}): {type(e).__name__}: {e}, expected {message}"


def test_nothing_is_allocated_and_no_number_is_drawn():
    before, state = strata.memory_stats()["allocated_bytes"], strata.get_rng_state()
    for record in RECORDS:
        if "device? device" not in record["schema"] or "Tensor" in record["schema"].split("->")[0]:
            continue
        for _, arguments in records.samples(record, strata.float32):
            records.callable_of(record)(**{**arguments, "device": "meta"})
    assert strata.memory_stats()["allocated_bytes"] <= before + state.nbytes
    assert strata.get_rng_state().tolist() == state.tolist()


def test_lengths_stay_on_the_host():
    for record in RECORDS:
        if record["name"] not in ("_pack_padded_sequence", "_pad_packed_sequence") and record["overload"] != "data":
            continue
        for text, arguments in records.samples(record, strata.float32):
            host = ("lengths", "batch_sizes", "order", "unsorted_indices")
            there = {k: v if k in host else records.map_tensors(without_values, v) for k, v in arguments.items()}
            want = records.tensors(records.callable_of(record)(**arguments))
            got = records.tensors(records.callable_of(record)(**there))
            assert [seen(t) for t in got] == [seen(t) for t in want], text
            assert got[0].is_meta and (record["overload"] == "data" or got[1].tolist() == want[1].tolist())


@by_record([r for r in sampled if r["kind"] != "view" and not r["random"] and not r["name"].endswith("_")])
def test_calls_on_the_cpu_do_not_see_the_default_device(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for text, arguments in records.samples(record, dtype):
        if not records.tensors(arguments):
            continue
        want = records.tensors(records.call(record, arguments))
        with strata.device("meta"):
            got = records.tensors(records.call(record, arguments))
        for g, w in zip(got, want, strict=True):
            records.assert_same(g, w, dtype, f"{label(record)} ({text})")
