"""An op writes and shares what its schema declares, for every sample of every record, in every form, on every device.

The bits of all arguments are compared before and after each call. An undeclared change fails, and so does a declared
one that happens in no sample; the same holds for results that share memory with an argument."""

import re

import pytest
import records
import signatures
import strata
from records import RECORDS, label
from strata import _C


def by_record(list_of_records):
    return pytest.mark.parametrize("record", list_of_records, ids=label)


class Declared:
    """The memory of a record's parameters and results, from its schema."""

    def __init__(self, record):
        inside, result = re.fullmatch(r"[\w.]+\((.*)\) -> (.*)", record["schema"]).groups()
        self.params = {}  # name: (letter, written, condition)
        for item in signatures.split(inside):
            kind, _, rest = item.partition(" ")
            found = signatures.MEMORY.match(kind)
            if found:
                self.params[rest.partition("=")[0]] = (found[1], bool(found[2]), found[3])
        kinds = signatures.split(result[1:-1]) if result.startswith("(") else [result]
        found = [signatures.MEMORY.match(kind) for kind in kinds]
        self.results = [m[1] if m else None for m in found]

    def writes(self, name, arguments):
        letter, written, condition = self.params.get(name, (None, False, None))
        return written and (condition is None or bool(arguments.get(condition, self.default(condition))))

    def default(self, _name):
        return True  # use_input_stats of instance_norm; training is always given in the samples

    def letter(self, name):
        return self.params.get(name, (None,))[0]


def tensors_of(value):
    return [t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, strata.Tensor)]


def look(t):
    """What a write can change: the bits and the geometry."""
    plain = t.detach().cpu().contiguous()
    bits = plain.view(strata.uint8) if plain.dim() and plain.numel() else plain.reshape(-1).view(strata.uint8)
    return bits.numpy().tobytes(), tuple(t.shape), t.stride()


def share(a, b):
    """Whether two tensors have bytes in common."""
    if not a.numel() or not b.numel() or a.device != b.device:
        return False

    def end(t):
        last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        return t.data_ptr() + (last + 1) * t.element_size()

    return a.data_ptr() < end(b) and b.data_ptr() < end(a)


class Seen:
    """What the samples of a record changed and shared."""

    def __init__(self):
        self.changed, self.shared, self.ran = set(), set(), 0


def watch(arguments, call, allowed, what, seen):
    """Makes a call; the names in `allowed` may change, all others may not."""
    before = {n: [(t, look(t), t._version) for t in tensors_of(v)] for n, v in arguments.items()}
    result = call()
    if arguments and any(t.device.type == "vgpu" for v in arguments.values() for t in tensors_of(v)):
        strata.vgpu.synchronize()
    for name, list_before in before.items():
        for t, old, version in list_before:
            changed = look(t) != old
            assert not changed or name in allowed, f"{what}: {name} was written to, and the schema does not say so"
            assert not changed or t._version > version, f"{what}: {name} was written to, and its version is the same"
            assert t._version == version or name in allowed, f"{what}: the version of {name} moved"
            if changed:
                seen.changed.add(name)
    seen.ran += 1
    return result


def check_sharing(declared, arguments, result, what, seen):
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    several = len(declared.results) > 1
    for o, out in enumerate(outputs):
        if not isinstance(out, strata.Tensor):
            continue
        letter = declared.results[o if several else 0] if declared.results else None
        assert letter or len(outputs) > len(declared.results) or out._base is None, f"{what}: result {o} is a view"
        for name, value in arguments.items():
            for t in tensors_of(value):
                if share(out, t):
                    assert letter and declared.letter(name) == letter, f"{what}: result {o} shares the memory of {name}"
                    seen.shared.add(o if several else 0)


def sample_arguments(record, text, device):
    dtype = strata.float32 if strata.float32 in record["dtypes"] else record["dtypes"][0]
    made = _C._sample(record["index"], text, dtype, 0)
    return records.map_tensors(lambda t: t.to(device), made)


def device_arguments(record, text, device):
    there = sample_arguments(record, text, device)
    if device != "cpu" and "device? device" in record["schema"] and not records.tensors(there):
        there["device"] = device
    return there


def run_plain(record, device):
    """Each sample, for its results."""
    declared, seen = Declared(record), Seen()
    for text in record["samples"]:
        what = f"{label(record)} with {text} on {device}"
        arguments = device_arguments(record, text, device)
        allowed = {n for n in arguments if declared.writes(n, arguments)}
        result = watch(arguments, lambda a=arguments: records.callable_of(record)(**a), allowed, what, seen)
        check_sharing(declared, arguments, result, what, seen)
    return declared, seen


@by_record([r for r in RECORDS if r["samples"]])
def test_the_schema_says_what_is_written_and_shared(record):
    declared, seen = run_plain(record, "cpu")
    unseen = {n for n, (_, written, _) in declared.params.items() if written} - seen.changed
    assert not unseen, f"{record['schema']} declares writes that no sample makes: {unseen}"
    unshared = {o for o, letter in enumerate(declared.results) if letter} - seen.shared
    assert not unshared, f"{record['schema']} declares shared results that no sample has: {unshared}"


@by_record([r for r in RECORDS if r["samples"] and "!" not in r["schema"]])  # leaves must not be written to
def test_recorded_results_are_views_only_if_the_schema_says_so(record):
    declared = Declared(record)
    for text in record["samples"]:
        arguments = sample_arguments(record, text, "cpu")
        for t in records.tensors(arguments):
            t.requires_grad_(t.is_floating_point())
        result = records.callable_of(record)(**arguments)
        check_sharing(declared, arguments, result, f"{label(record)} with {text}, recorded", Seen())


@by_record([r for r in RECORDS if r["samples"] and (r["kind"] != "composite" or "!" in r["schema"])])
def test_devices_write_what_the_schema_says(record):
    _, seen = run_plain(record, "vgpu")
    assert seen.ran == len(record["samples"])


@by_record([r for r in RECORDS if r["samples"] and r["inplace"]])
def test_in_place_forms_write_their_first_argument_alone(record):
    seen = Seen()
    for text in record["samples"]:
        arguments = sample_arguments(record, text, "cpu")
        first = signatures.Schema(record["schema"]).params[0].name
        target = arguments.get(first)
        want = records.callable_of(record)(**sample_arguments(record, text, "cpu"))
        if not isinstance(target, strata.Tensor) or tuple(target.shape) != tuple(want.shape):
            continue
        if strata.can_cast(want.dtype, target.dtype):
            rest = {n: v for n, v in arguments.items() if n != first}
            op = _C.ops[record["name"] + "_"]
            result = watch(arguments, lambda t=target, r=rest, op=op: op(t, **r), {first}, label(record), seen)
            assert result is target
    assert seen.ran


@by_record([r for r in RECORDS if r["samples"] and r["out"] and r["outputs"] and not r["random"]])
def test_out_forms_write_no_argument(record):
    for text in record["samples"][:2]:
        arguments = sample_arguments(record, text, "cpu")
        outs = tuple(strata.empty_like(t) for t in records.tensors(records.callable_of(record)(**arguments)))
        before = [t._version for t in outs]
        out = outs[0] if len(outs) == 1 else outs
        watch(
            arguments, lambda a=arguments, out=out: records.callable_of(record)(**a, out=out), (), label(record), Seen()
        )
        assert all(t._version > v for t, v in zip(outs, before, strict=True))


def test_versions_move_once_per_write():
    """Dispatch counts writes, kernels do not: each declared tensor counts once."""
    mean, var = strata.zeros(3), strata.ones(3)
    strata.nn.functional.batch_norm(strata.randn(4, 3), mean, var, training=True)
    assert (mean._version, var._version) == (1, 1)
    strata.nn.functional.batch_norm(strata.randn(4, 3), mean, var, training=False)
    assert (mean._version, var._version) == (1, 1)


def test_written_arguments_must_be_apart():
    mean = strata.zeros(3)
    with pytest.raises(RuntimeError, match="shares memory with another argument"):
        strata.nn.functional.batch_norm(strata.randn(4, 3), mean, mean, training=True)
    p, g = strata.ones(4), strata.ones(4)
    with pytest.raises(RuntimeError, match="shares memory with another argument"):
        _C.ops["_fused_sgd"]([p], [p], [], 0.1)
    with pytest.raises(RuntimeError, match="shares memory with another argument"):
        _C.ops["_fused_sgd"]([p[:3], p[1:]], [g[:3], g[1:]], [], 0.1)
    both = strata.ones(8)
    _C.ops["_fused_sgd"]([both[:4], both[4:]], [g, g], [], 0.5)
    assert both.tolist() == [0.5] * 8
    _C.ops["_fused_sgd"]([both[::2], both[1::2]], [g, g], [], 0.5)
    assert both.tolist() == [0.0] * 8
