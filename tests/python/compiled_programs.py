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
