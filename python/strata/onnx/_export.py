"""Modules as ONNX models: the graph of strata.export, its calls written as nodes."""

from .. import _C
from ..export import Dim, Graph
from ..export._capture import Capture, argument_names
from ..export._dims import Varying
from ..nn.module import Module

_OPSET = 20


class _Primitive(Capture):
    """The same with ops that are made of others as those."""

    composites = False


def _shapes(dynamic_axes, names, args):
    """dynamic_axes of PyTorch ({input: {axis: name}} or {input: [axes]}) as dynamic_shapes by position."""
    unknown = [n for n in dynamic_axes if n not in names]
    dims = {}
    shapes = []
    for name, arg in zip(names, args, strict=False):
        axes = dynamic_axes.get(name)
        if axes is None:
            shapes.append(None)
            continue
        if not isinstance(axes, dict):
            axes = {axis: f"{name}_dim_{axis}" for axis in axes}
        rank = arg.dim()
        shapes.append({axis % rank: dims.setdefault(label, Dim(_identifier(label))) for axis, label in axes.items()})
    return tuple(shapes), unknown


def _identifier(label):
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in label)
    return text if text and not text[0].isdigit() else f"dim_{text}"


def export(
    model,
    args=(),
    f=None,
    *,
    kwargs=None,
    input_names=None,
    output_names=None,
    opset_version=_OPSET,
    dynamic_axes=None,
    dynamic_shapes=None,
    external_data=False,
    export_params=True,
    do_constant_folding=True,
    verbose=None,
    dynamo=None,
):
    """Writes a module (or a function) as an ONNX model; without `f`, returns the bytes of the model.

    The module runs once with the example arguments; its calls become nodes, which carry the line and the module they come
    from. Sizes are those of the example, except those of `dynamic_axes` ({input name: {axis: name}}) or `dynamic_shapes`
    (as in strata.export): the module is captured at several of their sizes, and one that makes other calls for other
    sizes is refused with its line. `external_data` puts the weights into a file beside the model, as it is done for more
    than 1 GiB. Export modules in eval mode. `do_constant_folding`, `verbose` and `dynamo` are accepted and change nothing.

    >>> data = strata.onnx.export(strata.nn.Linear(4, 2), (strata.ones(3, 4),), input_names=["x"])
    >>> strata.onnx.load(data)(strata.zeros(3, 4)).shape
    strata.Size([3, 2])
    """
    if not export_params:
        raise NotImplementedError("onnx.export: a model without its weights is not supported; leave export_params on")
    if isinstance(args, _C.Tensor):
        args = (args,)
    if isinstance(model, Module) and model.training:
        raise ValueError("onnx.export: the module is in training mode; call eval() first")
    args, kwargs = tuple(args), dict(kwargs or {})
    input_names, output_names = list(input_names or []), list(output_names or [])
    if dynamic_axes:
        tensors = [a for a in args if isinstance(a, _C.Tensor)]
        if len(tensors) != len(args) or kwargs:
            raise ValueError("onnx.export: dynamic_axes need arguments that are tensors; use dynamic_shapes")
        names = input_names or Capture(model, args, kwargs).names
        dynamic_shapes, unknown = _shapes(dynamic_axes, names, args)
        if wrong := [n for n in unknown if n not in output_names]:
            raise ValueError(
                f"onnx.export: dynamic_axes names {wrong[0]!r}, which is no input; inputs are {', '.join(names)}"
            )
    varying = Varying(args, kwargs, dynamic_shapes, argument_names(model, args, kwargs))
    graph = Graph(Capture(model, args, kwargs).graph(varying))
    if _C._graph_onnx_missing(graph._handle):
        simple = Graph(_Primitive(model, args, kwargs).graph(varying))
        simple.remove_unused()
        if not _C._graph_onnx_missing(simple._handle):
            graph = simple
    graph.remove_unused()
    return _C._graph_onnx(graph._handle, f, input_names, output_names, opset_version, external_data)
