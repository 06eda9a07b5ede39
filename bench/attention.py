"""Attention beside PyTorch on one GPU: attention.py [--cases REGEX] [--rounds 7] [--out DIR].

See beside.py for how times are measured; here the inputs are the same in each call. They are views of a projection ([batch, time, 3,
heads, width]), as in a transformer. The backward pass computes the gradients of query, key and value. PyTorch chooses its kernel
itself. FLOP are those of the products that the mathematics needs: 2 forward, 5 backward, half of them with causal attention.
Results go to attention.json and attention.md.
"""

import statistics
import sys
import time

import beside


def case(batch, heads, length, width, causal=True, dtype="bfloat16", keys=None):
    products = batch * heads * length * (keys or length) * width * 2 * (0.5 if causal else 1)
    return dict(shape=(batch, heads, length, keys or length, width), causal=causal, dtype=dtype, products=products)


CASES = {
    "bf16 8x16x2048x64, causal": case(8, 16, 2048, 64),
    "bf16 4x16x4096x128, causal": case(4, 16, 4096, 128),
    "bf16 32x12x1024x64, causal (GPT-2)": case(32, 12, 1024, 64),
    "bf16 8x12x1024x64, causal": case(8, 12, 1024, 64),
    "bf16 4x16x4096x128": case(4, 16, 4096, 128, causal=False),
    "bf16 8x16x2048x64": case(8, 16, 2048, 64, causal=False),
    "f16 4x32x2048x128, causal": case(4, 32, 2048, 128, dtype="float16"),
    "bf16 1x32x16384x128, causal": case(1, 32, 16384, 128),
    "bf16 8x16x512x128": case(8, 16, 512, 128, causal=False),
    "bf16 2x32x1000x80, causal": case(2, 32, 1000, 80),
    "bf16 16x8x777x96": case(16, 8, 777, 96, causal=False),
    "bf16 64x12x197x64 (ViT)": case(64, 12, 197, 64, causal=False),
    "bf16 4x16x1024x64, 77 keys": case(4, 16, 1024, 64, causal=False, keys=77),
}


class AttentionSide(beside.Side):
    """The forward and the backward pass of one library, as functions without arguments."""

    def calls(self, c):
        batch, heads, length, keys, width = c["shape"]
        if length == keys:
            x = self.randn(batch, length, 3, heads, width, dtype=c["dtype"])
            q, k, v = (x[:, :, i].transpose(1, 2) for i in range(3))
        else:
            q, k, v = (
                self.randn(batch, n, heads, width, dtype=c["dtype"]).transpose(1, 2) for n in (length, keys, keys)
            )
        g = self.randn(batch, length, heads, width, dtype=c["dtype"]).transpose(1, 2)
        attention = self.m.nn.functional.scaled_dot_product_attention
        leaves = [t.detach().requires_grad_() for t in (q, k, v)]
        result = attention(*leaves, is_causal=c["causal"])
        return {
            "forward": lambda: attention(q, k, v, is_causal=c["causal"]),
            "backward": lambda: self.m.autograd.grad([result], leaves, [g], retain_graph=True),
        }

    def recorded_parts(self, c, counts):
        """Replays of the forward and the backward pass; a backward pass runs on the stream of its forward pass."""
        side, replays = self.gpu.Stream(), {}
        side.wait_stream(self.gpu.current_stream())
        with self.gpu.stream(side):
            self.keep = self.calls(c)
            for f in self.keep.values():
                f()
        self.gpu.synchronize()
        for part, f in self.keep.items():
            graph = self.gpu.CUDAGraph()
            with self.gpu.graph(graph, stream=side):
                for _ in range(counts[part]):
                    f()
            replays[part] = graph.replay
        return replays


def run_case(name, c, sides, rounds):
    flops = {"forward": 2 * c["products"], "backward": 5 * c["products"]}
    counts = {part: max(3, min(40, int(4e-3 / (n / 300e12)))) for part, n in flops.items()}
    replays = [s.recorded_parts(c, counts) for s in sides]
    row = dict(case=name)
    for part, count in counts.items():
        times = [[] for _ in sides]
        for _ in range(rounds):
            for s, replay, t in zip(sides, replays, times, strict=True):
                s.seconds(replay[part], count)  # clocks and queues as in steady work
                t.append(s.seconds(replay[part], count))
                time.sleep(0.02)
        r = row[part] = dict(flops=flops[part], strata=statistics.median(times[0]))
        r["entry"] = beside.chosen_kernel(sides[0].keep[part])
        if len(sides) > 1:
            r["torch"] = statistics.median(times[1])
            r["ratio"] = r["torch"] / r["strata"]
    return row


def columns(r):
    shown = [f"{r['strata'] * 1e6:.1f} us", f"{r['flops'] / r['strata'] / 1e12:.0f}"]
    return shown + ([f"{r['torch'] * 1e6:.1f} us", f"{r['ratio']:.2f}x"] if "ratio" in r else ["", ""])


def shown(row, _entries):
    if "error" in row:
        return f"{row['case']:<36} failed: {row['error'][:300]}"
    return f"{row['case']:<36} " + "   ".join(
        f"{part} {' '.join(columns(row[part]))}" for part in ("forward", "backward")
    )


def markdown(result, title, script):
    versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
    lines = [
        f"# {title}: {result['device']}",
        "",
        f"{result['date']}; {versions}; `bench/{script}.py`: device time in replayed graphs, medians of interleaved rounds. TFLOP/s count 2 products forward and 5 "
        "backward, half of each with causal attention. PyTorch chooses its kernel itself.",
        "",
        "| batch x heads x length x width | forward | TFLOP/s | PyTorch | ratio | backward | TFLOP/s | PyTorch | ratio | kernel |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        if "error" in r:
            lines.append(f"| {r['case']} | failed: {r['error']} | | | | | | | | |")
        else:
            cells = [r["case"], *columns(r["forward"]), *columns(r["backward"]), r["forward"]["entry"]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parts = dict(side=AttentionSide, run=run_case, shown=shown, markdown=markdown)
    sys.exit(beside.main(__doc__, "attention", "Attention", CASES, [], libraries=[], **parts))
