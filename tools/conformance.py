"""Replays PyTorch's own test samples against Strata, compares the result with the recorded rates, and writes the report.

usage: conformance.py [FOLDER] [--device cpu] [--tenth] [--write] [--path PACKAGE_FOLDER]

FOLDER holds replay.py and its dump; the samples with complex numbers are in tests/conformance and are replayed with them, or
alone if no FOLDER is given. Without --write the pass rates are compared with docs/internals/conformance.json and the program
fails if one has fallen, or anything crashed or hung. With --write that file and conformance.md are updated. On another
device the file is conformance.<device>.json; --tenth replays a fixed tenth of the ops, whose rates are in the same file.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs/internals"
# About a tenth of the samples, of all groups.
TENTH = r"^(c[a-o].*|sum|sort|index_.*|nn\.functional\.(conv|l)[0-9a-m].*|nn\.L.*|linalg\.[a-d].*)$"
REPORT = ROOT / "docs/internals/conformance.md"
GROUPS = "core|nn.functional|nn.Module|linalg"

# Why an op fails, by a part of its name; the first match counts.
REASONS = {
    "nn.CTCLoss": "float32 rounding: PyTorch's own gradient is 4e-5 off its float64 one, this one 5e-5; 1e-5 is allowed",
    "grid_sampler_2d": "PyTorch computes positions and weights in the dtype of the input, Strata in float32 for bfloat16; float32 rounding",
    "cholesky_solve": "PyTorch gives the triangle of L that is not read a gradient; its derivative is 0, which is what Strata returns",
    "linalg.cholesky": "PyTorch passes on the imaginary part of the gradient of L's diagonal, which is real for every A",
    "linalg.svd": "vectors of equal singular values and of the null space are not unique",
    "as_strided_scatter": "PyTorch gives the overwritten elements of input a gradient; their derivative is 0, which is what Strata returns",
    "renorm": "PyTorch's gradient of the infinite norm of complex numbers is NaN; Strata's agrees with finite differences",
    "topk": "equal elements: which of them receives the gradient is not defined",
    "mode": "equal elements: which of them receives the gradient is not defined",
    "msort": "equal elements: which of them receives the gradient is not defined",
    "batch_norm": "one rounding of bfloat16",
    "histc": "bfloat16 bin edges are computed in float32",
    "conv_transpose3d": "a sum in another order, 2.4e-5 off where 1e-5 is allowed",
    "clamp": "bfloat16 ties: the input equals the bound after rounding, and the gradient goes to one of them",
    "fmax": "bfloat16 ties: both inputs are equal, and the gradient goes to one of them",
}
ROUNDING = "one rounding in an intermediate result"


def floors_file(device):
    return FOLDER / ("conformance.json" if device == "cpu" else f"conformance.{device}.json")


def replay(folder, path, device="cpu", ops=""):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [
            sys.executable,
            str(folder / "replay.py"),
            "--module",
            "strata",
            "--path",
            path,
            "--dtype",
            "float32,bfloat16,int64,module",
            "--groups",
            GROUPS,
            "--device",
            device,
            "--ops",
            ops,
            "--json",
            out.name,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"conformance: {' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return json.load(open(out.name))


def replay_complex(path, device="cpu", ops=""):
    """The samples that tools/record_conformance.py has written, in one process: a crash is an error of this program."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(ROOT / "tests/conformance/samples.py"), "--path", path, "--device", device]
        done = subprocess.run([*command, "--ops", ops, "--json", out.name], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"conformance: {' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return json.load(open(out.name))


def group_of(op):
    return "linalg" if op["group"].startswith("linalg") else op["group"]


def rates(result):
    """Per group, dtype and phase: checks passed and required. Samples of a missing op are required too."""
    table = collections.defaultdict(lambda: [0, 0])
    for op in result["ops"]:
        due = {"forward": op["samples"] + op["extras"], "backward": op["gradients"]}
        for phase, n in due.items():
            names = ("forward", "extra") if phase == "forward" else (phase,)
            good = sum(o[2] == "pass" and o[1] in names for o in op["outcomes"])
            if n:
                cell = table[f"{group_of(op)} {op['run']} {phase}"]
                cell[0] += good
                cell[1] += n
    return {k: v for k, v in sorted(table.items())}


def fatal(result):
    return [
        f"{op['run']} {op['key']} sample {o[0]}: {o[2]} {o[3]}"
        for op in result["ops"]
        for o in op["outcomes"]
        if o[2] in ("crashed", "hang")
    ]


def reason_for(op):
    for part, reason in REASONS.items():
        if part in op["key"] or part in op["name"]:
            return reason
    return ROUNDING if op["run"] in ("bfloat16", "complex64") else "to be looked into"


def write_floors(result, device, tenth):
    """The rates of one device. Those of the tenth are stored with the full ones, under other names."""
    file = floors_file(device)
    old = json.loads(file.read_text()) if file.exists() else {}
    new = {("tenth " if tenth else "") + k: v[0] for k, v in rates(result).items()}
    kept = {k: v for k, v in old.items() if k.startswith("tenth ") != tenth}
    file.write_text(json.dumps(dict(sorted((kept | new).items())), indent=1) + "\n")


def write(result):
    table = rates(result)
    lines = [
        "# Conformance with PyTorch",
        "",
        "PyTorch's own test samples (op inputs with the results and gradients it computed on the CPU), replayed against Strata by",
        "`tools/conformance.py`. Dtype and shape must match, values within the dtype's tolerance. This page is written by that tool;",
        "the test suite fails when a rate falls, and when anything crashes or hangs.",
        "",
        "| group | dtype | checks | passed | rate |",
        "|---|---|---|---|---|",
    ]
    for key, (good, due) in table.items():
        group, dtype, phase = key.rsplit(" ", 2)
        lines.append(f"| {group} | {dtype} | {phase} | {good} of {due} | {100 * good / due:.1f}% |")
    total = sum(good for good, _ in table.values())
    for file in sorted(FOLDER.glob("conformance.*.json")):
        there = sum(n for k, n in json.loads(file.read_text()).items() if not k.startswith("tenth "))
        lines += ["", f"On `{file.name.split('.')[1]}` {there} of these checks pass, on the CPU {total}."]
    missing = sorted({op["name"] for op in result["ops"] if not op["present"]})
    if missing:
        lines += ["", "## Names that are not there", "", *[f"- `{name}`: not there yet" for name in missing]]
    lines += ["", "## Samples that differ", ""]
    for op in sorted(result["ops"], key=lambda o: (o["key"], o["run"])):
        bad = [o for o in op["outcomes"] if o[2] != "pass"]
        if bad:
            lines.append(
                f"- `{op['key']}` {op['run']}: {len(bad)} of {len(op['outcomes'])}; first: {bad[0][1]} {bad[0][3]}. {reason_for(op)[0].upper()}{reason_for(op)[1:]}."
            )
    REPORT.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--path", default=str(ROOT / "build/release/python"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tenth", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    ops = TENTH if args.tenth else ""
    result = replay_complex(args.path, args.device, ops)
    if args.folder:
        result["ops"] += replay(args.folder, args.path, args.device, ops)["ops"]
    dead = fatal(result)
    if args.write and not args.folder:
        parser.error("--write needs FOLDER: the page has the rates of all samples")
    if args.write:
        write_floors(result, args.device, args.tenth)
    if args.write and args.device == "cpu" and not args.tenth:
        write(result)
    floors = json.loads(floors_file(args.device).read_text())
    names = {k: ("tenth " if args.tenth else "") + k for k in rates(result)}
    fallen = [
        f"{k}: {v[0]} of {v[1]} pass, {floors[names[k]]} did before"
        for k, v in rates(result).items()
        if v[0] < floors.get(names[k], 0)
    ]
    for line in [*dead, *fallen]:
        print(line)
    print(
        f"conformance: {sum(v[0] for v in rates(result).values())} of {sum(v[1] for v in rates(result).values())} checks pass"
    )
    return 1 if dead or fallen else 0


if __name__ == "__main__":
    sys.exit(main())
