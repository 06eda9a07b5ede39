"""Records a block of code, span by span."""

from . import _C


class tracing:
    """Records every op, kernel and gradient step in a with block: `with strata.tracing() as t: ...; print(t)`."""

    def __enter__(self):
        _C._trace_start()
        return self

    def __exit__(self, *_):
        self.events = _C._trace_stop()

    def __str__(self):
        events = sorted(self.events, key=lambda e: (e["begin_ns"], -e["end_ns"]))
        lines, open_ends = [], []
        for e in events:
            while open_ends and e["begin_ns"] >= open_ends[-1]:
                open_ends.pop()
            lines.append(
                f"{'  ' * len(open_ends)}{e['layer']}: {e['name']} {e['detail']}  {(e['end_ns'] - e['begin_ns']) / 1e3:.1f} us  #{e['id']}"
            )
            open_ends.append(e["end_ns"])
        return "\n".join(lines)

    def save(self, path):
        """Writes the events in the Trace Event format, which Perfetto opens."""
        spans = [
            dict(
                name=e["name"],
                cat=e["layer"],
                ph="X",
                ts=e["begin_ns"] / 1e3,
                dur=(e["end_ns"] - e["begin_ns"]) / 1e3,
                pid=0,
                tid=e["thread"],
                args=dict(detail=e["detail"], id=e["id"]),
            )
            for e in self.events
        ]
        import json  # imported on first use, so that importing strata stays fast

        with open(path, "w") as f:
            json.dump({"traceEvents": spans}, f)
