"""Programs over torch.fx in the manner of public ones: models, passes, rewrites, feature extraction. They print what must be
the same with PyTorch (fx_programs.txt has its output) and with Strata in the place of torch."""

import builtins
import copy
import io
import math
import operator
import pickle
from typing import Optional, Tuple  # noqa: UP035

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.experimental.optimization import fuse, matches_module_pattern, remove_dropout, replace_node_module
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.passes.split_module import split_module


def fill(module):
    """Deterministic weights, so that numbers can be compared."""
    with torch.no_grad():
        for i, t in enumerate([*module.parameters(), *module.buffers()]):
            if t.is_floating_point():
                n = torch.arange(t.numel(), dtype=torch.float32).reshape(t.shape)
                t.copy_(torch.sin(n * 0.7 + i) * 0.3 + (1.0 if t.dim() == 1 else 0.0))
    return module


def numbers(t):
    return [round(v, 3) + 0.0 for v in t.detach().flatten()[:4].tolist()]


def section(name):
    print(f"=== {name}")


class BasicBlock(nn.Module):
    def __init__(self, inp, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inp, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or inp != out:
            self.downsample = nn.Sequential(nn.Conv2d(inp, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 4))
        self.layer2 = nn.Sequential(BasicBlock(4, 8, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.drop = nn.Dropout(0.1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(self.drop(x))


class Attention(nn.Module):
    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads, self.scale = heads, math.sqrt(dim // heads)
        self.qkv, self.proj, self.norm = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.LayerNorm(dim)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))
        self.gain = nn.Parameter(torch.ones(dim))

    def forward(self, x, past: Optional[torch.Tensor] = None, return_weights: bool = False):  # noqa: UP045
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        weights = (q @ k.transpose(-2, -1)) / self.scale
        weights = weights.masked_fill(self.mask[:, :, :4, :4] == 0, float("-inf"))
        weights = F.softmax(weights, -1)
        y = (weights @ v).transpose(1, 2).contiguous().view(b, t, c)
        return F.gelu(self.proj(y)) * self.gain + x


image = torch.sin(torch.arange(2 * 3 * 8 * 8, dtype=torch.float32)).reshape(2, 3, 8, 8)
tokens = torch.cos(torch.arange(2 * 4 * 8, dtype=torch.float32)).reshape(2, 4, 8)

section("resnet")
resnet = fill(ResNet()).eval()
traced = fx.symbolic_trace(resnet)
print(traced.code)
print(traced.graph)
print(numbers(resnet(image)) == numbers(traced(image)), numbers(traced(image)))
print(list(traced.state_dict())[:4], len(traced.state_dict()) == len(resnet.state_dict()))
traced.load_state_dict(resnet.state_dict())

section("attention")
attention = fill(Attention())


class SizeTracer(fx.Tracer):
    def is_leaf_module(self, m, qualname):
        return isinstance(m, nn.LayerNorm) or super().is_leaf_module(m, qualname)

    def iter(self, obj):
        return (obj[i] for i in range(3))


graph = SizeTracer().trace(attention, concrete_args={"past": None, "return_weights": False})
graph.lint()
block = fx.GraphModule(attention, graph, "Block")
print([(n.op, n.name, str(n.target) if isinstance(n.target, str) else n.target.__name__) for n in block.graph.nodes])
print(numbers(block(tokens)), numbers(attention(tokens)))

section("feature extraction")


def extract(model, names):
    gm = fx.symbolic_trace(model)
    out = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    found = {name: next(n for n in gm.graph.nodes if n.name == name) for name in names}
    gm.graph.erase_node(out)
    with gm.graph.inserting_after(list(gm.graph.nodes)[-1]):
        gm.graph.output({alias: found[name] for name, alias in names.items()})
    print(gm.graph.eliminate_dead_code())
    gm.graph.lint()
    gm.delete_all_unused_submodules()
    gm.recompile()
    return gm


features = extract(resnet, {"layer1_1_relu_1": "mid", "layer2_0_bn1": "deep"})
print(features.code.splitlines()[-2])
print({k: (tuple(v.shape), numbers(v)) for k, v in features(image).items()})
print([name for name, _ in features.named_children()])

section("quantisation-like pass")


class FakeQuant(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.round(x / self.scale) * self.scale


gm = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
fill(gm)
modules = dict(gm.named_modules())
for node in list(gm.graph.nodes):
    if node.op == "call_module" and isinstance(modules[node.target], nn.Linear):
        name = f"quant_{node.name.lstrip('_')}"
        gm.add_submodule(name, FakeQuant(0.25))
        with gm.graph.inserting_after(node):
            quant = gm.graph.call_module(name, (node,))
        node.replace_all_uses_with(quant)
        quant.args = (node,)
gm.graph.lint()
gm.recompile()
print(gm.code)
print(numbers(gm(torch.ones(3, 4))))

section("functions replaced")


def net(x, y):
    z = torch.add(x, y) * torch.sigmoid(x)
    return torch.relu(z) + F.relu(z).neg().clamp(min=-1.0, max=1.0)


gm = fx.symbolic_trace(net)
for node in gm.graph.nodes:
    if node.op == "call_function" and node.target == torch.add:
        node.target = torch.mul
    if node.target in (torch.relu, F.relu):
        with gm.graph.inserting_before(node):
            new = gm.graph.call_function(torch.tanh, args=(node.args[0],))
        node.replace_all_uses_with(new)
        gm.graph.erase_node(node)
gm.recompile()
print(gm.code, [n.name for n in gm.graph.nodes])
print([(n.name, sorted(u.name for u in n.users), [a.name for a in n.all_input_nodes]) for n in gm.graph.nodes])
print(numbers(gm(torch.arange(4.0), torch.ones(4))))

section("errors")


def attempt(f):
    try:
        print("no error", f())
    except Exception as e:
        print(type(e).__name__, str(e).split(".")[0].split("\n")[0][:120])


attempt(lambda: fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x))
attempt(lambda: fx.symbolic_trace(lambda x: [a for a in x]))
attempt(lambda: fx.symbolic_trace(lambda x: float(x)))
attempt(lambda: fx.symbolic_trace(lambda x: x + {2}))
attempt(lambda: gm.graph.erase_node(next(iter(gm.graph.nodes))))
attempt(lambda: next(n for n in gm.graph.nodes if n.op == "call_function").args[0].args.append(1))
attempt(lambda: fx.GraphModule(nn.Module(), traced.graph))
attempt(lambda: fx.GraphModule({}, traced.graph))

section("interpreter")


class Profiler(fx.Interpreter):
    def __init__(self, module):
        super().__init__(module)
        self.seen = []

    def run_node(self, n):
        result = super().run_node(n)
        self.seen.append((n.op, n.name))
        return result


class NegSigmSwap(fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if target == torch.sigmoid:
            return torch.neg(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def call_method(self, target, args, kwargs):
        if target == "neg":
            (self_obj, *tail) = args
            return self_obj.sigmoid(*tail, **kwargs)
        return super().call_method(target, args, kwargs)


def fn(x):
    return torch.sigmoid(x).neg()


simple = fx.symbolic_trace(fn)
profiler = Profiler(simple)
print(numbers(profiler.run(torch.arange(4.0))), profiler.seen)
print(numbers(NegSigmSwap(simple).run(torch.arange(4.0))))

section("transformer")


class Swap(fx.Transformer):
    def call_function(self, target, args, kwargs):
        return super().call_function(torch.tanh if target == torch.sigmoid else target, args, kwargs)

    def call_method(self, target, args, kwargs):
        if target == "neg":
            return args[0] * 2 + 1
        return super().call_method(target, args, kwargs)


swapped = Swap(simple).transform()
print(swapped.code)
print(numbers(swapped(torch.arange(4.0))))
print(numbers(fx.Transformer(traced).transform()(image)) == numbers(traced(image)))

section("replace_pattern")


class Sums(nn.Module):
    def forward(self, x, w1, w2):
        m1 = torch.cat([w1, w2]).sum()
        m2 = torch.cat([w1, w2]).sum()
        return x + torch.max(m1) + torch.max(m2)


def pattern(a, b):
    return torch.cat([a, b]).sum()


def replacement(a, b):
    return torch.stack([a, b])


sums = fx.symbolic_trace(Sums())
matches = fx.replace_pattern(sums, pattern, replacement)
print(sums.code, len(matches), [m.anchor.name for m in matches])
print(numbers(sums(torch.zeros(2), torch.ones(2), torch.full((2,), 3.0))))
sine = fx.symbolic_trace(lambda x: F.relu6(torch.neg(torch.relu(x)) + 1))
print(len(fx.replace_pattern(sine, lambda x: torch.neg(torch.relu(x)), lambda x: torch.relu(-x))), sine.code)
print(len(fx.replace_pattern(sine, lambda x: torch.exp(x), lambda x: x)))

section("proxies by hand")
g = fx.Graph()
x = g.placeholder("x")
tracer = fx.proxy.GraphAppendingTracer(g)
y = fx.Proxy(g.get_attr("weight"), tracer)
z = torch.matmul(fx.Proxy(x, tracer), y) + 1
z = (z, {"k": [z[0], z.shape[1:]]})
g.output((z[0].node, {"k": [z[1]["k"][0].node, z[1]["k"][1].node]}))
holder = nn.Module()
holder.weight = nn.Parameter(torch.ones(3, 2))
made = fx.GraphModule(holder, g)
print(made.code, type(made).__name__)
out = made(torch.ones(2, 3))
print(numbers(out[0]), numbers(out[1]["k"][0]), tuple(out[1]["k"][1]))
print(fx.GraphModule({"weight": torch.full((3, 2), 2.0)}, g)(torch.ones(1, 3))[0].tolist())

section("copies")
other = copy.deepcopy(traced)
other.fc.weight.data.zero_()
print(numbers(other(image)), numbers(traced(image)), other.code == traced.code, type(other).__name__)
with other.graph.inserting_before(other.graph.output_node()):
    last = other.graph.output_node().args[0]
    other.graph.output_node().args = (other.graph.call_method("exp", (last,)),)
other.recompile()
print(numbers(other(image)), other.code == traced.code)
again = pickle.loads(pickle.dumps(traced))
print(again.code == traced.code, numbers(again(image)), type(again).__name__, isinstance(again, fx.GraphModule))
buffer = io.BytesIO()
torch.save(traced.state_dict(), buffer)
buffer.seek(0)
print(again.load_state_dict(torch.load(buffer)))
g2 = fx.Graph()
value = g2.graph_copy(traced.graph, {})
g2.output(value)
print(str(g2) == str(traced.graph), len(g2.nodes))

section("wrap")


@fx.wrap
def helper(a, b=1):
    return a if a.sum() > 0 else b


fx.wrap("len")


def uses(a):
    return helper(a, b=2) + len(a) + math.sqrt(a.size(0))


wrapped = fx.symbolic_trace(uses)
print(wrapped.code)
print(numbers(wrapped(torch.ones(4))), numbers(uses(torch.ones(4))))

section("shapes")
ShapeProp(traced).propagate(image)
print([(n.name, tuple(n.meta["tensor_meta"].shape), str(n.meta["tensor_meta"].dtype)) for n in traced.graph.nodes][:8])

section("fusion")
fused = fuse(resnet)
print([n.target for n in fused.graph.nodes if n.op == "call_module"])
print(
    torch.allclose(fused(image), resnet(image), atol=1e-5), any(isinstance(m, nn.BatchNorm2d) for m in fused.modules())
)
print([n.name for n in remove_dropout(resnet).graph.nodes][-4:])
plain = fx.symbolic_trace(nn.Sequential(nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)))
named = dict(plain.named_modules())
print([matches_module_pattern((nn.Conv2d, nn.BatchNorm2d), n, named) for n in plain.graph.nodes])
replace_node_module(list(plain.graph.nodes)[1], named, nn.Identity())
print(type(getattr(plain, "0")).__name__)

section("split")
state = [0]


def partition_of(node):
    state[0] = state[0] or int(node.name.startswith("layer2"))
    return state[0]


halves = split_module(traced, resnet, partition_of)
print([name for name, _ in halves.named_children()], torch.allclose(halves(image), traced(image)))
print(halves.code)
print([n.name for n in halves.submod_1.graph.nodes][:3])

section("annotations and arguments")


def annotated(a: torch.Tensor, b: list[int], c: dict[str, tuple[int, float]] | None = None) -> Tuple[int, torch.Tensor]:  # noqa: UP006
    return 1, a * 2


print(fx.symbolic_trace(annotated).code)


def star(a, *rest, scale=2.0, **options):
    return a * scale + rest[0] + options["k"]


print(fx.symbolic_trace(star).code)
print(fx.symbolic_trace(lambda a, n: a * n, concrete_args={"n": 3}).code)
print(
    fx.symbolic_trace(
        lambda a: (a[1:, ..., None], a[0:2:1], slice(1, 2), a.to(torch.float16), 1j, "s", builtins.max(1, 2))
    ).code
)
print(fx.symbolic_trace(lambda a: operator.iadd(a, 1) @ a // 2 % 3**a).code)

section("code transformer")
gm = fx.symbolic_trace(lambda a: a + 1)
gm.graph.on_generate_code(lambda old: lambda body: ["# first line\n", *body])
gm.recompile()
print(gm.code)

section("meta and position")
gm = fx.symbolic_trace(fn)
first, *_, last = gm.graph.nodes
print(first.next.name, last.prev.name, [n.name for n in reversed(gm.graph.nodes)], len(gm.graph.nodes))
print(gm.graph.find_nodes(op="call_method", target="neg"), gm.graph.output_node())
first.meta["tag"] = 1
print(copy.deepcopy(gm).graph.find_nodes(op="placeholder")[0].meta)
node = gm.graph.find_nodes(op="call_function", target=torch.sigmoid)[0]
node.update_kwarg("out", None)
node.insert_arg(1, 5)
print(node.format_node())
node.update_arg(0, 3)
print(first.users, node.args)
