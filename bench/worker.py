"""Runs cases of one library on request: a line of JSON in, a line of JSON out. Started by run.py, one process per library."""

import importlib
import json
import os
import sys
import time

import numpy as np

CASES = importlib.import_module("cases").CASES


def as_array(x):
    if isinstance(x, (tuple, list)):
        return as_array(x[0])
    if x is None or not hasattr(x, "detach"):
        return None
    x = x.detach()
    return np.asarray((x.float() if "bfloat16" in str(x.dtype) else x).numpy(), dtype=np.float64)


def prepare(module, name):
    run = CASES[name]["make"](module)
    array = None if name == "empty(1000)" else as_array(run())
    path = f"{os.environ['STRATA_BENCH_TMP']}/{module.__name__}.npy"
    if array is not None:
        np.save(path, array)
    return run, array is not None


def measure(run, inner, seconds):
    """Median time of one call over as many batches as fit."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(inner):
            run()
        times.append((time.perf_counter() - begin) / inner)
    return times


def main():
    began = time.perf_counter()
    module = importlib.import_module(sys.argv[1])
    import_seconds = time.perf_counter() - began
    print(json.dumps({"version": module.__version__, "import": import_seconds}), flush=True)
    run, inner = None, 1
    for line in sys.stdin:
        job = json.loads(line)
        if "prepare" in job:
            run, saved = prepare(module, job["prepare"])
            inner = CASES[job["prepare"]]["inner"]
            print(json.dumps({"saved": saved}), flush=True)
        else:
            print(json.dumps({"times": measure(run, inner, job["seconds"])}), flush=True)


if __name__ == "__main__":
    main()
