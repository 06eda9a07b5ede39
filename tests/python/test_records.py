"""Tests generated from the op records: each sample of each op compared with the reference kernel, float64, other layouts, in place,
out=, its gradient against finite differences, its errors."""

import functools

import pytest
import records
import signatures
import strata
from records import FLOATS, PUBLIC, RECORDS, label
from strata import _C
from strata.autograd import gradcheck, gradgradcheck

KINDS = [
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    strata.OutOfMemoryError,
    OSError,
    RuntimeError,
]
# A name that ends in '_' writes to its first argument: tested by its out-of-place form, and in test_inplace.py.
deterministic = [r for r in RECORDS if not r["random"] and r["samples"] and not r["name"].endswith("_")]
differentiable = [r for r in deterministic if r["differentiable"] and strata.float64 in r["dtypes"]]


def by_record(list_of_records):
    return pytest.mark.parametrize("record", list_of_records, ids=label)


@by_record(PUBLIC)
def test_record_is_complete(record):
    assert record["doc"].strip(), "no doc"
    assert record["samples"], "no samples"
    assert record["dtypes"], "no dtypes"


@by_record([r for r in RECORDS if r["kernels"]])
def test_last_kernel_is_the_plain_reference(record):
    assert record["kernels"][-1] == "reference"
    assert "reference" not in record["kernels"][:-1]


# Pointwise ops check their dtypes themselves; the shape rule of an op with its own kernels must.
floats_only = [r for r in PUBLIC if r["kind"] == "kernel" and strata.int64 not in r["dtypes"]]


@by_record([r for r in floats_only if strata.float32 in r["dtypes"]])
def test_integers_are_refused(record):
    for text, arguments in records.samples(record, strata.float32):
        given = records.map_tensors(lambda t: t.long() if t.dtype is strata.float32 else t, arguments)
        if "dtype=" in text or all(t.dtype is not strata.float32 for t in records.tensors(arguments)):
            continue
        try:
            records.call(record, given)
        except (RuntimeError, TypeError):  # NotImplementedError is a RuntimeError
            continue
        pytest.fail(
            f"({text}) accepts int64, which .dtypes() excludes: check the dtype in .infer(), and add an .error()"
        )


@by_record(deterministic)
def test_fast_kernels_agree_with_the_reference(record):
    for dtype in record["dtypes"]:
        for text, arguments in records.samples(record, dtype):
            what = f"{label(record)} ({text}) {dtype}"
            got = records.tensors(records.call(record, arguments))
            with records.reference_kernels():
                want = records.tensors(records.call(record, arguments))
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                assert g.dtype is w.dtype
                records.assert_same(g, w, dtype, what)


@by_record([r for r in RECORDS if r["random"] and r["kernels"][:-1]])
def test_random_kernels_draw_the_stream_of_the_reference(record):
    for dtype in record["dtypes"]:
        for text, arguments in records.samples(record, dtype):
            strata.manual_seed(17)
            got, after = records.tensors(records.call(record, arguments)), strata.get_rng_state()
            strata.manual_seed(17)
            with records.reference_kernels():
                want = records.tensors(records.call(record, arguments))
            assert after.tolist() == strata.get_rng_state().tolist(), "the two use different amounts of the stream"
            for g, w in zip(got, want, strict=True):
                records.assert_same(g, w, dtype, f"{label(record)} ({text}) {dtype}")


@by_record([r for r in deterministic if strata.float64 in r["dtypes"] and strata.float32 in r["dtypes"]])
def test_narrow_floats_agree_with_float64(record):
    if record["name"] in ("nextafter", "empty_like", "empty", "new_empty", "empty_strided", "view"):
        return  # the result depends on the dtype itself, or is arbitrary
    for dtype in [d for d in FLOATS[1:] if d in record["dtypes"]]:
        for text, arguments in records.samples(record, dtype):
            wide = records.map_tensors(lambda t: t.to(strata.float64) if t.dtype.is_floating_point else t, arguments)
            got, want = records.tensors(records.call(record, arguments)), records.tensors(records.call(record, wide))
            for g, w in zip(got, want, strict=True):
                if g.dtype.is_floating_point and w.dtype.is_floating_point:
                    records.assert_same(g, w.to(strata.float64), dtype, f"{label(record)} ({text}) {dtype}")


def layouts(t):
    """The same values behind other strides."""
    if t.dim() >= 2:
        yield "transposed", t.transpose(0, -1).contiguous().transpose(0, -1)
    if t.dim() >= 1:
        wide = strata.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
        wide[..., ::2] = t
        yield "sliced", wide[..., ::2]
    padded = strata.zeros((t.numel() + 3,), dtype=t.dtype)
    padded[3:] = t.reshape(-1)
    yield "offset", padded[3:].view(t.shape)


# What these return is about strides themselves.
STRIDED = (
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "strided_view",
    "strided_scatter",
    "empty_like",
    "view",
)


@by_record([r for r in deterministic if r["kind"] != "view" and r["name"] not in STRIDED])
def test_layout_of_inputs_does_not_matter(record):
    check_layouts(record, strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0])


def check_layouts(record, dtype):
    for text, arguments in records.samples(record, dtype):
        want = records.tensors(records.call(record, arguments))
        for name, _ in layouts(strata.zeros(2, 2)):
            moved = records.map_tensors(lambda t, name=name: dict(layouts(t)).get(name, t), arguments)
            got = records.tensors(records.call(record, moved))
            for g, w in zip(got, want, strict=True):
                records.assert_same(g, w, dtype, f"{label(record)} ({text}) {name}")


def as_leaf(t):
    return t.clone().requires_grad_() if t.dtype in (strata.float64, strata.complex128) else t


def symmetrized(t):
    wide = t.dtype in (strata.float64, strata.complex128)
    return (t + t.mH) / 2 if t.dim() >= 2 and t.shape[-1] == t.shape[-2] and wide else t


def swapped(t, swap):
    return swap[id(t)]


def check_gradients(record, check, dtype=strata.float64):
    for text, arguments in records.samples(record, dtype):
        if "!" in text[:2]:
            continue
        leaves = {k: v if k in record["constants"] else records.map_tensors(as_leaf, v) for k, v in arguments.items()}
        names = [k for k, v in leaves.items() if records.tensors(v)]
        inputs = [t for k in names for t in records.tensors(leaves[k])]
        wanted = [t for t in inputs if t.requires_grad and t.numel()]
        if not wanted or sum(t.numel() for t in wanted) > 200:
            continue
        outs = records.tensors(records.call(record, leaves))
        if not any(o.requires_grad for o in outs):
            continue

        # A symmetric input stays symmetric when one element is moved, or the derivative is not the one of the op.
        symmetric = "s(" in text

        def run(*values, leaves=leaves, inputs=inputs, symmetric=symmetric):
            if symmetric:
                values = tuple(map(symmetrized, values))
            swap = {id(old): new for old, new in zip(inputs, values, strict=True)}
            return tuple(
                records.tensors(
                    records.call(record, records.map_tensors(functools.partial(swapped, swap=swap), leaves))
                )
            )

        try:
            assert check(run, tuple(inputs))
        except Exception as e:
            if "ill-defined" in str(e):  # the phase of complex vectors is arbitrary: test_matrix_decompositions.py
                continue
            raise AssertionError(f"{label(record)} ({text}): {e}") from e


@by_record(differentiable)
def test_gradient(record):
    check_gradients(record, gradcheck)


@by_record(differentiable)
def test_gradient_of_the_gradient(record):
    check_gradients(record, gradgradcheck)


# --- complex numbers: only records that accept them -------------------------------------------------------------------

complex_records = [r for r in deterministic if strata.complex128 in r["dtypes"]]
complex_differentiable = [r for r in complex_records if r["differentiable"]]


@by_record([r for r in complex_records if r["kind"] != "view" and r["name"] not in STRIDED])
def test_layout_of_complex_inputs_does_not_matter(record):
    check_layouts(record, strata.complex64)


@by_record(complex_differentiable)
def test_complex_gradient(record):
    check_gradients(record, gradcheck, strata.complex128)


@by_record(complex_differentiable)
def test_complex_gradient_of_the_gradient(record):
    check_gradients(record, gradgradcheck, strata.complex128)


@by_record([r for r in complex_records if r["inplace"]])
def test_complex_in_place(record):
    check_in_place(record, strata.complex64)


@by_record([r for r in deterministic if r["inplace"]])
def test_in_place(record):
    check_in_place(record, strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0])


def check_in_place(record, dtype):
    first = record["schema"].split("(", 1)[1].split()[1].rstrip(",)")
    checked = 0
    for _, arguments in records.samples(record, dtype):
        want = records.call(record, arguments)
        target = arguments[first].clone() if isinstance(arguments.get(first), strata.Tensor) else None
        if target is None or tuple(target.shape) != tuple(want.shape) or not strata.can_cast(want.dtype, target.dtype):
            continue
        version = target._version
        result = _C.ops[record["name"] + "_"](target, **{k: v for k, v in arguments.items() if k != first})
        assert result is target and target._version > version
        records.assert_same(target, want.to(target.dtype), dtype, label(record))
        checked += 1
    assert checked or not record["samples"] or dtype.is_complex


@by_record(
    [
        r
        for r in deterministic
        if r["out"] and r["kind"] in ("pointwise", "kernel") and signatures.Schema(r["schema"]).result != "Tensor[]"
    ]
)
def test_out(record):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    for _, arguments in records.samples(record, dtype)[:2]:
        want = records.tensors(records.call(record, arguments))
        outs = tuple(strata.empty_like(w) for w in want)
        records.callable_of(record)(**arguments, out=outs[0] if len(outs) == 1 else outs)
        for o, w in zip(outs, want, strict=True):
            records.assert_same(o, w, dtype, label(record))


errors = [(r, e) for r in RECORDS for e in r["errors"]]


@pytest.mark.parametrize("record, error", errors, ids=[f"{label(r)}: {e[0]}" for r, e in errors])
def test_error(record, error):
    text, kind, message = error
    arguments = _C._sample(record["index"], text, strata.float32)
    before = strata.memory_stats()["allocated_bytes"]
    with pytest.raises(KINDS[kind]) as caught:
        records.call(record, arguments)
    assert message in str(caught.value), f"expected '{message}' in '{caught.value}'"
    del caught
    assert strata.memory_stats()["allocated_bytes"] <= before, "the failing call kept memory"
