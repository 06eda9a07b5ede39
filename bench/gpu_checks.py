"""Checks that need a GPU, one part per call: gpu_checks.py determinism|compare|every-kernel [--device cuda].

determinism   trains the small CNN for 100 steps twice: the parameters must be equal bit for bit
compare       runs the first samples of every op on the virtual GPU and on the GPU: integers and results of exactly rounded
              arithmetic must be equal bit for bit, others within the ulps that are printed
every-kernel  runs every op with device kernels once, with its gradient, at small shapes: for compute-sanitizer
"""

import argparse
import collections
import pathlib
import sys

import numpy as np
import strata

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/python"))

# Tolerance for another order of sums or another approximation on a GPU, in units of the last place of the result's
# scale. Everything else must have equal bits.
ULPS_ALLOWED = 256


def device_records():
    import records

    chosen = [
        r
        for r in records.RECORDS
        if r["cuda_kernels"] and r["samples"] and not r["random"] and not r["name"].endswith("_")
    ]
    return records, [r for r in chosen if not any("on_host" in k for k in r["cuda_kernels"])]


def determinism(device):
    sys.path.insert(0, str(ROOT / "bench"))
    from gpu import Side, small_cnn

    def run():
        strata.manual_seed(0)
        step = small_cnn(Side(strata, device), 32)
        losses = [step() for _ in range(100)]
        return np.array([x.item() for x in losses], np.float32)

    first, second = run(), run()
    if first.tobytes() != second.tobytes():
        sys.exit(f"determinism: the losses differ from step {int(np.argmax(first != second))} on")
    if not first[-1] < first[0]:
        sys.exit(f"determinism: the loss does not fall: {first[0]} to {first[-1]}")
    print(f"100 steps twice: equal bits; loss {first[0]:.4f} to {first[-1]:.4f}")


def ulps(a, b):
    """The largest difference in units of the last place, of the larger number or a thousandth of the largest."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    scale = np.maximum(np.maximum(np.abs(a), np.abs(b)), np.abs(b[np.isfinite(b)]).max(initial=0) * 1e-3)
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.where(same, 0, np.abs(a - b) / np.maximum(scale, 1e-30) / 2.0**-23)))


def compare(device):
    records, chosen = device_records()
    table, worst = collections.Counter(), {}
    for r in chosen:
        for dtype in (strata.float32, strata.int64):
            if dtype not in r["dtypes"]:
                continue
            for text, arguments in records.samples(r, dtype)[:2]:
                results = []
                for where in ("vgpu", device):
                    there = records.map_tensors(lambda t, where=where: t.to(where), arguments)
                    if "device? device" in r["schema"] and not records.tensors(there):
                        there["device"] = where
                    results.append([t.cpu().numpy() for t in records.tensors(records.call(r, there))])
                for ours, card in zip(*results, strict=True):
                    if ours.tobytes() == card.tobytes() or ours.size == 0:
                        table["equal bits"] += 1
                    elif ours.dtype.kind not in "f":
                        sys.exit(f"compare: {records.label(r)} ({text}) {dtype}: integers differ")
                    else:
                        table["within ulps"] += 1
                        name = records.label(r)
                        worst[name] = max(worst.get(name, 0), ulps(ours, card))
    for name, most in sorted(worst.items(), key=lambda item: -item[1])[:40]:
        print(f"  {name:<40} {most:8.2f} ulp")
    print(f"virtual GPU and {device}: {dict(table)}, {len(chosen)} ops")
    far = {name: most for name, most in worst.items() if not most <= ULPS_ALLOWED}
    if far:
        sys.exit(f"compare: further apart than {ULPS_ALLOWED} ulp: {far}")


def every_kernel(device):
    records, chosen = device_records()
    ran = 0
    for r in chosen:
        dtype = next((d for d in (strata.float32, strata.int64) if d in r["dtypes"]), r["dtypes"][0])
        for _, arguments in records.samples(r, dtype)[:1]:

            def leaf(t, differentiable=r["differentiable"]):
                t = t.to(device)
                return t.requires_grad_() if t.is_floating_point() and differentiable else t

            there = records.map_tensors(leaf, arguments)
            outs = records.tensors(records.call(r, there))
            outs = [o for o in outs if o.requires_grad and o.numel()]
            inputs = [t for t in records.tensors(there) if t.requires_grad]
            if outs and inputs:
                try:
                    strata.autograd.grad(outs, inputs, [strata.ones_like(o) for o in outs], allow_unused=True)
                except NotImplementedError:
                    pass  # there is no gradient formula, or no kernel for a part of it
            ran += 1
    getattr(strata, strata.device(device).type).synchronize()
    print(f"{ran} ops ran on {device}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"determinism": determinism, "compare": compare, "every-kernel": every_kernel}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    why = getattr(strata, strata.device(args.device).type).why_not()
    if why:
        print(f"gpu_checks: {args.device} is not available: {why}", file=sys.stderr)
        sys.exit(3)
    parts[args.part](args.device)
