"""Runs the cases of ONNX's backend test suite, which the `onnx` package brings, and says which fail and why.

    python tests/onnx/backend_suite.py [--device vgpu] [--write] [NAME...]

A case that cannot run counts as a failure. `--write` updates the list of known failures beside this file.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import sys
import warnings

import numpy as np
import strata
import strata.onnx
from strata.onnx import _values

CASES = 2024  # node 1,884, simple 23, pytorch-converted 82, pytorch-operator 35
KNOWN = pathlib.Path(__file__).with_name("known_failures.json")
Case = collections.namedtuple("Case", "kind name model folder data rtol atol")


def cases():
    """All cases in a fixed order. The models of the node cases are generated, from a seeded generator."""
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), contextlib.redirect_stderr(None), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [
            Case("node", c.name, c.model.SerializeToString(), None, c.data_sets, c.rtol, c.atol)
            for c in collect_testcases(None)
        ]
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for c in load_model_tests(kind=kind):
            found.append(Case(kind, c.name, None, pathlib.Path(c.model_dir), None, c.rtol, c.atol))
    return found


def _read(path, value_type):
    import onnx
    from onnx import numpy_helper

    data = path.read_bytes()
    if value_type.startswith("seq"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if value_type.startswith("optional"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _stored_sets(folder, model):
    for place in sorted(folder.glob("test_data_set_*")):

        def read_all(stem, values, place=place):
            count = len(list(place.glob(f"{stem}_*.pb")))
            return [_read(place / f"{stem}_{i}.pb", values[i].type) for i in range(count)]

        yield read_all("input", model.inputs), read_all("output", model.outputs)


def _listed(value):
    """What a case has for a value: arrays, lists of them for sequences."""
    if isinstance(value, list):
        return [_listed(v) for v in value]
    if hasattr(value, "SerializeToString"):
        from onnx import numpy_helper

        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, str | int | float) else np.asarray(value)


def _same(got, want, rtol, atol, where):
    if want is None:
        assert got is None, f"{where}: expected nothing"
        return
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{where}: expected a sequence of {len(want)}"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            _same(g, w, rtol, atol, f"{where}[{i}]")
        return
    want = np.asarray(want)
    assert got is not None, f"{where}: got nothing"
    if want.dtype.kind in "OSUT":
        texts = _values.to_numpy(got)
        assert texts.dtype == object and texts.shape == want.shape, f"{where}: expected texts {want.shape}"
        wanted = [t if isinstance(t, str) else t.decode() for t in want.ravel().tolist()]
        assert texts.ravel().tolist() == wanted, f"{where}: texts differ"
        return
    expected = _values.to_value(want, "cpu")
    number = expected[0] if isinstance(expected, tuple) else expected.dtype
    found = got[0] if isinstance(got, tuple) else got.dtype
    assert number == found, f"{where}: the type is {found}, expected {number}"
    g, w = _values.to_numpy(got), _values.to_numpy(expected)
    assert g.shape == w.shape, f"{where}: the shape is {g.shape}, expected {w.shape}"
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(g, w, rtol=rtol, atol=atol, err_msg=where)


def run(case, device="cpu"):
    """Raises if the case fails."""
    source = case.model if case.folder is None else str(case.folder / "model.onnx")
    model = strata.onnx.load(source, device)
    sets = case.data if case.folder is None else _stored_sets(case.folder, model)
    for inputs, outputs in sets:
        values = {v.name: _listed(x) for v, x in zip(model.inputs, inputs, strict=False)}
        strata.manual_seed(0)
        results = model.run(values)
        for i, (got, want) in enumerate(zip(results, outputs, strict=True)):
            _same(got, _listed(want), case.rtol, case.atol, f"output {i}")


# Why values differ, where the error does not say it.
EXPLANATIONS = {
    "test_bernoulli": "expects the numbers of NumPy's generator",
    "test_training_dropout": "expects the numbers of NumPy's generator",
    "test_attention_4d": "sums of half precision: some results are one unit in the last place away",
    "test_dft_inverse": "the reference computes in single precision; elements that cancel to 0 differ by its rounding",
}


def reason(error, name=""):
    """The first line that says something, without numbers that change."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, AssertionError) and lines and lines[0].startswith("Not equal"):
        known = [why for start, why in EXPLANATIONS.items() if name.startswith(start)]
        return known[0] if known else "values differ from the reference"
    return (lines[1] if len(lines) > 1 and lines[0].endswith("not known:") else lines[0] if lines else repr(error))[
        :160
    ]


def failures(device="cpu", names=(), all_cases=None):
    """The failing cases with their reasons, and how many ran."""
    found, count = {}, 0
    for case in all_cases or cases():
        if names and case.name not in names:
            continue
        count += 1
        try:
            run(case, device)
        except Exception as e:
            found[f"{case.kind}/{case.name}"] = reason(e, case.name)
    return found, count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found, count = failures(options.device, options.names)
    for name, why in found.items():
        print(f"{name}: {why}")
    print(f"{count - len(found)} of {count} cases pass on {options.device} ({100 * (count - len(found)) / count:.1f}%)")
    if options.write:
        known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
        known[options.device] = dict(sorted(found.items()))
        KNOWN.write_text(json.dumps(known, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
