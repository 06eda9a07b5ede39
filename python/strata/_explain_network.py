"""`strata explain model.py:Net`: the layers of a network with their kernels, times, bytes, operations and bounds, and the one change that
would help most."""

import json as _json

from . import _C
from ._explain import shown_bytes
from .tracing import tracing

_RUNS = 3
_SMALL_US = 5.0  # a kernel that is faster mostly waits for its launch


def _shown_flops(n):
    for unit in ("", "K", "M", "G"):
        if n < 1000:
            return f"{n:.3g} {unit}FLOP"
        n /= 1000
    return f"{n:.3g} TFLOP"


class Layers:
    """The layers of one call of a network: print it, or read `layers`, a list of dicts in the order of the calls with `layer` (its path),
    `module` (its class), `kernels` (names, in order), `rejected` (kernels with reasons), `us`, `bytes`, `flops`, `bound` ("memory",
    "compute" or "launch") and `share` (of the time); `us`, the sum; and `advice`, the change that would help most."""

    def __init__(self, title, device, layers, advice, clock):
        self.title, self.device, self.layers, self.advice, self.clock = title, device, layers, advice, clock
        self.us = sum(layer["us"] for layer in layers)

    def __str__(self):
        rows = [("layer", "module", "kernels", "time", "share", "bytes", "operations", "bound")]
        for layer in self.layers:
            kernels = list(dict.fromkeys(layer["kernels"]))
            rows.append(
                (
                    layer["layer"] or "(network)",
                    layer["module"],
                    ", ".join(kernels[:3]) + (" ..." if len(kernels) > 3 else ""),
                    f"{layer['us']:.1f} us",
                    f"{layer['share']:.0%}",
                    shown_bytes(layer["bytes"]),
                    _shown_flops(layer["flops"]) if layer["flops"] else "",
                    layer["bound"],
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        right = {3, 4, 5, 6}
        lines = [
            "  ".join(
                v.rjust(w) if i in right else v.ljust(w) for i, (v, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        total = f"{self.title} on {self.device}: {self.us:.1f} us in kernels, {self.clock}"
        return "\n".join([total, "", *(line.rstrip() for line in lines), "", self.advice])

    __repr__ = __str__

    def _repr_html_(self):
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def json(self):
        return _json.dumps(
            {
                "title": self.title,
                "device": self.device,
                "us": self.us,
                "layers": self.layers,
                "advice": self.advice,
                "clock": self.clock,
            },
            indent=2,
        )

    def html(self):
        """The same as one page without other files."""
        from ._explain_page import page_of_layers

        return page_of_layers(self)


def _hooked(network):
    """A span around each call of each module, named by its path. Returns the hooks and the classes by path."""
    hooks, classes = [], {}
    for path, module in network.named_modules():
        open_spans, name = [], path or "."
        classes[name] = type(module).__name__

        def begin(*_, name=name, spans=open_spans):
            spans.append(_C._trace_open("module", name))

        def end(*_, spans=open_spans):
            if spans:
                _C._trace_close(spans.pop())

        hooks += [module.register_forward_pre_hook(begin), module.register_forward_hook(end, always_call=True)]
    return hooks, classes


def _recorded(network, call):
    """The kernels of the fastest of a few calls, its counters on a virtual GPU, and the classes of modules."""
    from . import cuda, vgpu

    def wait():
        for devices in (cuda, vgpu):
            if devices.is_initialized():
                devices.synchronize()

    hooks, classes = _hooked(network)
    try:
        call()
        call()
        best = None
        for _ in range(_RUNS):
            wait()
            _C._vgpu_counters()
            with tracing(modules=False) as t:
                outer = _C._trace_open("user", "network")
                call()
                _C._trace_close(outer)
                wait()
            counters, work = _C._vgpu_counters(), t.work()
            ns = sum(w["device_ns"] or w["host_ns"] for w in work)
            if best is None or ns < best[0]:
                best = ns, work, counters
    finally:
        for hook in hooks:
            hook.remove()
    return *best[1:], classes


def _sorted_in_layers(work, counters, classes):
    """The layers, whether their times are estimates, and whether kernels were launched."""
    launches = sum(w["launches"] for w in work)
    estimated, left = launches > 0 and launches == len(counters), iter(counters)
    found = {}
    for w in work:
        name = w["module"] or "(outside)"
        fresh = {"kernels": [], "rejected": [], "us": 0.0, "bytes": 0, "flops": 0, "bounds": {}}
        place = {"layer": "" if name == "." else name, "module": classes.get(name, "")}
        layer = found.setdefault(name, {**place, **fresh})
        layer["kernels"].append(w["kernel"])
        layer["rejected"] += [reason for reason in w["rejected"] if reason not in layer["rejected"]]
        layer["bytes"] += w["bytes"]
        layer["flops"] += w["flops"]
        for _ in range(w["launches"] if estimated else 0):
            counted = next(left)
            us = 1e6 * counted["estimated_seconds"]
            layer["us"] += us
            layer["bounds"][counted["bound"]] = layer["bounds"].get(counted["bound"], 0) + us
        if not estimated:
            layer["us"] += (w["device_ns"] or w["host_ns"]) / 1e3
    return list(found.values()), estimated, launches > 0


def _bound(layer, device, rates):
    bounds = layer.pop("bounds")
    if bounds:  # the estimate of the virtual GPU
        longest = max(bounds, key=bounds.get)
        return {"launch": "launch", "device memory": "memory"}.get(longest, "compute")
    if layer["us"] < _SMALL_US * len(layer["kernels"]):
        return "launch"
    size = 1 << max(layer["bytes"].bit_length(), 10)
    if size not in rates:
        rates[size] = _C._measured_rate(device, size)
    memory = layer["bytes"] / rates[size]
    if layer["flops"] > layer["bytes"]:
        if 0 not in rates:
            rates[0] = _C._measured_rate(device, 0)
        if layer["flops"] / rates[0] > memory:
            layer["of_peak"] = 1e6 * layer["flops"] / rates[0] / layer["us"]
            return "compute"
    return "memory"


def _names(layers):
    names = [layer["layer"] or "(network)" for layer in layers]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _advice(layers, device):
    """The bound with most of the time that a known change helps, with the layers that it concerns."""
    if not layers:
        return "No kernels ran: there is nothing to improve."
    total = sum(layer["us"] for layer in layers) or 1e-9
    by_bound = {b: [layer for layer in layers if layer["bound"] == b] for b in ("launch", "memory", "compute")}
    shares = {b: sum(layer["us"] for layer in some) / total for b, some in by_bound.items()}
    worst = max(shares, key=shares.get)
    some = sorted(by_bound[worst], key=lambda layer: -layer["us"])
    first = f"{shares[worst]:.0%} of the time is in layers bound by {worst} ({_names(some)})"
    if worst == "launch":
        change = "a larger batch, or strata.compile(net, mode='reduce-overhead'), which replays the calls of all layers at once"
    elif worst == "memory":
        plain = [layer for layer in some if not layer["flops"]]
        if sum(layer["us"] for layer in plain) * 2 > sum(layer["us"] for layer in some):
            change = "strata.compile(net), which computes neighbouring pointwise ops in one pass over memory"
        else:
            change = (
                "mixed precision, strata.autocast: half the bytes; their products have few operations for each byte"
            )
    elif device.startswith("cuda"):
        change = (
            "mixed precision, strata.autocast('cuda', dtype=strata.bfloat16): tensor cores are several times as fast"
        )
    elif reasons := [r for layer in some for r in layer["rejected"] if "contiguous" in r or "channels last" in r]:
        change = f"another layout, such as net.to(memory_format=strata.channels_last): {reasons[0]}"
    elif some[0].get("of_peak", 1) < 0.5:
        change = f"a larger batch: {_names(some[:1])} reaches {some[0]['of_peak']:.0%} of the speed of a large product"
    else:
        change = "a GPU, or fewer channels: these layers compute about as fast as this processor can"
    return f"What would help most: {first}. Try {change}."


def explain_layers(network, call, *, title="", device="cpu"):
    """Calls `call`, which runs the module `network`, a few times, and returns the Layers of the fastest call."""
    work, counters, classes = _recorded(network, call)
    layers, estimated, launched = _sorted_in_layers(work, counters, classes)
    rates = {}
    for layer in layers:
        layer["bound"] = _bound(layer, device, rates)
    total = sum(layer["us"] for layer in layers) or 1e-9
    for layer in layers:
        layer["share"] = layer["us"] / total
    clock = "estimated for the GPU of the profile" if estimated else "on the device" if launched else "on the CPU"
    title = title or type(network).__name__
    return Layers(title, device, layers, _advice(layers, device), clock)
