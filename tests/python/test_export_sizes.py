"""strata.export with dimensions that vary: one graph gives the program's results for all sizes, or the export is refused."""

import io

import module_samples
import pytest
import records
import strata
from compiled_programs import bits
from strata import export, nn
from strata.export import Dim

F = nn.functional


def check(mod, example, dynamic_shapes, others, **limits):
    """Exports with an example, and compares the results for other inputs."""
    program = export.export(mod, example, dynamic_shapes=dynamic_shapes)
    module = program.module()
    with strata.no_grad():
        for given in [example, *others]:
            strata.manual_seed(1)
            want = records.tensors(mod(*given))
            strata.manual_seed(1)
            assert bits(records.tensors(module(*given))) == bits(want), f"{[t.shape for t in given]}\n{program.graph}"
    return program


class Attention(nn.Module):
    def __init__(self, size=8, heads=2, longest=32):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(size, 3 * size), nn.Linear(size, size), heads
        self.positions = nn.Embedding(longest, size)

    def forward(self, x):
        batch, length, size = x.shape
        x = x + self.positions(strata.arange(length))
        q, k, v = self.qkv(x).split(size, dim=2)
        q, k, v = (t.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v))
        mask = strata.tril(strata.ones(length, length)).view(1, 1, length, length) == 0
        scores = (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf")).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).contiguous().view(batch, length, size))


def test_attention_for_any_batch_and_length():
    batch, length = Dim("batch"), Dim("length", max=32)
    program = check(
        Attention().eval(),
        (strata.randn(2, 5, 8),),
        {"x": {0: batch, 1: length}},
        [(strata.randn(b, n, 8),) for b, n in [(1, 1), (1, 7), (7, 32), (3, 2)]],
    )
    assert program.range_constraints == {"batch": (1, 2**31 - 1), "length": (1, 32)}
    assert "float32[batch, length, 8]" in str(program) and "batch*length" not in str(program.graph.inputs)
    with pytest.raises(ValueError, match="dimension 'length' has size 33; it may have 1 to 32"):
        program.module()(strata.randn(1, 33, 8))
    with pytest.raises(ValueError, match=r"captured with float32\[batch, length, 8\]"):
        program.module()(strata.randn(1, 3, 9))


def test_networks_for_any_batch():
    cnn = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    ).eval()
    check(cnn, (strata.randn(2, 1, 8, 8),), ({0: Dim("n")},), [(strata.randn(n, 1, 8, 8),) for n in (1, 3, 17)])
    lstm = nn.LSTM(4, 6, 2, batch_first=True).eval()
    check(
        lstm,
        (strata.randn(2, 3, 4),),
        ((Dim("n"), Dim("t"), None),),
        [(strata.randn(n, t, 4),) for n, t in [(1, 1), (5, 9)]],
    )
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    check(
        encoder,
        (strata.randn(2, 5, 8),),
        ({0: Dim("n"), 1: Dim("t")},),
        [(strata.randn(n, t, 8),) for n, t in [(1, 4), (6, 2)]],
    )


@pytest.mark.parametrize("record, number", module_samples.SAMPLES, ids=module_samples.LABELS)
def test_modules(record, number):
    """Every module whose inputs have a first dimension: it varies, or the export says why it cannot."""
    module = module_samples.made(record, number).eval()
    inputs = tuple(module_samples.inputs(record, number))
    tensors = [t for t in inputs if isinstance(t, strata.Tensor)]
    if not tensors or any(t.dim() < 2 or t.shape[0] != tensors[0].shape[0] for t in tensors):
        assert export.export(module, inputs).graph.nodes is not None
        return
    shapes = tuple(
        {0: Dim.AUTO if t is tensors[0] else Dim("s0")} if isinstance(t, strata.Tensor) else None for t in inputs
    )
    try:
        program = export.export(module, inputs, dynamic_shapes=shapes)
    except (RuntimeError, ValueError) as error:  # the first dimension is not a batch
        assert (
            type(error) is not RuntimeError
            or "export:" in str(error)
            or "size" in str(error)
            or "expected" in str(error).lower()
        )
        return
    for rows in (2, 5):
        given = [strata.cat([t] * 5)[:rows].contiguous() if isinstance(t, strata.Tensor) else t for t in inputs]
        with strata.no_grad():
            strata.manual_seed(2)
            want = records.tensors(module(*given))
            strata.manual_seed(2)
            assert bits(records.tensors(program.module()(*given))) == bits(want), str(program)


def test_numbers_that_follow_from_sizes():
    def f(x, y):
        n, m = x.shape
        z = strata.cat([x, strata.zeros(n * m + 3 * n + 1, m)]) * (2 * n)
        z = z.view(z.shape[0] * m)
        upper = strata.zeros(n * (n + 1) // 2 + m)
        return z, x.new_full((n, 2 * m - 1), n), y.expand(n, m).contiguous(), strata.arange(n * m), upper

    given = [(strata.randn(n, m), strata.randn(m)) for n, m in [(2, 2), (2, 9), (11, 3)]]
    check(f, (strata.randn(3, 4), strata.randn(4)), {"x": {0: Dim("n"), 1: Dim("m")}, "y": (Dim("m"),)}, given)


def test_writes_and_views():
    def f(x):
        y = x * 2
        y[1:, 0] = 7
        y[:, 1:].add_(y[:, :-1] * 1)
        y.t().mul_(2)
        return y

    check(f, (strata.randn(3, 4),), ({0: Dim("n"), 1: Dim("m")},), [(strata.randn(n, m),) for n, m in [(2, 2), (6, 3)]])


def test_three_sizes():
    def f(x):
        a, b, c = x.shape
        return x.view(a * b * c) + strata.ones(a * b * c), x.permute(2, 0, 1).reshape(c, a * b)

    dims = export.dims("a", "b", "c", min=1)
    check(f, (strata.randn(2, 3, 4),), (dims,), [(strata.randn(*s),) for s in [(1, 1, 1), (5, 2, 3), (2, 7, 9)]])


def test_programs_that_decide_by_sizes_are_refused():
    def branches(x):
        return x * 2 if x.shape[0] > 4 else x + 1

    def halves(x):
        return x[: x.shape[0] // 2]

    def loops(x):
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    def divides(x):
        return x * (1 / x.shape[0])

    def counts(x):
        return x + 1, x.shape[0]

    def constant(x):
        return x + strata.tensor([float(i) for i in range(x.shape[0])])

    for f in (branches, halves, loops, divides, counts, constant):
        with pytest.raises(RuntimeError, match="export: for other sizes|export: a size"):
            export.export(f, (strata.randn(3),), dynamic_shapes=({0: Dim("n")},))
    with pytest.raises(RuntimeError, match=r"test_export_sizes\.py:"):
        export.export(divides, (strata.randn(3),), dynamic_shapes=({0: Dim("n")},))


def test_a_program_that_differs_for_one_row_varies_from_two():
    def f(x):
        return x.squeeze(0) * 2 if x.shape[0] == 1 else x * 2

    program = check(f, (strata.randn(3, 4),), ({0: Dim("n")},), [(strata.randn(2, 4),)])
    assert program.range_constraints["n"][0] == 2
    with pytest.raises(ValueError, match="it may have 2 to"):
        program.module()(strata.randn(1, 4))
    with pytest.raises(RuntimeError):
        export.export(f, (strata.randn(3, 4),), dynamic_shapes=({0: Dim("n", min=1)},))
    empty = check(lambda x: x * 2, (strata.randn(3, 4),), ({0: Dim("n", min=0)},), [(strata.randn(0, 4),)])
    assert empty.range_constraints["n"][0] == 0


def test_files_and_passes_keep_the_sizes():
    program = export.export(
        Attention().eval(), (strata.randn(2, 5, 8),), dynamic_shapes={"x": {0: Dim("b"), 1: Dim("t")}}
    )
    x = strata.randn(3, 9, 8)
    want = program.module()(x)
    file = io.BytesIO()
    export.save(program, file)
    file.seek(0)
    loaded = export.load(file)
    assert str(loaded.graph) == str(program.graph) and strata.equal(loaded.module()(x), want)
    for name in ("merge_equal", "fold_constants", "remove_unused"):
        getattr(loaded.graph, name)()
        assert strata.equal(loaded.module()(x), want)
    damaged = program.graph.to_json().replace('"dims":[{', '"dims":[{"name":"more","min":1,"max":2},{', 1)
    with pytest.raises(ValueError, match="no input has the dimension"):
        export.Graph.from_json(damaged, {**program.state_dict, **program.constants})


def test_exporting_has_no_effects():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before = [b.clone() for b in net.buffers()]
    x = strata.randn(3, 4)
    strata.manual_seed(4)
    want = strata.rand(2)
    strata.manual_seed(4)
    export.export(net, (x,), dynamic_shapes=({0: Dim("n", min=2)},))
    assert strata.equal(strata.rand(2), want)
    assert bits(list(net.buffers())) == bits(before)


def test_wrong_descriptions():
    net, x = nn.Linear(4, 2), strata.randn(9, 4)
    wrong = [
        (({5: Dim("n")},), ValueError, "axis 5"),
        (({0: Dim("n")}, None), ValueError, "2 entries; there are 1"),
        ({"y": {0: Dim("n")}}, ValueError, "'y'"),
        (((Dim("n"),),), ValueError, "1 entries; the tensor has 2"),
        (({0: "n"},), TypeError, "expected a Dim"),
        ((7,), TypeError, "dict of axes"),
        (({0: Dim("n", max=4)},), ValueError, "size 9"),
        (({0: Dim("n"), 1: Dim("n")},), ValueError, r"sizes \[4, 9\]"),
    ]
    for shapes, error, text in wrong:
        with pytest.raises(error, match=text):
            export.export(net, (x,), dynamic_shapes=shapes)
    with pytest.raises(RuntimeError):  # the layer needs four columns
        export.export(net, (x,), dynamic_shapes=({1: Dim("columns")},))
    for make in (
        lambda: Dim("a b"),
        lambda: Dim(3),
        lambda: Dim("n", min=-1),
        lambda: Dim("n", min=3, max=3),
        lambda: Dim("n", max="x"),
    ):
        with pytest.raises((ValueError, TypeError)):
            make()
    static = export.export(net, (x,), dynamic_shapes=({0: 9, 1: Dim.STATIC},))
    assert static.range_constraints == {}
