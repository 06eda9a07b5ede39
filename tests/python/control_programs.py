"""Random programs with control flow inside each other, and the plain Python that they must agree with."""

import random

import strata


class Plain:
    """What the functions mean, in plain Python."""

    @staticmethod
    def cond(pred, true_fn, false_fn, operands=()):
        return (true_fn if pred else false_fn)(*operands)

    @staticmethod
    def while_loop(cond_fn, body_fn, carried):
        while cond_fn(*carried):
            carried = body_fn(*carried)
        return tuple(carried)

    @staticmethod
    def scan(combine_fn, init, xs, *, dim=0, reverse=False):
        slices = list(zip(*(x.unbind(dim) for x in xs), strict=True))
        carry, rows = init, []
        for x in reversed(slices) if reverse else slices:
            carry, y = combine_fn(carry, x)
            rows.append(y)
        if reverse:
            rows.reverse()
        return carry, tuple(strata.stack(y, dim) for y in zip(*rows, strict=True))


class Program:
    """A function of three tensors of `shape`, the same in each call. With draws, some ops are random."""

    def __init__(self, seed, shape=(3, 4), draws=True, dtype=strata.float32, device="cpu"):
        self.seed, self.shape, self.draws = seed, shape, draws
        self.weight = strata.linspace(-1, 1, shape[-1], dtype=dtype, device=device)
        self.options = {"dtype": dtype, "device": device}

    def inputs(self, seed):
        generator = random.Random(seed)
        return [
            strata.tensor(
                [[generator.uniform(-2, 2) for _ in range(self.shape[1])] for _ in range(self.shape[0])], **self.options
            )
            for _ in range(3)
        ]

    def run(self, flow, *inputs):
        self.choose = random.Random(self.seed)
        self.flow = flow
        values = self.block(list(inputs), 0, self.choose.randint(3, 6))
        return values[-3:]

    def block(self, values, depth, count):
        """More values of the same shape, computed from these."""
        values = list(values)
        for _ in range(count):
            kind = self.choose.random()
            if depth > 2 or kind < 0.5:
                values.append(self.op(values))
            elif kind < 0.7:
                values.extend(self.branch(values, depth))
            elif kind < 0.85:
                values.extend(self.loop(values, depth))
            elif values[0].dim() == 2:
                values.extend(self.scan(values, depth))
        return values

    def pick(self, values):
        return self.choose.choice(values)

    def op(self, values):
        a, b = self.pick(values), self.pick(values)
        kind = self.choose.randrange(12 if self.draws else 11)
        if kind < 3:
            return getattr(strata, self.choose.choice(["sin", "tanh", "sigmoid", "cos", "atan"]))(a)
        if kind < 5:
            return getattr(strata, self.choose.choice(["add", "sub", "mul", "maximum"]))(a, b)
        if kind == 5:
            return a * self.choose.uniform(-1.5, 1.5) + self.choose.randint(-1, 1)
        if kind == 6:
            made = a.clone()
            made[..., :2].mul_(0.5)
            made.add_(b)
            return made
        if kind == 7:
            return a + self.weight.sum() if a.shape[-1] != self.weight.shape[0] else a * self.weight
        if kind == 8:
            return strata.zeros(a.shape, **self.options) + b.flip(0) - self.constant()
        if kind == 9:
            return strata.where(a > b, a, 0.5)
        if kind == 10:
            return a.softmax(-1) + b.mean()
        return a + strata.rand(a.shape, **self.options)

    def constant(self):
        return strata.ones(3, **self.options).cumsum(0)[self.choose.randrange(3)]

    def results(self, values, count, given):
        """Some values of a function, which may be its arguments, one twice, or views."""
        made = []
        for _ in range(count):
            kind = self.choose.random()
            if kind < 0.1:
                made.append(self.pick(given))
            elif kind < 0.2 and values[-1].dim() == 2:
                made.append(values[-1].t().contiguous().t().clone(memory_format=strata.contiguous_format))
            else:
                made.append(self.pick(values[-2:]))
        return tuple(made)

    def branch(self, values, depth):
        operands = tuple(self.pick(values) for _ in range(self.choose.randint(0, 2)))
        count, bound = self.choose.randint(1, 2), self.choose.uniform(-2, 2)
        pred = self.pick(values).sum() > bound
        seeds = self.choose.random(), self.choose.random()

        def branch(seed):
            def function(*given):
                return self.inside(seed, lambda: self.body([*values, *given], depth, count))

            return function

        return self.flow.cond(pred, branch(seeds[0]), branch(seeds[1]), operands)

    def body(self, values, depth, count, given=None):
        made = self.block(values, depth + 1, self.choose.randint(1, 3))
        return self.results(made, count, given or values)

    def inside(self, seed, function):
        """A function makes the same choices in each call, whichever functions ran before."""
        before, self.choose = self.choose, random.Random(seed)
        try:
            return function()
        finally:
            self.choose = before

    def loop(self, values, depth):
        start = tuple(self.pick(values) for _ in range(self.choose.randint(1, 2)))
        trips, seed, bound = self.choose.randint(0, 3), self.choose.random(), self.choose.uniform(5, 60)
        device = self.options["device"]

        def go_on(i, *now):
            return (i < trips) & (now[0].abs().sum() < bound)

        def body(i, *now):
            made = self.inside(seed, lambda: self.body([*values, *now], depth, len(now), now))
            return (i + 1, *made)

        return self.flow.while_loop(go_on, body, (strata.zeros((), dtype=strata.int64, device=device), *start))[1:]

    def scan(self, values, depth):
        dim, reverse, seed = self.choose.randrange(2), self.choose.random() < 0.5, self.choose.random()
        xs = tuple(self.pick(values) for _ in range(self.choose.randint(1, 2)))
        init = (self.pick(values).select(dim, 0),)

        def combine(carry, x):
            def run():
                made = self.block([*carry, *x], depth + 1, self.choose.randint(1, 3))
                return (self.pick(made[-2:]),), self.results(made, 1, list(x))

            return self.inside(seed, run)

        return self.flow.scan(combine, init, xs, dim=dim, reverse=reverse)[1]
