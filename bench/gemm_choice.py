"""How good the untuned choice of kernels is: times every kernel that is ready for random products and compares the chosen one.

usage: gemm_choice.py [--shapes 200] [--seed 1] [--rounds 3] [--out DIR]

Sizes are drawn evenly over their logarithms, three in four are multiples of 8, so that most shapes were never tuned for. Times
are device times in replayed graphs (beside.py). Results go to gemm_choice.json and gemm_choice.md.
"""

import argparse
import datetime
import json
import math
import pathlib
import random

import beside
import gemm
import strata

ENTRIES = ["hopper", "cublaslt", "tensor_cores_in_parts", "tensor_cores", "tiles_in_parts", "tiles"]
NEAR = 1.10  # a choice this close to the fastest counts as good


def shapes(count, seed):
    draw = random.Random(seed)

    def size(low, high):
        n = round(math.exp(draw.uniform(math.log(low), math.log(high))))
        return n if draw.random() < 0.25 else max(8, n // 8 * 8)

    for i in range(count):
        dtype = draw.choice(["bfloat16", "bfloat16", "float16", "float32"])
        orders = draw.choice(["nn", "nt", "tn"])
        m, n, k = size(1, 16384), size(16, 16384), size(16, 16384)
        while m * n * k > 2**37 or (dtype == "float32" and m * n * k > 2**34):
            m, n, k = max(1, m // 2), max(16, n // 2), max(16, k // 2)
        batch = draw.choice([1, 1, 1, draw.randint(2, 64)])
        if batch * m * n * k > 2**37:
            batch = 1
        yield f"{i}: {batch} x {m}x{n}x{k} {dtype} {orders}", (batch, m, n, k, dtype, orders)


def case_of(batch, m, n, k, dtype, orders):
    if batch > 1:
        return gemm.batch(batch, m, n, k, dtype, orders[1])
    return gemm.product(m, n, k, dtype, orders[0], orders[1])


def measured(name, shape, rounds):
    """Seconds of each kernel that is ready, and of the one that runs by itself."""
    case = case_of(*shape)
    sides = [beside.Side(strata)] + [beside.Entry(e) for e in ENTRIES]
    row = beside.run_case(name, case, sides, rounds, eager=False)
    times = {e: row[e] for e in ENTRIES if e in row}
    best = min(times, key=times.get)
    loss = row["strata"] / min(row["strata"], times[best])
    return dict(case=name, shape=shape, chosen=row["entry"], seconds=row["strata"], times=times, best=best, loss=loss)


def report(result):
    rows = result["rows"]
    good = sum(r["loss"] <= NEAR for r in rows)
    mean = math.exp(sum(math.log(r["loss"]) for r in rows) / len(rows))
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [
        f"# The untuned choice of matrix products: {result['device']}",
        "",
        f"{result['date']}; {versions}; `bench/gemm_choice.py --seed {result['seed']}`: device time in replayed graphs.",
        "",
        f"Of {len(rows)} random products, the chosen kernel is within 10% of the fastest of the list in {good}"
        f" ({100 * good / len(rows):.0f}%); on average it takes {100 * (mean - 1):.1f}% longer. The worst:",
        "",
        "| product | chosen | us | fastest | us | loss |",
        "|---|---|---:|---|---:|---:|",
    ]
    for r in sorted(rows, key=lambda r: -r["loss"])[:25]:
        lines.append(
            f"| {r['case'].split(': ')[1]} | {r['chosen']} | {r['seconds'] * 1e6:.1f} | {r['best']} |"
            f" {r['times'][r['best']] * 1e6:.1f} | {r['loss']:.2f}x |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default=str(beside.HERE / "results"))
    args = parser.parse_args()
    libraries = {f["name"]: f["version"] for f in strata.cuda.libraries() if f["name"] == "cuBLASLt"}
    versions = {"strata": strata.__version__} | libraries
    result = dict(date=datetime.date.today().isoformat(), device=strata.cuda.get_device_name(), versions=versions)
    result |= dict(seed=args.seed, rows=[])
    for name, shape in shapes(args.shapes, args.seed):
        row = measured(name, shape, args.rounds)
        result["rows"].append(row)
        print(
            f"{name:<50} {row['chosen']:<28} {row['seconds'] * 1e6:9.2f} us, {row['best']} {row['loss']:.2f}",
            flush=True,
        )
        strata.cuda.empty_cache()
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gemm_choice.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / "gemm_choice.md").write_text(report(result))
    print(report(result))


if __name__ == "__main__":
    main()
