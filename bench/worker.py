"""Runs cases of one library on request: a line of JSON in, a line of JSON out. Started by run.py and run_networks.py, one process
per library: worker.py MODULE SUITE, where SUITE is the Python file that holds the cases."""

import importlib
import json
import os
import resource
import sys
import time

import numpy as np


def as_array(x):
    if isinstance(x, (tuple, list)):
        return as_array(x[0])
    if x is None or not hasattr(x, "detach"):
        return None
    x = x.detach()
    return np.asarray((x.float() if "bfloat16" in str(x.dtype) else x).numpy(), dtype=np.float64)


def prepare(module, case, name, job):
    """The callable to time, and whether its first result was saved. A network's case returns several arrays, all compared."""
    network = "layouts" in case
    run = case["make"](module, job["layout"]) if network else case["make"](module)
    path = f"{os.environ['STRATA_BENCH_TMP']}/{job.get('save', module.__name__)}.npy"
    if network:
        array = np.concatenate([as_array(x).ravel() / max(1e-30, np.abs(as_array(x)).max()) for x in run()])
    else:
        array = None if name == "empty(1000)" else as_array(run())
    if array is not None:
        np.save(path, array)
    return run, array is not None


def measure(run, inner, seconds):
    """Times of one call, over as many batches as fit."""
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
    cases = importlib.import_module(sys.argv[2]).CASES
    print(json.dumps({"version": module.__version__, "import": import_seconds}), flush=True)
    at_start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run, inner = None, 1
    for line in sys.stdin:
        job = json.loads(line)
        if "prepare" in job:
            case = cases[job["prepare"]]
            (run, saved), inner = prepare(module, case, job["prepare"], job), case["inner"]
            print(json.dumps({"saved": saved}), flush=True)
        elif "memory" in job:  # MB in addition to the import
            print(
                json.dumps({"mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - at_start) / 1024}), flush=True
            )
        else:
            print(json.dumps({"times": measure(run, inner, job["seconds"])}), flush=True)


if __name__ == "__main__":
    main()
