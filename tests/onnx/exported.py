"""Exports the samples of op records and runs them elsewhere. `python tests/onnx/exported.py` needs onnxruntime, and prints a table."""

import collections
import pathlib
import sys

import numpy as np
import strata
import strata.onnx

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import records
from strata import _C

TOLERANCE = {"float32": 1e-4, "float64": 1e-6}


def floats(x):
    return [t for t in records.tensors(x) if t.is_floating_point()]


class Program:
    """A call of a record with a sample's arguments, as a function of its tensors alone."""

    def __init__(self, record, arguments):
        self.record, self.arguments = record, arguments
        self.inputs = records.tensors(arguments)

    def __call__(self, *inputs):
        given = iter(inputs)
        results = records.call(self.record, records.map_tensors(lambda _: next(given), self.arguments))
        return [t for t in records.tensors([results] if isinstance(results, strata.Tensor) else results)]


def differs(got, want):
    """What is wrong with arrays, or None."""
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        g, w = np.asarray(g), records.to_numpy(w)
        if g.shape != w.shape or g.dtype != w.dtype:
            return f"result {i} is {g.dtype}{g.shape}, expected {w.dtype}{w.shape}"
        tolerance = TOLERANCE.get(w.dtype.name, 0)
        if not np.allclose(g, w, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"result {i} differs by {np.nanmax(np.abs(g.astype(float) - w.astype(float))):.2g}"
    return None


def sweep(record, run, dtype=strata.float32):
    """For each sample: "ok", "refused: ..." or "wrong: ..."."""
    for text, arguments in records.samples(record, dtype):
        program = Program(record, arguments)
        if not program.inputs or "empty" in record["name"] or any(t.numel() == 0 for t in program.inputs):
            continue
        try:
            want = program(*[t.clone() for t in program.inputs])
            names = [f"x{i}" for i in range(len(program.inputs))]
            data = strata.onnx.export(program, tuple(program.inputs), input_names=names)
        except (NotImplementedError, RuntimeError, ValueError, TypeError) as error:
            yield text, f"refused: {error}"
            continue
        if any(t.numel() == 0 for t in want):
            continue
        feeds = {n: records.to_numpy(t.contiguous()) for n, t in zip(names, program.inputs, strict=True)}
        try:
            wrong = differs(run(data, feeds), want)
        except Exception as error:
            wrong = str(error).strip().splitlines()[0][:200] if str(error).strip() else repr(error)
        yield text, f"wrong: {wrong}" if wrong else "ok"


def by_reference(data, feeds):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(data).run(None, feeds)


def main():
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)

    def run(data, feeds):
        session = onnxruntime.InferenceSession(data)
        known = {i.name for i in session.get_inputs()}
        return session.run(None, {n: v for n, v in feeds.items() if n in known})

    counts = collections.Counter()
    for record in records.PUBLIC:
        if len(sys.argv) > 1 and records.label(record) not in sys.argv[1:]:
            continue
        outcomes = list(sweep(record, run))
        kinds = {o.split(":")[0] for _, o in outcomes}
        kind = "wrong" if "wrong" in kinds else "ok" if "ok" in kinds else "refused" if kinds else "no samples"
        counts[kind] += 1
        for text, outcome in outcomes:
            if outcome.startswith("wrong") or len(sys.argv) > 1:
                print(f"{records.label(record)}({text}): {outcome}", flush=True)
    print(dict(counts), f"of {len(_C._onnx_exported())} records with a form in ONNX")


if __name__ == "__main__":
    main()
