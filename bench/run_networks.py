"""Compares training steps and inference of whole networks with PyTorch: run_networks.py --peer-python PATH [--cases REGEX] [--rounds 7].

Each library and memory format runs in its own process, timed in turn; before that the loss and gradients, or the outputs, are
compared. The peer's best format counts. For cases with memory=True, the peak of resident memory is compared too. Results go to
bench/results/networks.json and networks.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from networks import CASES
from run import HERE, Library, machine, typical_us

PAUSE = 0.3  # seconds: worker threads of the other library keep spinning for a while


def start(args, env, case, name):
    """[(label, library)], ours first, each with the case prepared."""
    variants = [("strata", sys.executable, "strata", case["layouts"][-1])]
    if args.peer_python:
        variants += [(f"torch {layout or ''}".strip(), args.peer_python, "torch", layout) for layout in case["layouts"]]
    out = []
    for label, python, module, layout in variants:
        library = Library(python, module, env if module == "strata" else dict(env, PYTHONPATH=""), "networks")
        library.ask(prepare=name, layout=layout, save=label)
        out.append((label, library))
    return out


def check(folder, name, labels):
    """All results, each divided by its largest value, agree: float32 sums of different order, nothing else."""
    ours = np.load(f"{folder}/{labels[0]}.npy")
    for label in labels[1:]:
        theirs = np.load(f"{folder}/{label}.npy")
        if ours.shape != theirs.shape or np.abs(ours - theirs).max() > 2e-3:
            raise SystemExit(f"bench: {name}: the results differ from {label}; not timed")


def run_case(args, env, folder, name, case):
    libraries = start(args, env, case, name)
    check(folder, name, [label for label, _ in libraries])
    for _, library in libraries:
        library.ask(seconds=0.1)
    rounds = {label: [] for label, _ in libraries}
    for _ in range(args.rounds):
        for label, library in libraries:
            time.sleep(PAUSE)
            rounds[label].append(library.ask(seconds=args.seconds)["times"])
    row = dict(
        case=name, floor=case["floor"], us={label: typical_us(times, best=False) for label, times in rounds.items()}
    )
    middle = [statistics.median(r) for r in rounds["strata"]]
    row["spread_percent"] = (max(middle) / min(middle) - 1) * 100
    if case["memory"]:
        row["peak_mb"] = {label: library.ask(memory=True)["mb"] for label, library in libraries}
    row["versions"] = {label: library.info["version"] for label, library in libraries}
    for _, library in libraries:
        library.close()
    peers = {label: us for label, us in row["us"].items() if label != "strata"}
    if peers:
        row["best_peer"] = min(peers, key=peers.get)
        row["ratio"] = peers[row["best_peer"]] / row["us"]["strata"]
        row["good"] = row["ratio"] >= row["floor"]
    return row


def run_epoch(args, folder, step_us):
    """A whole epoch of `strata train`, from its start to its end, compared with as many bare steps of the same network."""
    command = [args.strata, "train", "--batch-size", "128", "--json", "--no-download", "--out", f"{folder}/epoch"]
    command += ["--data", args.data] if args.data else []
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        seconds.append(time.perf_counter() - began)
    steps = -(-60000 // 128)
    return dict(
        data=result["data"],
        seconds=statistics.median(seconds),
        training_seconds=60000 / result["images_per_second"],
        bare_seconds=steps * step_us / 1e6,
        accuracy=result["accuracy"],
    )


def show_epoch(e):
    ratio = e["training_seconds"] / e["bare_seconds"]
    return (
        f"`strata train`, one epoch of {e['data']}: {e['training_seconds']:.2f} s of training with batches made on the way, "
        f"{ratio:.2f} times the bare steps ({e['bare_seconds']:.2f} s); {e['seconds']:.2f} s from start to end with decoding, "
        f"the test ({e['accuracy']:.2%} right) and the files."
    )


def show(row):
    text = f"{row['case']:46} {row['us']['strata'] / 1e3:10.3f} ms"
    if "ratio" in row:
        peer = row["us"][row["best_peer"]] / 1e3
        text += f"   {row['best_peer']} {peer:10.3f} ms   {row['ratio']:5.2f}x   floor {row['floor']}x"
        text += "" if row["good"] else "   BELOW"
    for label, mb in row.get("peak_mb", {}).items():
        text += f"   {label} {mb:.0f} MB"
    return text


def write(args, rows, epoch):
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    date = datetime.date.today().isoformat()
    (out / "networks.json").write_text(
        json.dumps(dict(date=date, machine=machine(), rows=rows, epoch=epoch), indent=1) + "\n"
    )
    lines = [
        f"# Networks on the CPU, {date}",
        "",
        f"{machine()}. Medians; ratio = the time of PyTorch's better memory format / ours.",
        "",
        "| case | Strata | PyTorch | ratio | floor | peak memory, Strata / PyTorch |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        peer = f"{r['us'][r['best_peer']] / 1e3:.3f} ms | {r['ratio']:.2f}x" if "ratio" in r else "- | -"
        mb = r.get("peak_mb", {})
        memory = " / ".join(f"{mb[k]:.0f} MB" for k in ("strata", r.get("best_peer")) if k in mb) or "-"
        lines.append(f"| {r['case']} | {r['us']['strata'] / 1e3:.3f} ms | {peer} | {r['floor']}x | {memory} |")
    if epoch:
        lines += ["", show_epoch(epoch)]
    (out / "networks.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=os.environ.get("STRATA_PEER_PYTHON", ""))
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="per case, round and library")
    parser.add_argument("--out", default=str(HERE / "results"))
    build = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", HERE.parent / "build" / "release"))
    parser.add_argument("--strata", default=str(build / "bin" / "strata"), help="the command, for the epoch")
    parser.add_argument(
        "--data", default="", help="folder with MNIST, for the epoch (default: what strata train finds)"
    )
    args = parser.parse_args()
    rows, epoch = [], None
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, STRATA_BENCH_TMP=folder)
        for name, case in CASES.items():
            if re.search(args.cases, name):
                rows.append(run_case(args, env, folder, name, case))
                print(show(rows[-1]), flush=True)
        bare = [r["us"]["strata"] for r in rows if r["case"] == "small CNN train step, batch 128"]
        if bare:
            epoch = run_epoch(args, folder, bare[0])
            print(show_epoch(epoch))
    write(args, rows, epoch)
    print(f"wrote {args.out}/networks.json and networks.md")


if __name__ == "__main__":
    main()
