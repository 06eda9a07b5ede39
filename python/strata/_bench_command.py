"""`strata bench op|model|gemm|copy`: times, with PyTorch's beside them where it can be imported. The command runs this as
python3 -m strata._bench_command."""

import argparse
import importlib
import json
import sys
import time

from strata._command import UserError, finished, inputs_of, loaded

_ROUNDS = 7
_ROUND_SECONDS = 0.02


def _wait(strata, device):
    if device.startswith(("cuda", "vgpu")):
        (strata.cuda if device.startswith("cuda") else strata.vgpu).synchronize()


def _round(call, wait, times):
    begin = time.perf_counter()
    for _ in range(times):
        call()
    wait()
    return (time.perf_counter() - begin) / times


def measured(calls):
    """Seconds of each of (call, wait), the fastest of a few rounds. The rounds alternate, so that a busy machine slows all of them."""
    counts = []
    for call, wait in calls:
        for _ in range(2):
            call()
        wait()
        counts.append(max(1, min(10000, int(_ROUND_SECONDS / max(_round(call, wait, 1), 1e-7)))))
    best = [float("inf")] * len(calls)
    for _ in range(_ROUNDS):
        for i, (call, wait) in enumerate(calls):
            time.sleep(0.002)  # until the idle threads of the other one sleep
            best[i] = min(best[i], _round(call, wait, counts[i]))
    return best


class Peer:
    """PyTorch on the same device, or why it is not there."""

    def __init__(self, options):
        self.torch, self.why = None, ""
        if options.alone:
            self.why = "left out"
        elif options.device.startswith("vgpu"):
            self.why = "PyTorch has no virtual GPU"
        else:
            try:
                torch = importlib.import_module("torch")
                if options.device.startswith("cuda") and not torch.cuda.is_available():
                    self.why = "PyTorch has no CUDA device"
                else:
                    self.torch = torch
            except ImportError as error:
                self.why = f"PyTorch is not installed: {error}"
        self.device = options.device

    def wait(self):
        if self.device.startswith("cuda"):
            self.torch.cuda.synchronize()

    def converted(self, value):
        """The same value for PyTorch: tensors, lists of them, dtypes."""
        import strata

        if isinstance(value, strata.Tensor):
            own = value.detach().cpu()
            narrow = own.dtype in (strata.bfloat16, strata.float8_e4m3fn, strata.float8_e5m2)
            made = self.torch.from_numpy((own.float() if narrow else own).numpy())
            if narrow:
                made = made.to(getattr(self.torch, str(own.dtype).rpartition(".")[2]))
            made = made.to(self.device) if self.device != "cpu" else made
            return made.requires_grad_() if value.requires_grad else made
        if isinstance(value, list | tuple):
            return type(value)(self.converted(v) for v in value)
        if isinstance(value, strata.dtype):
            return getattr(self.torch, str(value).rpartition(".")[2])
        return value

    def found(self, names):
        """The first of these functions that PyTorch has."""
        for name in names:
            at = self.torch
            for part in name.split("."):
                at = getattr(at, part, None)
            if callable(at):
                return at
        return None


def _with_gradient(call, backward, grad_enabled):
    """The call, or the call and the gradient of its results."""
    if not backward:

        def forward():
            with grad_enabled(False):
                return call()

        return forward
    ones = []

    def both():
        result = call()
        if not ones:
            if not result.requires_grad:
                raise UserError("--backward: the result requires no gradient")
            ones.append(result.detach() * 0 + 1)
        result.backward(ones[0])
        return result

    return both


def _facts(call):
    """Bytes and operations of a call, as its kernels tell, and their names."""
    import strata

    call()
    with strata.tracing() as t:
        call()
    work = t.work()
    kernels = list(dict.fromkeys(w["kernel"] for w in work))
    return sum(w["bytes"] for w in work), sum(w["flops"] for w in work), kernels


def _rates(row, bytes_, flops):
    row["gb_per_second"] = bytes_ / row["seconds"] / 1e9
    row["tflop_per_second"] = flops / row["seconds"] / 1e12
    return row


def _compared(name, own, other, peer, options):
    """A row: the seconds of both, and what the own call does."""
    import strata

    def wait():
        _wait(strata, options.device)

    calls = [(own, wait)]
    row = {"name": name, "peer_seconds": None, "peer": peer.why}
    if other is not None:
        try:
            other()
            peer.wait()
            calls.append((other, peer.wait))
            row["peer"] = f"PyTorch {peer.torch.__version__}"
        except Exception as error:  # the same call is another one there
            row["peer"] = f"PyTorch raised {type(error).__name__}: {error}"
    seconds = measured(calls)
    row["seconds"] = seconds[0]
    if len(seconds) > 1:
        row["peer_seconds"] = seconds[1]
    bytes_, flops, row["kernels"] = _facts(own)
    return _rates(row, bytes_, flops)


def bench_op(options, peer):
    import strata

    from . import _C

    if not options.name:
        raise UserError("bench op: name an op, such as add; `strata ops` lists all")

    def is_called(record):
        names = (record["name"], *record["aliases"])
        return any(n == options.name or n.endswith("." + options.name) for n in names)

    dtype, why = getattr(strata, options.dtype, None), []
    if not isinstance(dtype, strata.dtype):
        raise UserError(f"--dtype {options.dtype}: there is no such dtype")
    for record in filter(is_called, _C._records()):
        text = options.arguments or next(iter(record["samples"]), None)
        if text is None:
            continue
        try:
            given = _C._sample(record["index"], text, dtype, 0)
            break
        except (ValueError, TypeError, RuntimeError) as error:
            why.append(str(error))
    else:
        if why:
            raise UserError(f"the arguments {options.arguments!r} fit no form of {options.name}: {'; '.join(why)}")
        raise UserError(f"there is no op {options.name!r}; `strata ops` lists all")

    def moved(value):
        if isinstance(value, strata.Tensor):
            value = value.detach().to(options.device)
            return value.requires_grad_() if options.backward and value.is_floating_point() else value
        return type(value)(moved(v) for v in value) if isinstance(value, list | tuple) else value

    given = {name: moved(value) for name, value in given.items()}
    op = _C.ops[record["name"]]
    own = _with_gradient(lambda: op(**given), options.backward, strata.set_grad_enabled)
    other = None
    if peer.torch is not None:
        function = peer.found((record["name"], *record["aliases"]))
        if function is None:
            peer.why = f"PyTorch has no {record['name']}"
        else:
            theirs = {name: peer.converted(value) for name, value in given.items()}
            other = _with_gradient(lambda: function(**theirs), options.backward, peer.torch.set_grad_enabled)
    return [_compared(f"{record['name']}({text})", own, other, peer, options)]


def bench_gemm(options, peer):
    import strata

    dtype = getattr(strata, options.dtype, None)
    if not isinstance(dtype, strata.dtype) or not dtype.is_floating_point:
        raise UserError(f"--dtype {options.dtype}: bench gemm measures floating dtypes")
    default = {"cuda": "1024,2048,4096,8192", "vgpu": "64,128"}.get(
        options.device.partition(":")[0], "128,256,512,1024"
    )
    rows = []
    for n in _sizes(options.sizes or default):
        a, b = (strata.randn(n, n).to(dtype).to(options.device) for _ in range(2))
        other = None
        if peer.torch is not None:
            c, d = peer.converted(a), peer.converted(b)
            other = lambda c=c, d=d: c @ d  # noqa: E731
        rows.append(_compared(f"{n} x {n} x {n}, {options.dtype}", lambda a=a, b=b: a @ b, other, peer, options))
    return rows


def _sizes(text):
    try:
        sizes = [int(word) for word in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1 or max(sizes) > 1 << 40:
        raise UserError(f"--sizes {text}: expected whole numbers above 0 with commas between them")
    return sizes


def bench_copy(options, peer):
    import strata

    default = {"cuda": "65536,4194304,268435456", "vgpu": "4096,65536"}.get(options.device.partition(":")[0])
    rows = []
    for n in _sizes(options.sizes or default or "16384,1048576,67108864"):
        host, there = (strata.zeros(n, dtype=strata.uint8, device=d) for d in ("cpu", options.device))
        ways = [("within " + options.device, there, there.clone())]
        if options.device != "cpu":
            ways += [(f"cpu to {options.device}", host, there), (f"{options.device} to cpu", there, host)]
        for name, source, target in ways:
            other = None
            if peer.torch is not None:
                pair = [peer.torch.zeros(n, dtype=peer.torch.uint8, device=str(t.device)) for t in (source, target)]
                other = lambda s=pair[0], t=pair[1]: t.copy_(s)  # noqa: E731
            own = lambda s=source, t=target: t.copy_(s)  # noqa: E731
            row = _compared(f"{n} bytes {name}", own, other, peer, options)
            rows.append(_rates(row, 2 * n if source.device == target.device else n, 0))
    return rows


def _with_names_of_torch(torch, target):
    """The object of a program of Strata, with PyTorch in its place."""
    ours = {k: m for k, m in sys.modules.items() if k == "strata" or k.startswith("strata.")}
    for name in ours:
        del sys.modules[name]
    try:
        sys.modules.update(
            {"strata" + k[5:]: m for k, m in sys.modules.items() if k == "torch" or k.startswith("torch.")}
        )
        return loaded(target, "")
    finally:
        for name in [k for k in sys.modules if k == "strata" or k.startswith("strata.")]:
            del sys.modules[name]
        sys.modules.update(ours)


def bench_model(options, peer):
    import strata

    if not options.name or not options.input:
        raise UserError(
            "bench model: name a network of a Python file, and its arguments: model.py:Net --input 'f(8,1,28,28)'"
        )
    inputs = inputs_of(options.input, strata, options)
    net = loaded(options.name, "")
    if not isinstance(net, strata.nn.Module):
        raise UserError(f"{options.name!r} is {type(net).__name__}; expected a module")
    net = net.to(options.device)
    net.train(options.backward)
    own = _with_gradient(lambda: net(*inputs), options.backward, strata.set_grad_enabled)
    other = None
    if peer.torch is not None:
        try:
            theirs = _with_names_of_torch(peer.torch, options.name)
            theirs.load_state_dict({k: peer.converted(v) for k, v in net.state_dict().items()})
            theirs = theirs.to(peer.device).train(options.backward)
            given = [peer.converted(t) for t in inputs]
            other = _with_gradient(lambda: theirs(*given), options.backward, peer.torch.set_grad_enabled)
        except Exception as error:  # a program that needs more of Strata than PyTorch has
            peer.why = f"PyTorch in its place raised {type(error).__name__}: {error}"
    what = options.name.rpartition(":")[2] + ("" if not options.backward else " and its gradient")
    return [_compared(f"{what} on {', '.join(options.input)}", own, other, peer, options)]


def _shown_seconds(seconds):
    return "" if seconds is None else f"{seconds * 1e6:.2f} us" if seconds < 1e-2 else f"{seconds * 1e3:.2f} ms"


def table(rows, options):
    """The rows as text."""
    head = ("", "strata", "PyTorch", "ratio", "GB/s", "TFLOP/s", "kernels")
    lines = [head]
    for row in rows:
        other = row["peer_seconds"]
        lines.append(
            (
                row["name"],
                _shown_seconds(row["seconds"]),
                _shown_seconds(other),
                f"{other / row['seconds']:.2f}x" if other else "",
                f"{row['gb_per_second']:.2f}",
                f"{row['tflop_per_second']:.3f}" if row["tflop_per_second"] else "",
                ", ".join(row["kernels"][:3]) + (" ..." if len(row["kernels"]) > 3 else ""),
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    shown = [
        "  ".join(v.ljust(w) if i in (0, 6) else v.rjust(w) for i, (v, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ]
    notes = list(dict.fromkeys(row["peer"] for row in rows if row["peer"]))
    text = "\n".join(line.rstrip() for line in shown)
    return f"{text}\n\non {options.device}, the fastest of {_ROUNDS} rounds; a ratio above 1: Strata is faster. {'; '.join(notes)}"


def run(options):
    peer = Peer(options)
    rows = {"op": bench_op, "model": bench_model, "gemm": bench_gemm, "copy": bench_copy}[options.what](options, peer)
    print(json.dumps(rows, indent=2) if options.json else table(rows, options))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="strata bench")
    parser.add_argument("what", choices=["op", "model", "gemm", "copy"])
    parser.add_argument("--name", default="")
    parser.add_argument("--arguments", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--sizes", default="")
    parser.add_argument("--input", action="append", default=[])
    for flag in ("--backward", "--alone", "--json"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args(arguments)
    return finished(lambda: run(options), f"bench {options.what}")


if __name__ == "__main__":
    sys.exit(main())
