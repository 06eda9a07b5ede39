"""Layers of language models beside PyTorch on one GPU: sequences.py [--cases REGEX] [--rounds 7] [--out DIR].

Attention of sequences of different lengths, within windows, and with keys in pages (torch.nn.attention.varlen), and
linear_cross_entropy in chunks on both sides. Where this PyTorch lacks a form, it gets the nearest that it has: shared heads
repeated, keys without pages, logits that exist. See beside.py for how times are measured. "training" is a forward and a
backward pass. FLOP are those of the products that the mathematics needs. Results go to sequences.json and sequences.md.
"""

import inspect
import sys

import beside


def attention(lengths, heads, width, window=(-1, 0), shared=None, training=False, dtype="bfloat16"):
    shared = shared or heads
    seen = 0
    for n in lengths:
        left = n if window[0] < 0 else window[0] + 1
        seen += sum(min(i + 1, left) for i in range(n)) if window[1] == 0 else n * n
    total = sum(lengths)

    def make(side):
        q = side.randn(total, heads, width, dtype=dtype)
        k, v = (side.randn(total, shared, width, dtype=dtype) for _ in range(2))
        g = side.randn(total, heads, width, dtype=dtype)
        starts = side.m.tensor([sum(lengths[:i]) for i in range(len(lengths) + 1)], dtype=side.m.int32, device="cuda")
        attn = __import__(f"{side.m.__name__}.nn.attention.varlen", fromlist=["varlen_attn"]).varlen_attn
        kwargs = {"window_size": window}
        longest = max(lengths)
        if shared != heads:
            if "enable_gqa" in inspect.signature(attn).parameters:
                kwargs["enable_gqa"] = True
            else:
                k, v = (t.repeat_interleave(heads // shared, 1) for t in (k, v))
        if not training:
            return lambda: attn(q, k, v, starts, starts, longest, longest, **kwargs)
        leaves = [t.requires_grad_() for t in (q, k, v)]
        return lambda: side.m.autograd.grad(
            attn(*leaves, starts, starts, longest, longest, **kwargs), leaves, grad_outputs=g
        )

    products = 7 if training else 2
    return 2.0 * products * seen * heads * width, 2 * total * width * (2 * heads + 2 * shared), make


def decoding(sequences, context, heads, shared, width, queries=1, page=16, dtype="bfloat16"):
    pages = -(-context // page)

    def make(side):
        q = side.randn(sequences, queries, heads, width, dtype=dtype)
        k, v = (side.randn(sequences * pages, page, shared, width, dtype=dtype) for _ in range(2))
        table = side.m.randperm(sequences * pages, device="cuda").to(side.m.int32).view(sequences, pages)
        lengths = side.m.full((sequences,), context, dtype=side.m.int32, device="cuda")
        if side.m.__name__ == "strata":
            return lambda: side.m.nn.functional.paged_attention(q, k, v, table, lengths)
        from torch.nn.attention.varlen import varlen_attn

        if "seqused_k" not in inspect.signature(varlen_attn).parameters:
            dense = (t.view(sequences, pages * page, shared, width).transpose(1, 2) for t in (k, v))
            k, v, q = *dense, q.transpose(1, 2)
            return lambda: side.m.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=shared != heads)
        starts = side.m.arange(0, sequences * queries + 1, queries, dtype=side.m.int32, device="cuda")
        rows, kwargs = q.flatten(0, 1), {"enable_gqa": True} if shared != heads else {}
        kwargs |= {"window_size": (-1, 0), "seqused_k": lengths, "block_table": table}
        return lambda: varlen_attn(rows, k, v, starts, None, queries, context, **kwargs)

    return 4.0 * sequences * queries * heads * context * width, 4 * sequences * context * shared * width, make


def loss(rows, features, classes, dtype="bfloat16"):
    def make(side):
        x, w = side.randn(rows, features, dtype=dtype), side.randn(classes, features, dtype=dtype) * features**-0.5
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        target = side.m.randint(0, classes, (rows,), device="cuda")
        options, functions = {}, side.m.nn.functional
        if side.m.__name__ == "torch" and hasattr(side.m.nn, "LinearCrossEntropyOptions"):
            options["options"] = side.m.nn.LinearCrossEntropyOptions(allow_retain_graph=True)
        f = getattr(functions, "linear_cross_entropy", None)  # not in PyTorch before 2.12: the logits exist
        f = f or (lambda x, w, target: functions.cross_entropy(x @ w.t(), target))
        return lambda: side.m.autograd.grad(f(*leaves, target, **options), leaves)

    return 6.0 * rows * features * classes, 2 * (rows + classes) * features * 2, make


MIXED = [2048, 512, 1024, 64, 3000, 777, 128, 639]
CASES = {
    "varlen causal, 8 x 1024, 16 x 64": attention([1024] * 8, 16, 64),
    "varlen causal, mixed to 3000, 16 x 128": attention(MIXED, 16, 128),
    "varlen causal, mixed, 32 x 128, 8 shared": attention(MIXED, 32, 128, shared=8),
    "window 256, 2 x 8192, 16 x 128": attention([8192] * 2, 16, 128, window=(256, 0)),
    "window 1024, 1 x 32768, 16 x 128": attention([32768], 16, 128, window=(1024, 0)),
    "training varlen causal, 8 x 1024, 16 x 64": attention([1024] * 8, 16, 64, training=True),
    "training varlen causal, mixed, 16 x 128": attention(MIXED, 16, 128, training=True),
    "training window 256, 2 x 8192, 16 x 128": attention([8192] * 2, 16, 128, window=(256, 0), training=True),
    "decoding 1 x 32768, 32 heads, 8 shared, 128": decoding(1, 32768, 32, 8, 128),
    "decoding 8 x 8192, 32 heads, 8 shared, 128": decoding(8, 8192, 32, 8, 128),
    "decoding 64 x 2048, 32 heads, 8 shared, 128": decoding(64, 2048, 32, 8, 128),
    "decoding 64 x 2048, 16 heads, 64": decoding(64, 2048, 16, 16, 64),
    "decoding 8 x 8192, 4 queries, 32 heads, 8 shared": decoding(8, 8192, 32, 8, 128, queries=4),
    "decoding 8 x 8192, pages of 256": decoding(8, 8192, 32, 8, 128, page=256),
    "loss 8192 x 768 x 50257 (GPT-2)": loss(8192, 768, 50257),
    "loss 8192 x 768 x 50304": loss(8192, 768, 50304),
    "loss 4096 x 4096 x 128256": loss(4096, 4096, 128256),
}


if __name__ == "__main__":
    sys.exit(beside.main(__doc__, "sequences", "Layers of language models", CASES, [], libraries=[]))
