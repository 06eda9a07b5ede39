"""Writes the measured cases in which Strata is slower into README.md, from bench/results; --check only compares.

usage: readme_rows.py [--check]
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
README = ROOT / "README.md"
BEGIN, END = "<!-- written by bench/readme_rows.py -->\n", "<!-- end -->\n"
SLOW = 0.95
FILES = {
    "products": "gemm",
    "convolutions": "convolution",
    "attention": "attention",
    "ops bound by memory": "gpu_ops",
    "runtime": "gpu",
    "networks": "gpu_networks",
    "networks, compiled": "gpu_networks_compile",
}


def ratios(row):
    """(what is measured, ratio) of a row, which may hold a forward and a backward pass."""
    if "ratio" in row:
        yield row["case"], row["ratio"]
    for phase in ("forward", "backward"):
        if phase in row:
            yield f"{row['case']} {phase}", row[phase]["ratio"]


def lines():
    yield f"| H200, slower than {SLOW}x | all such cases |\n|---|---|\n"
    for title, file in FILES.items():
        measured = [pair for row in json.loads((RESULTS / f"{file}.json").read_text())["rows"] for pair in ratios(row)]
        slow = sorted((r, case) for case, r in measured if r < SLOW)
        cases = "; ".join(f"{case} {r:.2f}x" for r, case in slow)
        yield f"| {title}: {len(slow)} of {len(measured)} | {cases or 'none'} |\n"


def main():
    before = README.read_text()
    head, _, rest = before.partition(BEGIN)
    _, found, tail = rest.partition(END)
    if not found:
        raise SystemExit("readme_rows: README.md has no place for the table")
    after = head + BEGIN + "".join(lines()) + END + tail
    if "--check" in sys.argv[1:]:
        raise SystemExit("readme_rows: README.md differs: run bench/readme_rows.py" if after != before else 0)
    README.write_text(after)


if __name__ == "__main__":
    main()
