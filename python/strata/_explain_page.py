"""The page of an explanation: one HTML file without scripts or other files, for light and dark screens."""

from html import escape

from ._explain import shown_bytes

_STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #20262e; --muted: #6e7884; --line: #e4e8ed; --box: #f5f7f9; --blue: #1f61bf;
  --green: #108a5c; --orange: #b65c0c; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181d; --ink: #e3e8ee; --muted: #95a0ad; --line: #2b323b; --box: #1c2229;
  --blue: #7db2ff; --green: #53c997; --orange: #f0a35e; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.facts { display: flex; flex-wrap: wrap; gap: .75rem; }
.facts div { background: var(--box); border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .9rem; }
.facts b { display: block; font-size: 1.2rem; } .muted { color: var(--muted); }
table { border-collapse: collapse; width: 100%; } th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  vertical-align: top; } th { color: var(--muted); font-weight: 600; } td.number { text-align: right; white-space: nowrap; }
code, pre { font: 13px/1.45 ui-monospace, monospace; overflow-wrap: anywhere; } pre { background: var(--box); border: 1px solid var(--line);
  border-radius: .5rem; overflow-x: auto; padding: .6rem; white-space: pre; }
.wide { overflow-x: auto; } .break { color: var(--orange); font-weight: 600; } .fused { color: var(--green); }
.bar { background: var(--line); border-radius: 3px; height: .6rem; min-width: 6rem; } .bar i { background: var(--blue); border-radius: 3px;
  display: block; height: 100%; } summary { cursor: pointer; } svg text { fill: var(--ink); font: 12px ui-monospace, monospace; }
svg rect { fill: var(--box); stroke: var(--line); } svg rect.fused { stroke: var(--green); stroke-width: 2; }
svg path { fill: none; stroke: var(--muted); }
"""


def _code(text):
    return f"<code>{escape(str(text))}</code>"


def _fact(name, value, more=""):
    return f"<div><span class=muted>{escape(name)}</span><b>{escape(str(value))}</b><span class=muted>{escape(more)}</span></div>"


def _bar(share):
    return f'<div class=bar title="{share:.0%}"><i style="width:{min(max(share, 0), 1):.1%}"></i></div>'


def _drawing(groups):
    """The groups in the order in which they were computed: a box for each, as wide as its bytes."""
    if not groups:
        return ""
    most = max(max(g["bytes_one_by_one"] for g in groups), 1)
    rows, height = [], 0
    for number, g in enumerate(groups[:60], 1):
        names = ", ".join(name.rsplit(".", 1)[-1] for name in g["ops"])
        names = names if len(names) < 110 else names[:107] + "..."
        wide, narrow = (max(2, 420 * g[key] / most) for key in ("bytes_one_by_one", "bytes"))
        rows.append(
            f'<rect x="40" y="{height + 18}" width="{wide:.1f}" height="14" rx="3"><title>one by one: '
            f"{escape(shown_bytes(g['bytes_one_by_one']))}</title></rect>"
            f'<rect class="fused" x="40" y="{height + 18}" width="{narrow:.1f}" height="14" rx="3"><title>in one pass: '
            f"{escape(shown_bytes(g['bytes']))}</title></rect>"
            f'<text x="8" y="{height + 30}">{number}</text><text x="40" y="{height + 12}">{escape(names)}</text>'
            f'<text x="{50 + wide:.1f}" y="{height + 30}">{escape(shown_bytes(g["bytes"]))} of '
            f"{escape(shown_bytes(g['bytes_one_by_one']))}</text>"
        )
        height += 42
    return (
        f'<div class=wide><svg role="img" aria-label="bytes of each group" viewBox="0 0 860 {height}" width="860" '
        f'height="{height}">{"".join(rows)}</svg></div>'
    )


def _groups(e):
    if not e.groups:
        return "<p class=muted>No ops were computed in groups.</p>"
    rows = []
    for number, g in enumerate(e.groups, 1):
        time = (
            f"{g['us']:.1f} us<br>{_bar(g['share'])}{g['share']:.0%} of a copy's speed"
            if "share" in g
            else "<span class=muted>not measured</span>"
        )
        source = f"<details><summary>source</summary><pre>{escape(g['source'])}</pre></details>" if g["source"] else ""
        lines = ", ".join(dict.fromkeys(line for line in g["lines"] if line))
        rows.append(
            f"<tr><td>{number}</td><td>{_code(', '.join(g['ops']))}<br><span class=muted>{escape(lines)}</span></td>"
            f"<td>{_code(list(g['shape']))}<br>{escape(g['device'])}, {escape(g['how'].splitlines()[0])}{source}</td>"
            f"<td class=number><span class=fused>{shown_bytes(g['bytes'])}</span><br>of {shown_bytes(g['bytes_one_by_one'])}</td>"
            f"<td>{_code(g['ended_by'])}: {escape(g['reason'])}<br><span class=muted>{g['stored']} stored, {g['dropped']} not "
            f"needed</span></td><td>{time}</td></tr>"
        )
    return (
        "<div class=wide><table><tr><th>#<th>ops<th>shape, kernel<th>bytes<th>what is not fused after it, and why<th>time</tr>"
        + "".join(rows)
        + "</table></div>"
    )


def _segments(e):
    parts = []
    for number, s in enumerate(e.segments(), 1):
        rows = "".join(
            f"<tr><td>{_code(c['text'])}</td><td>{_code(', '.join(c['results']))}</td><td>{escape(c['scope'])}</td>"
            f"<td>{escape(c['line'])}</td><td class=number>{shown_bytes(c['bytes_read'] + c['bytes_written'])}</td></tr>"
            for c in e.calls[s["begin"] : s["end"]]
        )
        at = f" at {_code(s['line'])}" if s["line"] else ""
        parts.append(
            f"<details open><summary>Segment {number}: {s['end'] - s['begin']} calls, then <span class=break>"
            f"{escape(s['reason'])}</span>{at}</summary><div class=wide><table><tr><th>call<th>results<th>module<th>line<th>bytes"
            f"</tr>{rows}</table></div></details>"
        )
    return "".join(parts)


def _variants(e):
    v = e.variants
    if not v.graphs:
        return f"<p class=muted>{escape(str(v))}</p>"
    parts = []
    for number, g in enumerate(v.graphs, 1):
        rows = [
            ("inputs", g["inputs"]),
            ("made because this differed", g["because"]),
            ("guards", g["guards"]),
            ("calls", f"{g['replayed']} of {g['calls']} replayed, {g['launched']} as one CUDA graph"),
            ("not replayed: the function", g["refused"]),
            ("not launched as one CUDA graph", g["not_launched"]),
        ]
        table = "".join(f"<tr><th>{escape(k)}</th><td>{escape(t)}</td></tr>" for k, t in rows if t)
        graph = (
            f"<details><summary>graph, {g['ops']} ops</summary><pre>{escape(g['graph'])}</pre></details>"
            if g["graph"]
            else ""
        )
        parts.append(f"<h3>Variant {number}</h3><table>{table}</table>{graph}")
    if v.gave_up:
        parts.append(f"<p class=break>All other calls run the function: {escape(v.gave_up)}</p>")
    return "".join(parts)


def page(e):
    saved = sum(g["bytes_one_by_one"] - g["bytes"] for g in e.groups)
    facts = [
        _fact("calls of ops", len(e.calls)),
        _fact("segments", len(e.segments())),
        _fact("groups", len(e.groups), f"of {sum(len(g['ops']) for g in e.groups)} ops"),
        _fact("memory traffic saved", shown_bytes(saved)),
    ]
    if e.memory:
        facts.append(
            _fact(
                "peak of the CPU's memory", shown_bytes(e.memory["peak"]), f"{shown_bytes(e.memory['before'])} before"
            )
        )
    if e.copy_speed:
        facts.append(_fact("speed of a copy", f"{shown_bytes(e.copy_speed)}/s", "measured"))
    title = escape(e.title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}: '
        f"compiled</title><style>{_STYLE}</style></head><body><h1>{title}</h1><div class=facts>{''.join(facts)}</div>"
        f"<h2>Groups</h2><p class=muted>Green: the bytes that a group reads and writes; grey: the same ops one by one.</p>"
        f"{_drawing(e.groups)}{_groups(e)}<h2>Calls</h2>{_segments(e)}<h2>Replay</h2>{_variants(e)}</body></html>\n"
    )


def page_of_layers(e):
    """The page of a network, layer by layer."""
    rows = []
    for layer in e.layers:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in layer["rejected"][:20])
        more = f"<details><summary>kernels not taken</summary><ul>{reasons}</ul></details>" if reasons else ""
        rows.append(
            f"<tr><td>{_code(layer['layer'] or '(network)')}<br><span class=muted>{escape(layer['module'])}</span></td>"
            f"<td>{_code(', '.join(dict.fromkeys(layer['kernels'])))}{more}</td>"
            f"<td class=number>{layer['us']:.1f} us{_bar(layer['share'])}</td>"
            f"<td class=number>{escape(shown_bytes(layer['bytes']))}</td><td class=number>{layer['flops'] / 1e6:.3g}</td>"
            f"<td>{escape(layer['bound'])}</td></tr>"
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{escape(e.title)}</title><style>{_STYLE}</style></head><body><h1>{escape(e.title)}</h1>'
        f"<div class=facts>{_fact('device', e.device)}{_fact('time', f'{e.us:.1f} us', e.clock)}{_fact('layers', len(e.layers))}</div>"
        f"<p>{escape(e.advice)}</p><div class=wide><table><tr><th>layer<th>kernels<th>time<th>bytes<th>MFLOP<th>bound</tr>"
        f"{''.join(rows)}</table></div></body></html>"
    )
