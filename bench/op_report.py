"""Tables of the rows that every_op.py measures, which it also merges from several files."""

import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))

import gen_ops

FLOOR = 0.9  # a ratio below this is reported as slow
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "src/ops"


def is_slow(row):
    return row["ratio"] < FLOOR and not row.get("shared")


def mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios)) if ratios else float("nan")


CLOCKS = {"perf_counter": "wall-clock time", "process_time": "CPU time"}
PHASES = {"forward": "forward", "train": "forward + backward"}


def table(rows):
    """Lines of a Markdown table: one row per phase, dtype, layout, size and number of threads."""
    yield f"| | dtype | layout | elements | threads | cases | geometric mean | below {FLOOR}x |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    groups = {}
    for r in rows:
        groups.setdefault((r["phase"], r["dtype"], r["layout"], r["n"], r["threads"]), []).append(r)
    for (phase, dtype, layout, n, threads), some in sorted(groups.items()):
        ratio, below = mean([r["ratio"] for r in some]), sum(map(is_slow, some))
        yield f"| {PHASES[phase]} | {dtype} | {layout} | {n} | {threads} | {len(some)} | {ratio:.2f}x | {below} |"


def worst_table(rows, shown):
    worst = sorted(filter(is_slow, rows), key=lambda r: r["ratio"])
    yield f"The {min(shown, len(worst))} slowest of {len(worst)} below {FLOOR}x:"
    yield ""
    yield "| ratio | us | | dtype | layout | threads | call |"
    yield "|---:|---:|---|---|---|---:|---|"
    for r in worst[:shown]:
        yield (
            f"| {r['ratio']:.2f}x | {r['us']:.1f} | {PHASES[r['phase']]} | {r['dtype']} | {r['layout']} | {r['threads']} "
            f"| `{r['op']}({r['text']})` |"
        )


def families():
    """{public name of an op: the folder of src/ops that defines it}."""
    folders = {}
    for file in sorted(SOURCES.glob("*/*.cpp")):
        for op in gen_ops.read_ops(file):
            folders[op.namespace + op.name] = file.parent.name
    return folders


def scaling_table(rows):
    """Lines of a Markdown table: how much faster each family of ops is with more threads; no lines without several numbers."""
    threads = sorted({r["threads"] for r in rows})
    if len(threads) < 2:
        return
    folders = families()
    times = {}
    for r in rows:
        times.setdefault((*case_of(r), r["n"], r["phase"]), {})[r["threads"]] = r
    groups = {}
    for key, of_threads in times.items():
        if threads[0] in of_threads and threads[-1] in of_threads:
            pair = of_threads[threads[0]], of_threads[threads[-1]]
            groups.setdefault((folders[key[0]], key[-2]), []).append(pair)
    yield ""
    yield f"How many times as fast ops are with {threads[-1]} threads as with {threads[0]} (geometric means):"
    yield ""
    yield "| ops | elements | cases | Strata | PyTorch |"
    yield "|---|---:|---:|---:|---:|"
    for (family, n), pairs in sorted(groups.items()):
        ours, theirs = (mean([one[k] / many[k] for one, many in pairs]) for k in ("us", "torch_us"))
        yield f"| {family} | {n} | {len(pairs)} | {ours:.2f}x | {theirs:.2f}x |"


def report(data, shown=40):
    facts, rows = data["facts"], data["rows"]
    yield "# Every op beside PyTorch on the CPU"
    yield ""
    yield (
        f"`bench/every_op.py`, {facts['date']}, {facts['processor']}, PyTorch {facts['torch']}, {CLOCKS[facts['clock']]}. "
        "A ratio above 1 means that Strata is faster."
    )
    if facts["cases_left"]:
        yield f"The time limit was reached: {facts['cases_left']} cases were not measured."
    yield ""
    yield from table(rows)
    yield ""
    yield from worst_table(rows, shown)
    yield from scaling_table(rows)
    differing = sorted({f"{r['op']} ({r['differs']})" for r in rows if r["differs"]})
    yield ""
    yield f"Results that differ from PyTorch's: {', '.join(differing) or 'none'}."
    shared = sorted({r["op"] for r in rows if r.get("shared") and r["ratio"] < FLOOR})
    yield (
        "Below the floor, but not counted, because PyTorch's gradient is the caller's memory, which Strata copies: "
        f"{', '.join(shared) or 'none'}."
    )
    yield f"Not measured, because one of the two rejects the call: {len(data['not_measured'])} ops."


def merged(parts):
    """One set of data; of rows that several parts have, the last counts."""
    rows, not_measured = {}, {}
    for part in parts:
        rows.update(((*case_of(r), r["n"], r["phase"], r["threads"]), r) for r in part["rows"])
        not_measured.update(part["not_measured"])
    dates = sorted({part["facts"]["date"] for part in parts})
    facts = parts[0]["facts"] | dict(
        date=" to ".join(dates[:: len(dates) - 1] if len(dates) > 1 else dates),
        cases_left=sum(part["facts"]["cases_left"] for part in parts),
    )
    return dict(facts=facts, rows=list(rows.values()), not_measured=not_measured)


def case_of(row):
    return row["op"], row["text"], row["layout"], row["dtype"]
