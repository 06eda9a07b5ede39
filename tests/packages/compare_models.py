"""Compares the outputs and parameter gradients of real models in Strata with PyTorch's, in two processes.

    python tests/packages/compare_models.py --python ECO/bin/python --peer PEER/bin/python [--only resnet] [--json FILE]

ECO has the packages without PyTorch and finds Strata on PYTHONPATH; PEER has the packages with PyTorch. PyTorch makes the random
weights, which both use. docs/internals/ecosystem.md has the results.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
TOLERANCE = 2e-4


def side(name, folder, keys):
    """Runs in a process of one library: writes results (PyTorch), or compares with them (Strata)."""
    if name == "strata":
        import strata.torch_alias  # noqa: F401
    sys.path.insert(0, str(HERE))
    import numpy as np
    import torch

    torch.set_num_threads(2)
    import models

    for key in keys:
        family, _, model = key.partition("/")
        builder, file = models.FAMILIES[family][model], pathlib.Path(folder) / f"{family}.{model}.npz"
        try:
            if name == "torch":
                parts = models.run(builder)
                arrays = {f"{i}/{k}": v for i, part in enumerate(parts) for k, v in part.items()}
                np.savez(file, **arrays)
                answer = {}
            else:
                answer = compare(np, models.run, builder, file)
        except Exception as error:  # a model that fails is a row of the table, not the end of the run
            if os.environ.get("STRATA_PACKAGES_TRACE"):
                raise
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]}
        print("@" + json.dumps({"model": key, **answer}), flush=True)


def compare(np, run, builder, file):
    stored = np.load(file)
    state, outputs, gradients = ({k[2:]: stored[k] for k in stored.files if k[0] == str(i)} for i in range(3))
    _, got_outputs, got_gradients = run(builder, state)
    if outputs.keys() != got_outputs.keys() or gradients.keys() != got_gradients.keys():
        odd = sorted((outputs.keys() ^ got_outputs.keys()) | (gradients.keys() ^ got_gradients.keys()))
        raise RuntimeError(f"other outputs or gradients: {', '.join(odd)[:150]}")
    return {
        "outputs": worst(np, got_outputs, outputs),
        "gradients": worst(np, got_gradients, gradients),
        "tensors": len(gradients),
    }


def worst(np, got, want):
    """The largest difference, relative to the largest value of its tensor, or a thousandth of the largest of all tensors: below
    that, values are differences of rounding errors."""
    top = max((float(np.abs(w).max(initial=0)) for w in want.values()), default=0)
    errors = [0.0]
    for key, w in want.items():
        if w.shape != got[key].shape:
            raise RuntimeError(f"{key} has shape {got[key].shape}, expected {w.shape}")
        scale = max(float(np.abs(w).max(initial=0)), top / 1000, 1e-30)
        error = float(np.abs(got[key].astype(np.float64) - w).max(initial=0)) / scale
        errors.append(error if error == error else float("inf"))
    return max(errors)


def results(python, name, folder, keys, environment):
    """The answers of a process for each model; a model that ends the process is an error, and the rest is run again."""
    found, left = {}, list(keys)
    while left:
        command = [python, "-W", "ignore", __file__, "--side", name, "--folder", folder, *left]
        done = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for line in done.stdout:
            if line.startswith("@"):
                answer = json.loads(line[1:])
                found[answer.pop("model")] = answer
                print(f"  {name}: {list(found)[-1]} {answer}", flush=True)
        done.wait()
        left = [key for key in left if key not in found]
        if left:
            found[left.pop(0)] = {"error": f"the process ended with status {done.returncode}"}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="Python with the packages and without PyTorch")
    parser.add_argument("--peer", help="Python with the packages and PyTorch")
    parser.add_argument("--only", default="", help="models whose name has this part")
    parser.add_argument("--json", help="where to write the results")
    parser.add_argument("--side", choices=("torch", "strata"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="where PyTorch's results are kept; by default they are removed at the end")
    parser.add_argument("keys", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        return side(options.side, options.folder, options.keys)

    # The names are read without importing torch.
    sys.modules.setdefault("torch", type(sys)("torch"))
    sys.modules["torch"].nn = type(sys)("torch.nn")
    sys.modules["torch"].nn.Module = object
    sys.path.insert(0, str(HERE))
    import models

    keys = [f"{f}/{m}" for f, group in models.FAMILIES.items() for m in group if options.only in f"{f}/{m}"]
    plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        made = [k for k in keys if not (pathlib.Path(folder) / f"{k.replace('/', '.')}.npz").exists()]
        peer = results(options.peer, "torch", folder, made, plain)
        ours = results(
            options.python, "strata", folder, [k for k in keys if "error" not in peer.get(k, {})], dict(os.environ)
        )
    rows = {k: ours.get(k) or {"error": "in PyTorch: " + peer[k]["error"]} for k in keys}
    for row in rows.values():
        row["same"] = "error" not in row and max(row["outputs"], row["gradients"]) <= TOLERANCE
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    for key, row in rows.items():
        if not row["same"]:
            print(key, row)
    print(f"{sum(r['same'] for r in rows.values())} of {len(rows)} models agree within {TOLERANCE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
