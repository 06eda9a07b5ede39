"""The CPU rows: one function per case, written against PyTorch's names, so that the same code runs with both libraries.

A case takes the module and returns a callable to time. `floor` is the required ratio (peer's time / our time).
"""

import functools

CASES = {}


def case(name, floor, inner=1):
    """inner: calls per timing, for very short calls."""

    def register(f):
        CASES[name] = dict(make=f, floor=floor, inner=inner)
        return f

    return register


def _input(m, *shape, seed=0):
    import numpy as np

    return m.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def _sgemm(n, m):
    a, b = _input(m, n, n), _input(m, n, n, seed=1)
    return lambda: a @ b


for _n, _floor in ((32, 3.0), (64, 1.0), (128, 1.0), (512, 1.0), (2048, 1.0)):
    case(f"sgemm {_n}", _floor, inner=max(1, 4000 // (_n * _n // 16)))(functools.partial(_sgemm, _n))


@case("bf16 gemm 2048", 1.0)
def _(m):
    a, b = _input(m, 2048, 2048).to(m.bfloat16), _input(m, 2048, 2048, seed=1).to(m.bfloat16)
    return lambda: a @ b


@case("softmax 64 MB", 5.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: m.softmax(x, 1)


@case("layer norm 64 MB", 5.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: m.nn.functional.layer_norm(x, (4096,))


@case("GELU 64 MB", 5.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: m.nn.functional.gelu(x)


@case("exp 64 MB", 5.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: m.exp(x)


@case("exp 64 MB, out=", 0.95)
def _(m):
    x, out = _input(m, 4096, 4096), m.empty(4096, 4096)
    return lambda: m.exp(x, out=out)


@case("a + b 64 MB, out=", 0.95)
def _(m):
    a, b, out = _input(m, 4096, 4096), _input(m, 4096, 4096, seed=1), m.empty(4096, 4096)
    return lambda: m.add(a, b, out=out)


@case("transpose 4096x4096", 4.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: x.t().contiguous()


@case("sum dim 0 of 4096x4096", 1.2)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: x.sum(0)


@case("argmax rows of 4096x4096", 1.2)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: x.argmax(1)


@case("sort rows of 4096x4096", 1.2)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: x.sort(1)


@case("GELU(x*1.5+0.3)*x eager, 64 MB", 1.0)
def _(m):
    x = _input(m, 4096, 4096)
    return lambda: m.nn.functional.gelu(x * 1.5 + 0.3) * x


@case("Python a + b, 16 elements", 5.0, inner=2000)
def _(m):
    a, b = _input(m, 16), _input(m, 16, seed=1)
    return lambda: a + b


@case("(a*a).sum().backward(), 16 elements", 12.5, inner=200)
def _(m):
    a = _input(m, 16).requires_grad_()

    def run():
        a.grad = None
        (a * a).sum().backward()

    return run


@case("empty(1000)", 5.0, inner=2000)
def _(m):
    return lambda: m.empty(1000)


def _adamw(m, **how):
    """One step over 16M parameters in 40 tensors, like the weights of a network."""
    params = [_input(m, 400, 1000, seed=i).requires_grad_() for i in range(40)]
    for i, p in enumerate(params):
        p.grad = _input(m, 400, 1000, seed=100 + i)
    optimizer = m.optim.AdamW(params, lr=1e-3, **how)

    def run():
        optimizer.step()
        return params[0].detach()

    return run


@case("AdamW 16M parameters", 1.0)
def _(m):
    return _adamw(m, fused=True)


@case("AdamW 16M parameters, PyTorch not fused", 1.0)
def _(m):
    return _adamw(m)


def _graph(m):
    """A sparse matrix of 20,000 rows with 20 elements in each."""
    import numpy as np

    numbers = np.random.default_rng(0)
    places = numbers.integers(0, 20000, (2, 400000))
    values = numbers.standard_normal(400000).astype("float32")
    return m.sparse_coo_tensor(m.from_numpy(places), m.from_numpy(values), (20000, 20000))


@case("sparse @ dense, compressed rows", 1.0)
def _(m):
    a, b = _graph(m).coalesce().to_sparse_csr(), _input(m, 20000, 64)
    return lambda: a @ b


@case("sparse @ dense, coordinates", 1.0)
def _(m):
    a, b = _graph(m).coalesce(), _input(m, 20000, 64)
    return lambda: a @ b


@case("coalesce 400,000 coordinates", 1.0)
def _(m):
    a = _graph(m)
    return lambda: m.sparse_coo_tensor(a._indices(), a._values(), a.shape).coalesce().values()


@case("exported program of 20 small ops", 1.5, inner=50)
def _(m):
    import importlib

    nn = m.nn
    net = nn.Sequential(*[layer for _ in range(10) for layer in (nn.Linear(16, 16), nn.ReLU())]).eval()
    with m.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(_input(m, *p.shape, seed=i) / 4)
    x = _input(m, 1, 16)
    program = importlib.import_module(f"{m.__name__}.export").export(net, (x,)).module()

    def run():
        with m.no_grad():
            return program(x)

    return run
