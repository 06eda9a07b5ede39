"""What compiled.explain() returns: the calls of one run, its groups, breaks, graphs of replay, memory and times."""

import inspect
import json

from . import _C

_COPY_BYTES = 1 << 26


def shown_bytes(n):
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


class Variants:
    """The graphs of a function that is compiled with replay=True: one for each kind of calls. Print it, or read `graphs`, a list of
    dicts with the inputs, the number of ops, of calls, of replayed calls and of those that launched a CUDA graph, why calls are not
    replayed or not launched, what changed so that the graph was made, what is guarded, and the graph as text."""

    def __init__(self, replay):
        self.graphs, self.gave_up, self.changed = replay.variants() if replay is not None else ([], "", "")
        self._on = replay is not None

    def __str__(self):
        if not self._on:
            return "calls are not replayed: compile with replay=True or mode='reduce-overhead'"
        lines = []
        for number, g in enumerate(self.graphs, 1):
            what = f"not replayed: the function {g['refused']}" if g["refused"] else f"{g['ops']} ops"
            launched = f", {g['launched']} as one CUDA graph" if g["launched"] else ""
            lines.append(f"{number}. ({g['inputs']}): {what}; {g['replayed']} of {g['calls']} calls replayed{launched}")
        if self.gave_up:
            lines.append(f"all other calls run the function: {self.gave_up}")
        return "\n".join(lines) if lines else "no calls yet"

    __repr__ = __str__


class Explanation:
    """One call of a compiled function. Print it for the groups of ops that were computed together, or read:

    - `groups`, a list of dicts: the ops of each group and their lines, bytes, what ended it and why, on GPUs the `source` of its kernel,
      and where it was measured its time in `us` and its share of the memory's speed;
    - `calls`: all calls of ops, as text, with their lines, modules and bytes;
    - `breaks`: where values were asked for, after how many calls, with the line and the reason;
    - `variants`: the graphs of replayed calls; see Variants;
    - `memory`: the bytes at the beginning and at the peak of the call, of the CPU's allocator.

    `report()` has all of it as text, `json()` as JSON, `html()` as a page."""

    def __init__(self, title, groups, calls=(), breaks=(), variants=None, memory=None, copy_speed=None):
        self.title, self.groups, self.calls, self.breaks = title, groups, list(calls), list(breaks)
        self.variants = variants or Variants(None)
        self.memory, self.copy_speed = memory or {}, copy_speed

    def __str__(self):
        if not self.groups:
            return (
                "no ops were fused: the function has no pointwise ops on a GPU, or of 16384 or more elements on the CPU"
            )
        return "\n".join(self._group_lines())

    __repr__ = __str__

    def _group_lines(self, details=False):
        lines = []
        for number, g in enumerate(self.groups, 1):
            names = [name.rsplit(".", 1)[-1] for name in g["ops"]]
            saved = g["bytes_one_by_one"] - g["bytes"]
            place = "" if g["device"] == "cpu" else f" of {g['device']}"
            lines.append(f"{number}. {len(names)} ops on {list(g['shape'])}{place}: {', '.join(names)}")
            if place:
                lines.append("   " + g["how"].splitlines()[0])
            why = f" ({g['reason']})" if details else ""
            lines.append(
                f"   ended by {g['ended_by']}{why}; {g['stored']} results stored, {g['dropped']} ops not needed"
            )
            lines.append(f"   {shown_bytes(g['bytes'])} of memory traffic, {shown_bytes(saved)} less than one by one")
            if details and "us" in g:
                share = f", {g['share']:.0%} of the speed of a copy" if "share" in g else ""
                lines.append(f"   {g['us']:.1f} us, {g['bytes'] / g['us'] / 1e3:.3g} GB/s{share}")
            if details and any(g["lines"]):
                lines.append("   lines: " + ", ".join(dict.fromkeys(line for line in g["lines"] if line)))
        return lines

    def segments(self):
        """The calls between two places that ask for values: dicts with `begin`, `end`, and the `reason` and `line` of the end."""
        ends = [(b["after"], b["reason"], b["line"]) for b in self.breaks]
        if not ends or ends[-1][0] < len(self.calls):
            ends.append((len(self.calls), "the function returns", ""))
        begin, segments = 0, []
        for end, reason, line in ends:
            if end > begin or not segments:
                segments.append({"begin": begin, "end": end, "reason": reason, "line": line})
            begin = end
        return segments

    def report(self):
        """All that is known, as text."""
        lines = [self.title, ""]
        segments = self.segments()
        lines.append(f"{len(self.calls)} calls of ops in {len(segments)} segments")
        for n, s in enumerate(segments, 1):
            at = f" at {s['line']}" if s["line"] else ""
            lines.append(f"segment {n}, ended because the function {s['reason'].removeprefix('the function ')}{at}")
            for c in self.calls[s["begin"] : s["end"]]:
                where = "  # " + " ".join(filter(None, (c["scope"], c["line"]))) if c["scope"] or c["line"] else ""
                lines.append(f"  {c['text']}: {', '.join(c['results'])}{where}")
        lines += ["", f"{len(self.groups)} groups of ops in one pass", *self._group_lines(details=True)]
        lines += ["", "replay", str(self.variants)]
        for number, g in enumerate(self.variants.graphs, 1):
            if g["because"]:
                lines.append(f"variant {number} was made because this differed: {g['because']}")
            lines.append(f"variant {number} guards {g['guards']}")
            if g["not_launched"]:
                lines.append(f"variant {number} is not launched as one CUDA graph: {g['not_launched']}")
        if self.memory:
            before, peak = self.memory["before"], self.memory["peak"]
            lines += ["", f"memory of the CPU: {shown_bytes(before)} before the call, {shown_bytes(peak)} at its peak"]
        return "\n".join(lines)

    def as_dict(self):
        """All that is known, as numbers, texts, lists and dicts."""
        return {
            "title": self.title,
            "calls": self.calls,
            "segments": self.segments(),
            "groups": [{**g, "shape": list(g["shape"])} for g in self.groups],
            "variants": self.variants.graphs,
            "gave_up": self.variants.gave_up,
            "memory": self.memory,
            "copy_bytes_per_second": self.copy_speed,
        }

    def json(self):
        return json.dumps(self.as_dict(), indent=2)

    def html(self):
        """The same as one page without other files."""
        from ._explain_page import page

        return page(self)


def _speed_of_copies():
    """Bytes per second that a copy in the CPU's memory reads and writes, the fastest of five."""
    from . import empty, uint8
    from .tracing import tracing

    source, times = empty(_COPY_BYTES, dtype=uint8), []
    target = source.clone()
    for _ in range(5):
        with tracing() as t:
            target.copy_(source)
        times.append(max(e["end_ns"] - e["begin_ns"] for e in t.events))
    return 2 * _COPY_BYTES / min(times) * 1e9


def _add_times(groups, events):
    """The times of groups on the CPU: the spans of fused kernels, in the same order."""
    spans = sorted((e for e in events if e["layer"] == "kernel" and e["name"] == "fused"), key=lambda e: e["begin_ns"])
    measured = [g for g in groups if g["stored"]]
    if len(spans) != len(measured):
        return None  # threads of their own have computed some
    speed = _speed_of_copies() if any(g["device"] == "cpu" for g in measured) else None
    for g, span in zip(measured, spans, strict=True):
        if g["device"] == "cpu":  # on GPUs a span is the time of a launch
            g["us"] = (span["end_ns"] - span["begin_ns"]) / 1e3
            g["share"] = g["bytes"] / max(g["us"], 1e-3) * 1e6 / speed
    return speed


def _without_frozen(line):
    return "" if line.startswith("<frozen") else line  # python3 -m


def explain(function, replay, args, kwargs):
    """Calls the function, and explains the call. `replay`: its recordings, or None."""
    from .export._capture import Scopes
    from .tracing import tracing

    title = getattr(function, "__qualname__", None) or type(function).__name__
    _C.reset_peak_memory_stats()
    before = _C.memory_stats()["allocated_bytes"]
    with Scopes(inspect.unwrap(function)), tracing() as trace:
        _, groups, calls, breaks = _C._call_explained(function, args, kwargs)
    for call in calls:
        call["line"] = _without_frozen(call["line"])
    for group in groups:
        group["lines"] = [_without_frozen(line) for line in group["lines"]]
    memory = {"before": before, "peak": _C.memory_stats()["peak_allocated_bytes"]}
    speed = _add_times(groups, trace.events)
    return Explanation(title, groups, calls, breaks, Variants(replay), memory, speed)
