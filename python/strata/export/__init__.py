"""Programs as graphs: export() runs a module and keeps the ops that it called; the graph runs without the module's code.

The names are those of torch.export. A graph is exact: running it calls the same ops.
"""

from .. import _C
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..serialization import load as _load
from ..serialization import save as _save
from ..utils import _pytree as pytree
from ._capture import TENSOR, Capture, argument_names
from ._dims import Dim, Varying, dims

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "Graph", "dims", "export", "load", "save"]

_FORMAT = "strata.export"


class Graph:
    """The ops of a program, in order. Print it, or read `nodes`, `inputs`, `outputs` and `writes`, which have the names of values.

    >>> x = strata.ones(2)
    >>> Graph.capture(lambda x: x.exp() + 1, [x]).run([x])[0]
    tensor([3.7183, 3.7183])
    """

    def __init__(self, handle, held=()):
        self._handle = handle
        self._held = list(held)  # the objects of its states: a graph keeps their memory, Python their classes

    @classmethod
    def capture(cls, function, inputs, states=(), input_names=(), allow_reads=False, composites=True):
        """The graph of one call: `function` takes the inputs, a list of tensors, as its arguments, and returns a tensor or several.

        `states` are pairs of a name and a tensor that the function uses by itself, such as parameters; other tensors become
        constants. A function that reads values (`item()`, `if t:`, NumPy) is refused, unless `allow_reads`: then the graph keeps what
        it decided by them. With `composites=False`, ops that are made of others, such as `linear`, are captured as those.
        """

        def call(tensors):
            out = function(*tensors)
            return [out] if isinstance(out, _C.Tensor) else out

        states = list(states)
        return cls(
            _C._graph_capture(call, inputs, states, list(input_names), allow_reads, composites), [t for _, t in states]
        )

    def run(self, inputs):
        """The outputs for other inputs of the same dtypes, shapes and devices, as a tuple. Gradients are recorded as usual."""
        return _C._graph_run(self._handle, inputs)

    @property
    def inputs(self):
        return _C._graph_contents(self._handle)["inputs"]

    @property
    def outputs(self):
        return _C._graph_contents(self._handle)["outputs"]

    @property
    def writes(self):
        """Pairs (input or state, value): after a run, the value is copied into it."""
        return _C._graph_contents(self._handle)["writes"]

    @property
    def nodes(self):
        """A dict per call: op, inputs, results, source (file and line) and scope (the module)."""
        return _C._graph_contents(self._handle)["nodes"]

    @property
    def states(self):
        """The named tensors that the graph refers to, which may change between runs."""
        return {name: tensor for name, tensor, named in _C._graph_states(self._handle) if named}

    @property
    def constants(self):
        """The other tensors that the program used."""
        return {name: tensor for name, tensor, named in _C._graph_states(self._handle) if not named}

    @property
    def dims(self):
        """The dimensions of inputs that vary: name to (min, max)."""
        return _C._graph_contents(self._handle)["dims"]

    def remove_unused(self):
        """Removes calls whose results nobody uses; returns how many."""
        return _C._graph_pass(self._handle, "remove_unused")

    def merge_equal(self):
        """Computes equal calls once; returns how many were removed."""
        return _C._graph_pass(self._handle, "merge_equal")

    def fold_constants(self):
        """Computes now what depends on constants alone; returns how many calls were removed."""
        return _C._graph_pass(self._handle, "fold_constants")

    def copy(self):
        """Another graph over the same states, for other passes."""
        return Graph(_C._graph_copy(self._handle), self._held)

    def to_json(self):
        """The graph as text, without the values of its states."""
        return _C._graph_json(self._handle)

    @classmethod
    def from_json(cls, text, states):
        """The graph of such a text; `states` has the tensors of its states and constants by name."""
        return cls(_C._graph_from_json(text, list(states.items())), states.values())

    def __str__(self):
        return _C._graph_text(self._handle)

    def __repr__(self):
        contents = _C._graph_contents(self._handle)
        return f"<Graph of {len(contents['nodes'])} ops: {', '.join(contents['inputs'])} -> {', '.join(contents['outputs'])}>"


class ExportGraphSignature:
    """What the inputs and outputs of a graph are: user inputs, parameters, buffers, and what the program writes to."""

    def __init__(self, program):
        graph, named = program.graph, program._parameter_names
        self.user_inputs = tuple(graph.inputs)
        self.user_outputs = tuple(graph.outputs)
        self.parameters = tuple(name for name in graph.states if name in named)
        self.buffers = tuple(name for name in graph.states if name not in named)
        self.lifted_tensor_constants = tuple(graph.constants)
        self.buffers_to_mutate = {value: name for name, value in graph.writes if name not in graph.inputs}
        self.user_inputs_to_mutate = {value: name for name, value in graph.writes if name in graph.inputs}

    def __repr__(self):
        lines = [f"    {key}={value!r}" for key, value in self.__dict__.items()]
        return "ExportGraphSignature(\n" + ",\n".join(lines) + "\n)"


class _ExportedModule(Module):
    """What ExportedProgram.module() returns: runs the graph with the program's parameters and buffers."""

    def __init__(self, program):
        super().__init__()
        self._program = program
        for name, tensor in program.graph.states.items():
            *path, own = name.split(".")
            home = self
            for part in path:
                if part not in home._modules:
                    home.add_module(part, Module())
                home = home._modules[part]
            if name in program._parameter_names:
                home.register_parameter(own, tensor)
            else:
                home.register_buffer(own, tensor)

    def forward(self, *args, **kwargs):
        return self._program._run(args, kwargs)

    def train(self, mode=True):
        raise NotImplementedError(
            "an exported program has the mode that it was exported in; export the module in the other mode"
        )

    def eval(self):
        raise NotImplementedError(
            "an exported program has the mode that it was exported in; export the module in the other mode"
        )


class ExportedProgram:
    """A program that was exported: its graph, its parameters and buffers, and the trees of its arguments and results."""

    def __init__(self, graph, parameter_names, in_spec, fixed, out_spec, example_inputs=None):
        self.graph = graph
        self.example_inputs = example_inputs
        self._parameter_names = frozenset(parameter_names)
        self._in_spec, self._fixed, self._out_spec = in_spec, fixed, out_spec

    @property
    def state_dict(self):
        """The parameters and buffers by name."""
        return self.graph.states

    @property
    def constants(self):
        """The tensors that the program used besides, by name."""
        return self.graph.constants

    @property
    def range_constraints(self):
        """The dimensions that vary: name to (min, max)."""
        return self.graph.dims

    @property
    def graph_signature(self):
        return ExportGraphSignature(self)

    def named_parameters(self):
        return ((name, t) for name, t in self.graph.states.items() if name in self._parameter_names)

    def parameters(self):
        return (t for _, t in self.named_parameters())

    def named_buffers(self):
        return ((name, t) for name, t in self.graph.states.items() if name not in self._parameter_names)

    def buffers(self):
        return (t for _, t in self.named_buffers())

    def module(self):
        """A module that runs the graph. It shares parameters and buffers with the program."""
        return _ExportedModule(self)

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self):
        return f"ExportedProgram:\n{self.graph}{self.graph_signature!r}"

    def _run(self, args, kwargs):
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise ValueError(
                f"the exported program was called with arguments {_shown(args, kwargs)}; it was exported with another structure of "
                f"arguments: {self._in_spec}"
            )
        tensors = []
        for i, leaf in enumerate(leaves):
            if i in self._fixed:
                if type(leaf) is not type(self._fixed[i]) or leaf != self._fixed[i]:
                    raise ValueError(
                        f"argument {i} of the exported program is {leaf!r}; it was exported with {self._fixed[i]!r}, which is part of "
                        "the graph. Export it again, or pass a tensor"
                    )
            else:
                if not isinstance(leaf, _C.Tensor):
                    raise TypeError(f"argument {i} of the exported program is {type(leaf).__name__}; expected a tensor")
                tensors.append(leaf)
        out = iter(self.graph.run(tensors))
        filled = [next(out) if fixed is TENSOR else fixed for fixed in self._out_spec[1]]
        return pytree.tree_unflatten(filled, self._out_spec[0])


def _shown(args, kwargs):
    names = [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    return f"({', '.join(names)})"


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=()):
    """Runs a module (or a function) with example arguments, and returns the program as a graph.

    The program runs without gradients, and all ops that it calls are kept. What it decides by attributes and globals is decided now.
    If it reads values of tensors, a RuntimeError names the line. Sizes are those of the example, except the dimensions that
    `dynamic_shapes` gives a `Dim`: the program is captured at several of their sizes, and numbers that follow from them (sums of
    products) are computed in each run. If it makes other calls for other sizes, that is an error too.

    >>> program = export(strata.nn.Linear(4, 2), (strata.ones(3, 4),), dynamic_shapes=({0: Dim("batch")},))
    >>> program.module()(strata.zeros(5, 4)).shape
    strata.Size([5, 2])
    """
    if not callable(mod):
        raise TypeError(f"export: expected a module or a function, got {type(mod).__name__}")
    if not isinstance(args, tuple | list):
        raise TypeError(f"export: expected a tuple of example arguments, got {type(args).__name__}")
    args, kwargs = tuple(args), dict(kwargs or {})
    capture = Capture(mod, args, kwargs)
    handle = capture.graph(Varying(args, kwargs, dynamic_shapes, argument_names(mod, args, kwargs)))
    graph = Graph(handle, capture.states.values())
    return ExportedProgram(graph, capture.parameters, capture.in_spec, capture.fixed, capture.out_spec, (args, kwargs))


def _checked_tree(tree, what):
    """Arguments and results as save() can write them: lists, tuples and dicts, with the position of each leaf."""
    try:
        return pytree.tree_unflatten(list(range(tree.num_leaves)), tree)
    except Exception as error:
        raise TypeError(f"save: the {what} of the program cannot be saved: {error}") from error


def save(ep, f):
    """Writes an exported program, with its parameters, buffers and constants, as a safetensors file: a path or a binary file."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: expected an ExportedProgram, got {type(ep).__name__}")
    out_spec, results = ep._out_spec
    _save(
        {
            "format": _FORMAT,
            "graph": ep.graph.to_json(),
            "states": {name: t.detach() for name, t in ep.graph.states.items()},
            "constants": {name: t.detach() for name, t in ep.graph.constants.items()},
            "parameters": sorted(ep._parameter_names & ep.graph.states.keys()),
            "trainable": sorted(name for name, t in ep.graph.states.items() if t.requires_grad),
            "arguments": _checked_tree(ep._in_spec, "arguments"),
            "fixed": [[i, value] for i, value in ep._fixed.items()],
            "results": _checked_tree(out_spec, "results"),
            "fixed_results": [[i, value] for i, value in enumerate(results) if value is not TENSOR],
        },
        f,
        format="safetensors",
    )


def load(f):
    """The program that save() wrote. Nothing in the file is run as code."""
    data = _load(f)
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ValueError("load: this file has no exported program; strata.export.save() writes them")
    names = set(data["parameters"])
    states = dict(data["states"])
    for name in names:
        states[name] = Parameter(states[name], requires_grad=name in data["trainable"])
    graph = Graph.from_json(data["graph"], {**states, **data["constants"]})
    _, in_spec = pytree.tree_flatten(data["arguments"])
    leaves, spec = pytree.tree_flatten(data["results"])
    results = [TENSOR] * len(leaves)
    for i, value in data["fixed_results"]:
        results[i] = value
    return ExportedProgram(graph, names, in_spec, {i: value for i, value in data["fixed"]}, (spec, results))
