"""The network rows: training steps and inference with functions of both libraries, so that the same code runs with both.

A case takes the module and a memory format (None: the default) and returns a callable to time, which returns the values to compare:
the loss and gradients, or the output. The peer runs in each of the case's formats; the best one counts.
"""

import math

CASES = {}
LAYOUTS = ("contiguous_format", "channels_last")


def case(name, floor, layouts=(None,), memory=False):
    """layouts: memory formats to try with the peer. memory: compare its peak too."""

    def register(f):
        CASES[name] = dict(make=f, floor=floor, layouts=layouts, memory=memory, inner=1)
        return f

    return register


class Maker:
    """Normal numbers, the same for both libraries."""

    def __init__(self, m, layout=None):
        import numpy as np

        self.m, self.layout, self.draw = m, layout, np.random.default_rng(0)

    def __call__(self, *shape, scale=1.0):
        t = self.m.from_numpy((self.draw.standard_normal(shape) * scale).astype("float32"))
        if self.layout and len(shape) == 4:
            t = t.to(memory_format=getattr(self.m, self.layout))
        return t

    def integers(self, high, *shape):
        return self.m.from_numpy(self.draw.integers(0, high, shape))

    def parameter(self, *shape, scale=1.0):
        return self(*shape, scale=scale).requires_grad_()

    def linear(self, inputs, outputs, bias=True):
        bound = inputs**-0.5
        return self.parameter(outputs, inputs, scale=bound), self.parameter(outputs, scale=bound) if bias else None


def trainer(m, parameters, loss_of):
    """One training step; returns the loss and the gradient of the first parameter, for the comparison of the first step."""
    optimizer = m.optim.Adam(parameters, lr=1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach(), parameters[0].grad, parameters[-1].grad

    return step


def predictor(m, output_of):
    def run():
        with m.inference_mode():
            return (output_of(),)

    return run


# --- the small CNN -----------------------------------------------------------------------------------------------------
def small_cnn(m, layout, batch):
    f, new = m.nn.functional, Maker(m, layout)
    x, target = new(batch, 1, 28, 28), new.integers(10, batch)
    c1, b1 = new.parameter(32, 1, 3, 3, scale=1 / 3), new.parameter(32, scale=0.3)
    c2, b2 = new.parameter(64, 32, 3, 3, scale=1 / 17), new.parameter(64, scale=0.06)
    (w1, d1), (w2, d2) = new.linear(3136, 128), new.linear(128, 10)

    def logits():
        h = f.max_pool2d(f.relu(f.conv2d(x, c1, b1, padding=1)), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, c2, b2, padding=1)), 2)
        return f.linear(f.relu(f.linear(h.flatten(1), w1, d1)), w2, d2)

    return logits, lambda: f.cross_entropy(logits(), target), [c1, b1, c2, b2, w1, d1, w2, d2]


@case("small CNN train step, batch 128", 1.5, LAYOUTS, memory=True)
def _(m, layout):
    _, loss, parameters = small_cnn(m, layout, 128)
    return trainer(m, parameters, loss)


@case("small CNN train step, batch 1", 3.0, LAYOUTS)
def _(m, layout):
    _, loss, parameters = small_cnn(m, layout, 1)
    return trainer(m, parameters, loss)


@case("small CNN inference, batch 128", 1.8, LAYOUTS)
def _(m, layout):
    return predictor(m, small_cnn(m, layout, 128)[0])


@case("small CNN inference, batch 1", 1.8, LAYOUTS)
def _(m, layout):
    return predictor(m, small_cnn(m, layout, 1)[0])


# --- LSTM --------------------------------------------------------------------------------------------------------------
def lstm(m):
    new = Maker(m)
    x, state = new(16, 64, 128), (m.zeros(2, 16, 256), m.zeros(2, 16, 256))
    weights = [
        new.parameter(*shape, scale=1 / 16)
        for inputs in (128, 256)
        for shape in ((1024, inputs), (1024, 256), (1024,), (1024,))
    ]
    return lambda: m.lstm(x, state, weights, True, 2, 0.0, True, False, True)[0], weights


@case("LSTM 16x64x128, hidden 256, 2 layers, forward", 1.2)
def _(m, layout):
    return predictor(m, lstm(m)[0])


@case("LSTM 16x64x128, hidden 256, 2 layers, train", 1.2)
def _(m, layout):
    run, weights = lstm(m)

    def step():
        for w in weights:
            w.grad = None
        loss = run().square().mean()
        loss.backward()
        return loss.detach(), weights[0].grad, weights[-1].grad

    return step


# --- a character-level GPT of 10.7 million parameters -----------------------------------------------------------------
@case("GPT 10M train step, B8 T256", 1.2, memory=True)
def _(m, layout):
    f, new = m.nn.functional, Maker(m)
    batch, time, width, heads, vocabulary = 8, 256, 384, 6, 65
    tokens, target = new.integers(vocabulary, batch, time), new.integers(vocabulary, batch * time)
    positions = m.arange(time)
    table, places = new.parameter(vocabulary, width, scale=0.02), new.parameter(time, width, scale=0.02)
    ones = lambda: (m.ones(width).requires_grad_(), m.zeros(width).requires_grad_())  # noqa: E731
    blocks = [
        (
            *ones(),
            *new.linear(width, 3 * width),
            *new.linear(width, width),
            *ones(),
            *new.linear(width, 4 * width),
            *new.linear(4 * width, width),
        )
        for _ in range(6)
    ]
    last, head = ones(), new.linear(width, vocabulary, bias=False)[0]

    def split(t):
        return t.view(batch, time, heads, width // heads).transpose(1, 2)

    def loss():
        x = f.embedding(tokens, table) + f.embedding(positions, places)
        for g1, s1, wa, ba, wp, bp, g2, s2, wf, bf, wo, bo in blocks:
            q, k, v = f.linear(f.layer_norm(x, (width,), g1, s1), wa, ba).split(width, dim=2)
            y = f.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
            x = x + f.linear(y.transpose(1, 2).reshape(batch, time, width), wp, bp)
            x = x + f.linear(f.gelu(f.linear(f.layer_norm(x, (width,), g2, s2), wf, bf)), wo, bo)
        logits = f.linear(f.layer_norm(x, (width,), *last), head)
        return f.cross_entropy(logits.view(batch * time, vocabulary), target)

    return trainer(m, [table, places, *(p for block in blocks for p in block), *last, head], loss)


# --- ResNet-50 ---------------------------------------------------------------------------------------------------------
def resnet50(m, layout, batch):
    f, new = m.nn.functional, Maker(m, layout)

    def conv_norm(inputs, outputs, kernel, stride=1):
        w = new(outputs, inputs, kernel, kernel, scale=math.sqrt(2 / (inputs * kernel * kernel)))
        mean, var = new(outputs, scale=0.1), new(outputs, scale=0.1).square() + 1
        gain, shift = new(outputs, scale=0.1) + 0.5, new(outputs, scale=0.1)
        return lambda x: f.batch_norm(
            f.conv2d(x, w, None, stride, kernel // 2), mean, var, gain, shift, False, 0.1, 1e-5
        )

    def bottleneck(inputs, width, stride):
        one, two, three = (
            conv_norm(inputs, width, 1),
            conv_norm(width, width, 3, stride),
            conv_norm(width, 4 * width, 1),
        )
        side = conv_norm(inputs, 4 * width, 1, stride) if inputs != 4 * width else None

        def run(x):
            h = three(f.relu(two(f.relu(one(x)))))
            return f.relu(h + (side(x) if side else x))

        return run

    stem, blocks, inputs = conv_norm(3, 64, 7, 2), [], 64
    for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(count):
            blocks.append(bottleneck(inputs, width, 2 if i == 0 and width > 64 else 1))
            inputs = 4 * width
    weight, bias = new(1000, 2048, scale=2048**-0.5), new(1000)
    x = new(batch, 3, 224, 224)

    def run():
        h = f.max_pool2d(f.relu(stem(x)), 3, 2, 1)
        for block in blocks:
            h = block(h)
        return f.linear(f.adaptive_avg_pool2d(h, 1).flatten(1), weight, bias)

    return run


@case("ResNet-50 inference, batch 1", 1.3, LAYOUTS)
def _(m, layout):
    return predictor(m, resnet50(m, layout, 1))


@case("ResNet-50 inference, batch 8", 1.3, LAYOUTS)
def _(m, layout):
    return predictor(m, resnet50(m, layout, 8))
