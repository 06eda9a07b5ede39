"""Runs the programs with `torch` as it is found, and prints a table; with --record, writes the losses to losses.json.

python -m strata.torch tests/compat/programs/run.py [NAME ...]     # compares with the recorded losses of PyTorch
python tests/compat/programs/run.py --record                       # with PyTorch installed
"""

import argparse
import json
import math
import pathlib
import sys
import time
import warnings

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

import generative  # noqa: E402, F401
import language  # noqa: E402, F401
import science  # noqa: E402, F401
import torch  # noqa: E402
import training  # noqa: E402, F401
import vision  # noqa: E402, F401
from common import PROGRAMS  # noqa: E402

RECORD = HERE / "losses.json"
TOLERANCE = 2e-3  # of a loss, relative; a few steps of training amplify rounding


def difference(got, want):
    """The largest difference of two lists of losses, relative to losses above 1."""
    if len(got) != len(want) or not all(math.isfinite(g) for g in got):
        return math.inf
    return max((abs(g - w) / max(1.0, abs(w)) for g, w in zip(got, want, strict=True)), default=math.inf)


def run(name):
    """(losses, error text, seconds) of a program."""
    torch.manual_seed(0)
    start = time.perf_counter()
    try:
        losses, error = [float(x) for x in PROGRAMS[name]()], None
    except Exception as raised:
        losses, error = [], f"{type(raised).__name__}: {raised}".splitlines()[0]
    return losses, error, time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="the programs to run; all by default")
    parser.add_argument("--record", action="store_true", help="write the losses instead of comparing them")
    parser.add_argument("--json", help="where to write {program: [result, difference, seconds]}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names, failed, results = options.programs or list(PROGRAMS), 0, {}
    recorded = {} if options.record else json.loads(RECORD.read_text())
    losses_of = {}
    for name in names:
        losses, error, seconds = run(name)
        losses_of[name] = [float(f"{x:.7g}") for x in losses]
        off = 0.0 if options.record else difference(losses, recorded.get(name, []))
        result = error or ("passes" if off <= TOLERANCE else f"differs by {off:.2g}")
        failed += result != "passes"
        results[name] = [result, off if math.isfinite(off) else None, round(seconds, 3)]
        print(
            f"{name:32} {seconds:6.2f} s  {losses[-1] if losses else math.nan:12.6g}  {off:8.1e}  {result[:120]}",
            flush=True,
        )
    print(f"{len(names) - failed} of {len(names)} programs pass")
    if options.record:
        lines = ",\n".join(f"{json.dumps(n)}: {json.dumps(x)}" for n, x in losses_of.items())
        RECORD.write_text("{\n" + lines + "\n}\n")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
