"""Damages the texts of graphs at random, then reads, runs and simplifies them: each must work or raise an ordinary error.

    python tests/attack/graphs.py [--texts 2000] [--seed 1]

A text that kills the process is the one after the last number that --verbose printed. A loop that does not end is interrupted.
"""

import argparse
import copy
import json
import random
import signal
import warnings

import strata
from strata import _C, export, nn
from strata.export import Dim, Graph


class Endless(Exception):
    """A damaged loop runs on."""


ORDINARY = (Endless, ValueError, TypeError, NotImplementedError, RuntimeError, IndexError, OverflowError, MemoryError)
OPS = [record["name"] for record in _C._records()] + 40 * ["cond", "while_loop", "scan"]
FORMS = ("plain", "in place", "out")
ODD = [
    *(None, True, -1, 0, 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 1e308, "", "x", *FORMS, [], {}, [[]]),
    *({"value": 0}, {"values": [0, None, -1]}, {"ints": [-1, 2**62]}, {"float": "nan"}, {"int": -5}, {"str": "mean"}),
    *({"device": "vgpu"}, {"dtype": "complex64"}, {"size": {"sum": [[1, 1, 0, 0, 0]], "divisor": 0}}),
    {"sizes": [{"sum": [[2**62, 3, 3, 3, 3]], "divisor": 1}]},
]


def samples():
    """Graphs with writes, views, out= tensors and sizes that vary: pairs of a graph and its inputs."""
    weight = strata.randn(4, 3)

    def program(x):
        y = nn.functional.linear(x, weight)
        y[0].mul_(2)
        out = strata.empty(2, 4)
        strata.add(y, 1, out=out)
        a, b = out.chunk(2, 1)
        return strata.cat([a, b]).softmax(-1), out.max(1)[0]

    yield Graph.capture(program, [strata.randn(2, 3)]), [strata.randn(2, 3)]
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(32, 3))
    x = strata.randn(3, 1, 6, 6)
    yield export.export(net, (x,), dynamic_shapes=({0: Dim("n")},)).graph, [strata.randn(5, 1, 6, 6)]

    def decides(x):
        y = strata.cond(x.sum() > 0, lambda x: {"a": x + weight[0]}, lambda x: {"a": x.exp()}, (x,))["a"]
        n, y = strata.while_loop(
            lambda n, y: n < x.shape[0], lambda n, y: (n + 1, y * 2 + step(y)), (0, y), max_trips=9
        )
        return strata.scan(lambda c, v: (c + v, (c * v, weight.sum() * v)), y[0], (y * x).t(), dim=1, reverse=True)

    def step(y):
        return strata.cond(y.sum() < 5, lambda: strata.rand(y.shape), lambda: strata.ones(y.shape[0], 3))

    for shapes in (None, ({0: Dim("n")},)):
        yield export.export(decides, (strata.randn(3, 3),), dynamic_shapes=shapes).graph, [strata.randn(3, 3)]
    graph = Graph.capture(lambda: strata.scan(lambda c, _: (c + 1, c * 2), strata.tensor(0.0), None, length=3), [])
    yield graph, []


def places(data, path=()):
    """The path of every part of a text."""
    yield path
    for key, part in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(part, (*path, key))


def damage(choose, data):
    data = copy.deepcopy(data)
    for _ in range(choose.randint(1, 2)):
        path = choose.choice([p for p in places(data) if p])
        home, key = data, path[-1]
        for step in path[:-1]:
            home = home[step]
        kind = choose.random()
        if key == "op":
            home[key] = choose.choice(OPS)
        elif kind < 0.15 and isinstance(home, dict):
            del home[key]
        elif kind < 0.3 and isinstance(home, list):
            home.insert(key, copy.deepcopy(choose.choice(ODD)))
        elif kind < 0.5 and type(home[key]) is int:
            home[key] = choose.randint(0, 12)
        else:
            home[key] = copy.deepcopy(choose.choice(ODD))
    if choose.random() < 0.3 and isinstance(data.get("nodes"), list) and data["nodes"]:
        node = choose.choice(data["nodes"])
        if isinstance(node, dict):
            node["form"] = choose.choice(FORMS)
    return json.dumps(data)


def use(text, states, inputs):
    graph = Graph.from_json(text, states)
    str(graph), graph.to_json(), graph.nodes
    graph.run(inputs)
    for name in ("merge_equal", "fold_constants", "remove_unused"):
        getattr(graph, name)()
    graph.run(inputs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--verbose", action="store_true", help="print the number of each text before it is used")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    strata.set_memory_limit(2 << 30)
    strata.manual_seed(0)

    def interrupt(*_):
        raise Endless

    signal.signal(signal.SIGALRM, interrupt)
    graphs = [(json.loads(g.to_json()), {**g.states, **g.constants}, inputs) for g, inputs in samples()]
    refused = 0
    for number in range(options.texts):
        if options.verbose:
            print(number, flush=True)
        choose = random.Random(f"{options.seed} {number}")
        data, states, inputs = choose.choice(graphs)
        signal.alarm(20)
        try:
            with strata.no_grad():
                use(damage(choose, data), states, inputs)
        except ORDINARY:
            refused += 1
        finally:
            signal.alarm(0)
    print(f"{options.texts} damaged graphs, seed {options.seed}: {refused} refused, {options.texts - refused} run")


if __name__ == "__main__":
    main()
