// Values of networks as Python objects: a tensor, a list of values, None, (STRING, shape, texts), or (element type, tensor that
// carries it).
#pragma once
#include "onnx/network.h"
#include "python/binding.h"

namespace strata::python {

PyObject* text_object(std::string_view s);  // a str; bytes that are no UTF-8 are replaced
onnx::Value onnx_value_of(PyObject* o);
onnx::Values onnx_values_of(PyObject* list);
PyObject* object_of(const onnx::Value& v);
PyObject* list_of(const onnx::Values& values);
std::shared_ptr<const onnx::Network> onnx_network_of(PyObject* capsule);  // of strata.onnx.Model
onnx::Model onnx_model_of(PyObject* source);                              // a path, or the bytes of a model

extern PyMethodDef engine_functions[];
extern PyMethodDef engine_quantize_functions[];

}  // namespace strata::python
