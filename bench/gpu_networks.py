"""Training and inference of whole networks on one GPU beside PyTorch: gpu_networks.py [--cases REGEX] [--rounds 5] [--graph] [--compile] [--replay] [--out DIR].

Both libraries run the same code in this process and are timed in turn, round by round, by events around several steps. Eager calls, so
the host's time counts where it is the longer one; --graph replays a recorded step instead. The peak of allocated memory is each
library's own.
"""

import argparse
import datetime
import gc
import json
import math
import pathlib
import platform
import re
import statistics
import sys

import beside
import strata

CASES = {}
OPTIONS = argparse.Namespace(graph=False, compile=False, replay=False)


def case(name, floor, steps=5):
    def register(f):
        CASES[name] = dict(make=f, floor=floor, steps=steps)
        return f

    return register


def adam(m, net, kind="Adam"):
    return getattr(m.optim, kind)(net.parameters(), lr=1e-4, fused=True, capturable=OPTIONS.graph or OPTIONS.replay)


def trainer(m, net, loss_of, optimizer):
    def step():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


# --- GPT-2 ---------------------------------------------------------------------------------------------------------------
def gpt2(m, layers, width, heads, vocabulary, length):
    """The network of GPT-2, with the output layer tied to the embedding."""
    nn, f = m.nn, m.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, time, _ = x.shape
            q, k, v = self.attend(self.first(x)).split(width, 2)
            q, k, v = (t.view(batch, time, heads, width // heads).transpose(1, 2) for t in (q, k, v))
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
            return x + self.narrow(f.gelu(self.widen(self.second(x)), approximate="tanh"))

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(m.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            return f.linear(self.norm(x), self.words.weight)

    return Network()


def train_gpt2(m, batch, length=1024):
    net = gpt2(m, 12, 768, 12, 50257, length).to("cuda", m.bfloat16)
    tokens = m.randint(0, 50257, (batch, length + 1), device="cuda")
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    if OPTIONS.compile and m is not strata:
        net = m.compile(net)
    return trainer(m, net, lambda: m.nn.functional.cross_entropy(net(x).view(-1, 50257), y), adam(m, net, "AdamW"))


@case("GPT-2 124M train, bf16, 32 x 1024 tokens", 1.2, steps=2)
def _(m):
    return train_gpt2(m, 32)


@case("GPT-2 124M train, bf16, 8 x 1024 tokens", 1.2, steps=3)
def _(m):
    return train_gpt2(m, 8)


# --- ResNet-50 -----------------------------------------------------------------------------------------------------------
def resnet50(m):
    nn = m.nn

    def norm_of(convolution):
        return nn.BatchNorm2d(convolution.out_channels)

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.a = nn.Conv2d(inputs, width, 1, bias=False)
            self.b = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.c = nn.Conv2d(width, 4 * width, 1, bias=False)
            self.na, self.nb, self.nc = norm_of(self.a), norm_of(self.b), norm_of(self.c)
            self.relu, self.shortcut = nn.ReLU(inplace=True), None
            if stride != 1 or inputs != 4 * width:
                way = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
                self.shortcut = nn.Sequential(way, norm_of(way))

        def forward(self, x):
            y = self.relu(self.na(self.a(x)))
            y = self.relu(self.nb(self.b(y)))
            y = self.nc(self.c(y))
            y += x if self.shortcut is None else self.shortcut(x)
            return self.relu(y)

    first = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    layers = [first, norm_of(first), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def images(m, batch):
    return m.randn(batch, 3, 224, 224, device="cuda").to(m.bfloat16).contiguous(memory_format=m.channels_last)


def train_resnet(m, batch):
    net = resnet50(m).to("cuda", m.bfloat16).to(memory_format=m.channels_last)
    x, y = images(m, batch), m.randint(0, 1000, (batch,), device="cuda")
    optimizer = m.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
    return trainer(m, net, lambda: m.nn.functional.cross_entropy(net(x), y), optimizer)


def infer_resnet(m, batch):
    net, x = resnet50(m).to("cuda", m.bfloat16).to(memory_format=m.channels_last).eval(), images(m, batch)

    def run():
        with m.inference_mode():
            return net(x)

    return run


@case("ResNet-50 train, bf16, batch 64", 1.1)
def _(m):
    return train_resnet(m, 64)


@case("ResNet-50 train, bf16, batch 256", 1.1, steps=2)
def _(m):
    return train_resnet(m, 256)


@case("ResNet-50 inference, bf16, batch 1", 3.0, steps=20)
def _(m):
    return infer_resnet(m, 1)


@case("ResNet-50 inference, bf16, batch 64", 1.2, steps=10)
def _(m):
    return infer_resnet(m, 64)


# --- small networks ------------------------------------------------------------------------------------------------------
def lstm(m, train):
    net = m.nn.LSTM(128, 512, 2, batch_first=True).to("cuda")
    x = m.randn(64, 128, 128, device="cuda")
    if train:
        return trainer(m, net, lambda: net(x)[0].square().mean(), adam(m, net))

    def run():
        with m.inference_mode():
            return net(x)[0]

    return run


@case("LSTM train, f32, 64 x 128 x 128, hidden 512, 2 layers", 1.5)
def _(m):
    return lstm(m, True)


@case("LSTM inference, f32, 64 x 128 x 128, hidden 512, 2 layers", 1.0)
def _(m):
    return lstm(m, False)


@case("small CNN train, f32, batch 128", 3.0, steps=20)
def _(m):
    nn = m.nn
    parts = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    net = nn.Sequential(*parts, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)).to(
        "cuda"
    )
    x, y = m.randn(128, 1, 28, 28, device="cuda"), m.randint(0, 10, (128,), device="cuda")
    return trainer(m, net, lambda: nn.functional.cross_entropy(net(x), y), adam(m, net))


def seconds(m, step, count):
    begin, end = m.cuda.Event(enable_timing=True), m.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / count


def recorded(m, step):
    """A replay of one recorded step."""
    side = m.cuda.Stream()
    side.wait_stream(m.cuda.current_stream())
    with m.cuda.stream(side):
        for _ in range(3):
            step()
    m.cuda.synchronize()
    graph = m.cuda.CUDAGraph()
    with m.cuda.graph(graph):
        step()
    return graph.replay


def run_case(name, case, modules, rounds, graph):
    row, steps, times = dict(case=name, floor=case["floor"]), {}, {m.__name__: [] for m in modules}
    for m in modules:
        m.manual_seed(0)
        m.cuda.reset_peak_memory_stats()
        before = m.cuda.memory_allocated()
        step = case["make"](m)
        if OPTIONS.replay and m is strata:
            step = strata.compile(step, replay=True)
        steps[m.__name__] = step
        for _ in range(140 if OPTIONS.replay else 3):  # calls 2, 4, ..., 128 are audits, which cost more
            step()
        m.cuda.synchronize()
        row[f"{m.__name__}_memory"] = m.cuda.max_memory_allocated() - before
        if graph:
            steps[m.__name__] = recorded(m, step)
    for _ in range(rounds):
        for m in modules:
            seconds(m, steps[m.__name__], 1)
            times[m.__name__].append(seconds(m, steps[m.__name__], case["steps"]))
    for key, taken in times.items():
        row[key], row[f"{key}_spread"] = statistics.median(taken), max(taken) / min(taken)
    if "torch" in row:
        row["ratio"] = row["torch"] / row["strata"]
    return row


def shown(row):
    text = f"{row['case']:<58} {row['strata'] * 1e3:9.3f} ms {row['strata_memory'] / 2**30:6.2f} GiB"
    if "ratio" in row:
        text += f"   torch {row['torch'] * 1e3:9.3f} ms {row['torch_memory'] / 2**30:6.2f} GiB   {row['ratio']:5.2f}x (floor {row['floor']})"
    return text


def markdown(result):
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [
        f"# Networks: {result['device']}",
        "",
        f"{result['date']}; {versions}; `bench/gpu_networks.py{' --graph' * OPTIONS.graph}{' --compile' * OPTIONS.compile}{' --replay' * OPTIONS.replay}`: medians of interleaved rounds.",
        "",
        "| case | Strata | memory | PyTorch | memory | ratio | floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        if "error" in r:
            lines.append(f"| {r['case']} | failed: {r['error']} | | | | | |")
            continue
        peer = (
            [f"{r['torch'] * 1e3:.3f} ms", f"{r['torch_memory'] / 2**30:.2f} GiB", f"{r['ratio']:.2f}x"]
            if "ratio" in r
            else [""] * 3
        )
        lines.append(
            f"| {r['case']} | {r['strata'] * 1e3:.3f} ms | {r['strata_memory'] / 2**30:.2f} GiB | {' | '.join(peer)} | {r['floor']} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="regular expression on the case's name")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graph", action="store_true", help="replay a recorded step instead of calling it")
    parser.add_argument("--replay", action="store_true", help="compile our steps with replay=True")
    parser.add_argument("--compile", action="store_true", help="torch.compile the GPT-2 of PyTorch")
    parser.add_argument("--out", default=str(beside.HERE / "results"))
    args = parser.parse_args(namespace=OPTIONS)
    if not strata.cuda.is_available():
        print(f"gpu_networks.py: there is no GPU: {strata.cuda.why_not()}", file=sys.stderr)
        return 3
    modules, versions = [strata], {"strata": strata.__version__, "python": platform.python_version()}
    try:
        import torch

        torch.backends.cudnn.allow_tf32 = False  # as in Strata
        modules.append(torch)
        versions["torch"] = torch.__version__
    except ImportError:
        print("PyTorch is not installed: our own figures only")
    versions |= {f["name"]: f["version"] for f in strata.cuda.libraries() if f["name"] in ("cublasLt", "cudnn")}
    result = dict(
        date=datetime.date.today().isoformat(),
        device=strata.cuda.get_device_name(),
        versions=versions,
        rows=[],
    )
    for name, case in CASES.items():
        if not re.search(args.cases, name):
            continue
        try:
            row = run_case(name, case, modules, args.rounds, args.graph)
            print(shown(row), flush=True)
        except (RuntimeError, NotImplementedError, TypeError, ValueError) as e:
            row = dict(case=name, error=f"{type(e).__name__}: {e}")
            print(f"{name}: {row['error'][:300]}", flush=True)
        result["rows"].append(row)
        gc.collect()
        for m in modules:
            m.cuda.empty_cache()
    ratios = [r["ratio"] for r in result["rows"] if "ratio" in r]
    if ratios:
        print(f"{len(ratios)} cases, geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x")
    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    name = (
        "gpu_networks"
        + ("_graph" if args.graph else "")
        + ("_compile" if args.compile else "")
        + ("_replay" if args.replay else "")
    )
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    (folder / f"{name}.md").write_text(markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
