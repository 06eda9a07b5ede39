"""Who holds what memory: the timeline of a recording with holders=True, and what was alive at its peak."""

from html import escape

from ._explain import shown_bytes
from .tracing import place_of


class Holders:
    """Memory of results that were made while the recording was on. `peak` is in bytes, `points` a list of (ns since the beginning, bytes),
    `rows` what was alive at the peak, the largest first: dicts of op, line, module, bytes, blocks. Print it, or `save` a page."""

    def __init__(self, events):
        ordered = sorted(
            (e["begin_ns"], i)
            for i, e in enumerate(events)
            if e["layer"] == "runtime" and e["name"] in ("allocate", "free")
        )
        alive, self.points, self.peak, at_peak = {}, [], 0, ()
        held, begin = 0, min((e["begin_ns"] for e in events), default=0)
        for ns, i in ordered:
            facts = dict(events[i]["facts"])
            if events[i]["name"] == "allocate":
                if "address" not in facts:
                    continue  # it failed
                if facts["address"] in alive:  # given back in a way that is not recorded
                    held -= alive[facts["address"]][0]
                alive[facts["address"]] = (facts["bytes"], i)
                held += facts["bytes"]
            elif facts["address"] in alive:
                held -= alive.pop(facts["address"])[0]
            else:
                continue  # from before the recording
            self.points.append((ns - begin, held))
            if held > self.peak:
                self.peak, at_peak = held, tuple(alive.values())
        self.duration_ns = max((e["end_ns"] for e in events), default=0) - begin
        self.rows = _rows(events, at_peak)

    def __str__(self):
        lines = [f"{shown_bytes(self.peak)} at the peak, of results made while recording", ""]
        lines.append(f"{'bytes':>10}  {'blocks':>6}  {'op':28}  line")
        for row in self.rows[:40]:
            line = " ".join(filter(None, (row["line"], row["module"] and f"({row['module']})")))
            lines.append(f"{shown_bytes(row['bytes']):>10}  {row['blocks']:>6}  {row['op'][:28]:28}  {line}".rstrip())
        if len(self.rows) > 40:
            lines.append(f"and {len(self.rows) - 40} more")
        return "\n".join(lines)

    __repr__ = __str__

    def _drawing(self):
        """The bytes over time, as a filled staircase."""
        wide, high = 860, 200
        most, end = max(self.peak, 1), max(self.duration_ns, 1)
        points = self.points
        if len(points) > 4000:  # the largest of neighbours
            each = -(-len(points) // 4000)
            points = [max(points[i : i + each], key=lambda p: p[1]) for i in range(0, len(points), each)]
        path, y = "M0 200", 200.0
        for ns, held in points:
            x, y = wide * ns / end, high - 180 * held / most
            path += f"H{x:.1f}V{y:.1f}"
        return (
            f'<div class=wide><svg role="img" aria-label="memory over time" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">'
            f'<path d="{path}H{wide}V200Z" style="fill:var(--blue);opacity:.35"/><path d="M0 20H{wide}" stroke-dasharray="4 4"/>'
            f'<text x="4" y="14">{escape(shown_bytes(self.peak))} at the peak</text>'
            f'<text x="{wide - 4}" y="190" text-anchor="end">{self.duration_ns / 1e6:.3g} ms</text></svg></div>'
        )

    def html(self):
        """One page without other files: the timeline, and who held what at the peak."""
        from ._explain_page import _STYLE

        rows = "".join(
            f"<tr><td class=number>{escape(shown_bytes(r['bytes']))}<td class=number>{r['blocks']}<td><code>{escape(r['op'])}</code>"
            f"<td>{escape(r['line'])}<td>{escape(r['module'])}</tr>"
            for r in self.rows
        )
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<link rel="icon" href="data:,"><title>Memory</title><style>{_STYLE}</style></head><body><h1>Memory of a recording</h1>'
            f"{self._drawing()}<h2>Alive at the peak</h2><div class=wide><table><tr><th>bytes<th>blocks<th>op<th>line<th>module</tr>"
            f"{rows}</table></div></body></html>"
        )

    def _repr_html_(self):
        return f"<pre>{escape(str(self))}</pre>"

    def save(self, path):
        """Writes the page."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html())


def _rows(events, blocks):
    """The blocks by op, line and module, the largest first."""
    found, modules = {}, {}  # of forward ops, by the number of their node
    for i, e in enumerate(events):
        if e["layer"] == "op" and (node := dict(e["facts"]).get("node")):
            at = i
            while at >= 0 and events[at]["layer"] != "module":
                at = events[at]["parent"]
            modules[node] = events[at]["name"] if at >= 0 else ""
    for size, i in blocks:
        op, place = "", place_of(events, i)
        line, module, at = place["line"], place["module"], i
        while at >= 0:
            e = events[at]
            if e["layer"] == "op":
                op = e["name"]  # the outermost
            elif e["layer"] == "autograd" and not module:
                module = modules.get(dict(e["facts"]).get("node"), "")
            at = e["parent"]
        row = found.setdefault((op, line, module), {"op": op, "line": line, "module": module, "bytes": 0, "blocks": 0})
        row["bytes"] += size
        row["blocks"] += 1
    return sorted(found.values(), key=lambda r: -r["bytes"])
