"""The tables of PyTorch's profiler, from the spans of a recording."""

_LAYERS = ("op", "autograd", "user")
_TIMES = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total")
_SUMS = (*_TIMES, "cpu_memory_usage", "self_cpu_memory_usage", "bytes", "flops")


class Average:
    """The calls of one op: their number, times in microseconds, bytes and operations."""

    def __init__(self, key, input_shapes=(), stack=()):
        self.key, self.count, self.input_shapes, self.stack = key, 0, list(input_shapes), list(stack)
        for name in _SUMS:
            setattr(self, name, 0)

    cpu_time = property(lambda self: self.cpu_time_total / max(self.count, 1))
    device_time = property(lambda self: self.device_time_total / max(self.count, 1))
    cuda_time = property(lambda self: self.device_time)
    cuda_time_total = property(lambda self: self.device_time_total)
    self_cuda_time_total = property(lambda self: self.self_device_time_total)
    # Tensors of devices are counted where they were asked for.
    device_memory_usage = cuda_memory_usage = property(lambda self: self.cpu_memory_usage)
    self_device_memory_usage = self_cuda_memory_usage = property(lambda self: self.self_cpu_memory_usage)


_SORTS = [*_TIMES, "cpu_time", "device_time", "cuda_time", "cuda_time_total", "self_cuda_time_total", "count", "flops"]
_SORTS += [a + b + "_memory_usage" for a in ("", "self_") for b in ("cpu", "device", "cuda")]


def _shown_bytes(n):
    for unit in ("b", "Kb", "Mb"):
        if abs(n) < 1024:
            return f"{n:.2f} {unit}" if unit != "b" else f"{n:.0f} b"
        n /= 1024
    return f"{n:.2f} Gb"


class EventList(list):
    """Averages by op; table() is text."""

    def __init__(self, averages=(), memory=False, flops=False):
        super().__init__(averages)
        self._memory, self._flops = memory, flops

    def table(self, sort_by=None, row_limit=100, max_name_column_width=40, **_):
        """The ops that took longest, as text."""
        if sort_by is not None and sort_by not in _SORTS:
            raise AttributeError(f"table: sort_by is {sort_by!r}, expected one of {', '.join(_SORTS)}")
        rows = sorted(self, key=lambda a: -getattr(a, sort_by or "cpu_time_total"))
        width = max_name_column_width or max([40, *(len(a.key) for a in self)])
        columns = [
            ("Self CPU", lambda a: f"{a.self_cpu_time_total:.3f}us"),
            ("CPU total", lambda a: f"{a.cpu_time_total:.3f}us"),
            ("CPU time avg", lambda a: f"{a.cpu_time:.3f}us"),
        ]
        device = any(a.device_time_total for a in self)
        if device:
            columns.append(("Device total", lambda a: f"{a.device_time_total:.3f}us"))
        if self._memory:
            columns.append(("CPU Mem", lambda a: _shown_bytes(a.cpu_memory_usage)))
            columns.append(("Self CPU Mem", lambda a: _shown_bytes(a.self_cpu_memory_usage)))
        columns.append(("# of Calls", lambda a: str(a.count)))
        if self._flops:
            columns.append(("Total MFLOPs", lambda a: f"{a.flops / 1e6:.3f}" if a.flops else "--"))
        if any(a.input_shapes for a in self):
            columns.append(("Input Shapes", lambda a: str(a.input_shapes)))
        if any(a.stack for a in self):
            columns.append(("Source Location", lambda a: a.stack[0] if a.stack else ""))
        lines = [f"{'Name':{width}}" + "".join(f"  {name:>12}" for name, _ in columns)]
        for a in rows[: row_limit if row_limit > 0 else None]:
            lines.append(f"{a.key[:width]:{width}}" + "".join(f"  {shown(a):>12}" for _, shown in columns))
        lines.append(f"Self CPU time total: {sum(a.self_cpu_time_total for a in self) / 1e3:.3f}ms")
        if device:
            lines.append(f"Device time total: {sum(a.self_device_time_total for a in self) / 1e3:.3f}ms")
        return "\n".join(lines)

    def total_average(self):
        """All of them as one."""
        total = Average("Total")
        total.count = sum(a.count for a in self)
        for name in _SUMS:
            setattr(total, name, sum(getattr(a, name) for a in self))
        return total

    def __str__(self):
        return self.table()


def averages(events, by_shape=False, by_line=0, memory=False, flops=False):
    """The calls of ops, backward steps and named blocks, by name; also by the shapes of their inputs, or the line that called them."""
    found, places = {}, [None] * len(events)

    def around(i):
        """The spans with a row that are around an event, innermost first."""
        i = events[i]["parent"]
        while i >= 0:
            if places[i] is not None:
                yield i
            i = events[i]["parent"]

    def line_of(i):
        while i >= 0:
            facts = dict(events[i]["facts"]) if events[i]["layer"] == "python" else {}
            if "file" in facts:
                return f"{facts['file']}({facts['line']}): {facts['function']}"
            i = events[i]["parent"]
        return ""

    for i, e in enumerate(events):
        if e["layer"] not in _LAYERS:
            continue
        name = f"{e['name']} backward" if e["layer"] == "autograd" else e["name"]
        shapes = [list(v[1]) for k, v in e["facts"] if k == "input"] if by_shape else []
        line = line_of(i) if by_line else ""
        key = (e["layer"], name, str(shapes), line)
        places[i] = found.setdefault(key, Average(name, shapes, [line] if line else []))
    by_name = {}
    for i, e in enumerate(events):
        us = (e["end_ns"] - e["begin_ns"]) / 1e3
        if (own := places[i]) is not None:
            own.count += 1
            own.self_cpu_time_total += us
            outer = [places[k] for k in around(i)]
            if own not in outer:
                own.cpu_time_total += us
            if outer:
                outer[0].self_cpu_time_total -= us
            if e["layer"] == "op":
                by_name.setdefault(e["name"], own)
        elif e["layer"] == "kernel" or (e["layer"] == "runtime" and e["name"] == "allocate"):
            facts, seen = dict(e["facts"]), set()
            for depth, k in enumerate(around(i)):
                row = places[k]
                if id(row) in seen:
                    continue
                seen.add(id(row))
                if e["layer"] == "kernel":
                    row.flops += e["flops"]
                    if depth == 0:
                        row.bytes += facts.get("bytes", 0)
                else:
                    row.cpu_memory_usage += facts.get("bytes", 0)
                    row.self_cpu_memory_usage += facts.get("bytes", 0) if depth == 0 else 0
    for e in events:
        if e["layer"] == "device" and (row := by_name.get(dict(e["facts"]).get("op"))) is not None:
            us = (e["end_ns"] - e["begin_ns"]) / 1e3
            row.device_time_total += us
            row.self_device_time_total += us
    return EventList(found.values(), memory, flops)
