"""Small models for tests, made with the `onnx` package."""

import numpy as np

from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def graph(nodes, inputs=("x",), outputs=("y",), weights=(), name="g"):
    def ports(names):
        return [value(n) if isinstance(n, str) else n for n in names]

    return helper.make_graph(list(nodes), name, ports(inputs), ports(outputs), list(weights))


def model(nodes, inputs=("x",), outputs=("y",), weights=(), opset=18, **more):
    opsets = [helper.make_opsetid("", opset)] + more.pop("opsets", [])
    return helper.make_model(graph(nodes, inputs, outputs, weights), opset_imports=opsets, ir_version=8, **more)


def data(*arguments, **named):
    """The bytes of such a model."""
    return model(*arguments, **named).SerializeToString()
