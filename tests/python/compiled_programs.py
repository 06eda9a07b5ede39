"""Random programs for the tests of strata.compile()."""

import random

import records
import strata


def bits(x):
    """All tensors of a result: dtype, shape, strides and values, which are printed with all their digits."""
    return [(t.dtype, tuple(t.shape), t.stride(), repr(t.detach().tolist())) for t in records.tensors(x)]


def random_program(seed):
    """The shapes of three tensors, and a function of them: pointwise ops, broadcasts, views, writes, sums and products, in random order."""
    shapes = [(6, 8), (6, 8), (8,)]

    def run(*inputs):
        choose = random.Random(seed)  # the same choices in each call
        values = list(inputs)
        kept = []
        for _ in range(choose.randint(3, 25)):
            a, b = choose.choice(values), choose.choice(values)
            kind = choose.randrange(14)
            if kind < 4:
                op = choose.choice(["add", "sub", "mul", "maximum", "atan2", "hypot", "div"])
                made = getattr(strata, op)(a, b)
            elif kind < 7:
                op = choose.choice(["exp", "tanh", "sigmoid", "relu", "abs", "neg", "erf", "cos", "log1p", "sqrt"])
                made = getattr(strata, op)(a.abs() if op in ("log1p", "sqrt") else a)
            elif kind == 7:
                made = a * choose.uniform(-2, 2) + choose.randint(-2, 2)
            elif kind == 8:
                made = strata.where(a > b, a, 0.5)
            elif kind == 9 and a.dim() == 2:
                made = choose.choice([a.t().contiguous().t(), a.t() * 2, a.flip(0)])
                made = made.reshape(6, 8) if made.shape != (6, 8) else made
            elif kind == 10:
                made = (a * 1).clone()
                choose.choice([made.mul_, made.add_, made.sub_])(b if b.shape == made.shape else 2.5)
            elif kind == 11:
                made = a.sum(-1, keepdim=True) * 0.1 + a
            elif kind == 12:
                made = a * 2
                made[..., :3] = made[..., 1:4] * 3
            else:
                made = a.softmax(-1)
            if made.dim() > 2 or made.numel() not in (8, 48):
                continue
            if choose.random() < 0.2:
                kept.append(made)
            if choose.random() < 0.1 and float(made.sum()) > 3:  # a value decides
                made = made - 1
            values[choose.randrange(len(values)) if choose.random() < 0.3 else -1] = made
            values.append(made)
        return kept, values[-1]

    return shapes, run


ROW_FOLDS = ("sum", "mean", "amax", "amin", "norm", "prod", "logsumexp", "var", "argmax", "count_nonzero")
ROW_POINTWISE = ("exp", "tanh", "sigmoid", "relu", "abs", "neg", "square", "cos")


def row_program(seed):
    """A function of x [rows, n] and w [n], the same for each call: steps of elements, steps of rows, writes, views, dropout."""

    def run(x, w):
        choose = random.Random(seed)
        values, stats, kept = [x, x * 0.5], [], []
        for _ in range(choose.randint(3, 18)):
            a, b, kind = choose.choice(values), choose.choice(values), choose.randrange(16)
            if kind < 3:
                made = getattr(strata, choose.choice(("add", "sub", "mul", "maximum")))(a, b)
            elif kind < 5:
                made = getattr(strata, choose.choice(ROW_POINTWISE))(a)
            elif kind == 5:
                made = choose.choice((a * w, a + w, a * choose.uniform(-2, 2)))
            elif kind < 8:
                made = getattr(strata, choose.choice(ROW_FOLDS[:4]))(a, -1, keepdim=True)
                stats.append(made)
                made = choose.choice((a - made, made * b, a / (strata.rsqrt(made * made + 1) * 2 + 0.5)))
            elif kind == 8:
                name = choose.choice(ROW_FOLDS)
                made = getattr(a, name)() if name in ("norm", "prod") else getattr(a, name)(-1)
                kept.append(made)
                continue
            elif kind == 9:
                made = choose.choice((strata.nn.functional.softmax, strata.nn.functional.log_softmax))(
                    a, choose.choice((-1, -1, 0))
                )
            elif kind == 10:
                weight = choose.choice((w, None))
                made = (
                    strata.nn.functional.layer_norm(a, w.shape, weight, w)
                    if choose.random() < 0.5
                    else strata.nn.functional.rms_norm(a, w.shape, weight)
                )
            elif kind == 11:
                made = strata.nn.functional.dropout(a, 0.3)
            elif kind == 12:
                form = choose.randrange(3)
                made = (a.t() * 2).t() if form == 0 else a.clone().mul_(b) if form == 1 else (a * 1).add_(w)
            elif kind == 13 and stats:
                made = a * choose.choice(stats) + choose.choice(stats)
            elif kind == 14:
                made = a * 2
                made[:, :1] = b[:, :1] * 3
            else:
                fold = choose.choice((a.sum, a.mean, a.amax))
                kept.append(fold() if choose.random() < 0.5 else fold(0))
                continue
            values.append(made)
            if choose.random() < 0.2:
                kept.append(choose.choice(values))
        return kept, values[-1]

    return run


def trained_network(wrap, device="cpu", steps=10):
    """Losses and parameters after some training steps, each of which wrap() may compile."""
    strata.manual_seed(3)
    nn = strata.nn
    net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 2)).to(device)
    net = wrap(net)
    optimizer = strata.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        x = strata.randn(16, 8, device=device)

        def step(x=x):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            return loss

        losses.append(wrap(step)())
    return losses, [p.detach() for p in net.parameters()]


def with_gradients(run):
    """The program of two tensors that calls `run`, and returns a loss of all that it keeps and the gradients of both."""

    def train(x, w):
        leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
        kept, last = run(*leaves)
        floats = [k.mean() for k in [*kept, last] if k.is_floating_point()]
        loss = sum(floats[1:], floats[0])
        if loss.requires_grad:
            loss.backward()
        return loss, [t.grad for t in leaves if t.grad is not None]

    return train


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and a.requires_grad == b.requires_grad
    return strata.equal(*(t.detach().reshape(-1).view(strata.uint8) for t in (a, b)))
