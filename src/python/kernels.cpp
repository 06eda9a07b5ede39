// Kernels of the user from Python: compiling, finding and launching them.
#include "python/kernels.h"

#include <fmt/core.h>

#include <array>

#include "cuda/custom/elementwise.h"
#include "cuda/custom/reduction.h"
#include "python/capsule.h"

namespace strata::python {

using cuda::Argument;
using cuda::KernelHandle;
template <> constexpr const char* kCapsule<cuda::Module> = "strata.kernel_module";
template <> constexpr const char* kCapsule<KernelHandle> = "strata.kernel";
template <> constexpr const char* kCapsule<cuda::Elementwise> = "strata.elementwise";
template <> constexpr const char* kCapsule<cuda::ReductionKernel> = "strata.reduction";

namespace {

PyObject* compile_error = nullptr;

}  // namespace

std::string text_of(PyObject* o, const char* what) {
  if (!PyUnicode_Check(o)) {
    PyErr_Format(PyExc_TypeError, "%s must be a str, got %.100s", what, Py_TYPE(o)->tp_name);
    throw PythonError{};
  }
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(o, &size);
  if (!text) throw PythonError{};
  return {text, static_cast<size_t>(size)};
}

std::vector<std::string> texts_of(PyObject* o, const char* what) {
  const std::string message = std::string(what) + " must be a tuple or list of str";
  if (PyUnicode_Check(o)) {
    PyErr_SetString(PyExc_TypeError, message.c_str());
    throw PythonError{};
  }
  const Object list(need(PySequence_Fast(o, message.c_str())));
  std::vector<std::string> out;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i)
    out.push_back(text_of(PySequence_Fast_GET_ITEM(list.get(), i), what));
  return out;
}

PyObject* list_of(const std::vector<std::string>& texts) {
  Object list(need(PyList_New(0)));
  for (const std::string& text : texts) append(list, PyUnicode_FromString(text.c_str()));
  return list.release();
}

void raise_compile_error(const cuda::CompileError& e) {
  const Object error(need(PyObject_CallFunction(compile_error, "s", e.what())));
  const Object log(need(PyUnicode_DecodeUTF8(e.log().data(), static_cast<Py_ssize_t>(e.log().size()), "replace")));
  need(PyObject_SetAttrString(error.get(), "log", log.get()));
  PyErr_SetObject(compile_error, error.get());
  throw PythonError{};
}

namespace {

// _kernel_compile(device, source, file name, options, instances)
PyObject* compile(PyObject*, PyObject* args) {
  PyObject *device, *source, *name, *options, *instances;
  if (!PyArg_ParseTuple(args, "OOOOO", &device, &source, &name, &options, &instances)) return nullptr;
  return guarded([&] {
    const Device on = device_of_object(device);
    const std::string text = text_of(source, "the source");
    const cuda::CompileOptions o{text_of(name, "the name"), texts_of(options, "options"),
                                 texts_of(instances, "name_expressions")};
    std::optional<cuda::Module> module;
    with_compile_error([&] {
      const WithoutGil unlock;
      module = cuda::compile(text, on, o);
    });
    return capsule(*module);
  });
}

PyObject* names(PyObject*, PyObject* module) {
  return guarded([&] { return list_of(inside<cuda::Module>(module).kernels()); });
}
PyObject* ptx(PyObject*, PyObject* module) {
  return guarded([&] { return need(PyUnicode_FromString(inside<cuda::Module>(module).ptx().c_str())); });
}
PyObject* find(PyObject*, PyObject* args) {
  PyObject *module, *name;
  if (!PyArg_ParseTuple(args, "OO", &module, &name)) return nullptr;
  return guarded([&] { return capsule(inside<cuda::Module>(module).function(text_of(name, "the name of a kernel"))); });
}
// The declarations of the parameters.
PyObject* parameters(PyObject*, PyObject* kernel) {
  return guarded([&] {
    std::vector<std::string> texts;
    for (const cuda::Parameter& p : inside<KernelHandle>(kernel).parameters()) texts.push_back(p.text);
    return list_of(texts);
  });
}

// A grid or block: an int, or one to three of them.
cuda::Grid grid_of(PyObject* o, const char* what) {
  std::array<uint32_t, 3> sizes{1, 1, 1};
  const bool single = PyIndex_Check(o);
  const Object list(need(single
                           ? PyTuple_Pack(1, o)
                           : PySequence_Fast(o, fmt::format("{} must be an int or a tuple of ints", what).c_str())));
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(list.get());
  STRATA_CHECK(n >= 1 && n <= 3, Value, "{} has {} sizes, expected 1 to 3", what, n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), i);
    const Object number(PyNumber_Index(item));
    if (!number) {
      forgive_type_error();
      fail(ErrorKind::Type, fmt::format("{} must have ints, got {}", what, Py_TYPE(item)->tp_name));
    }
    int overflow = 0;
    const long long size = checked(PyLong_AsLongLongAndOverflow(number.get(), &overflow));
    STRATA_CHECK(!overflow && size >= 1 && size <= UINT32_MAX, Value, "{}: size {} is out of range, expected 1 or more",
                 what, shown(Object(need(PyObject_Str(number.get()))).get()));
    sizes[static_cast<size_t>(i)] = static_cast<uint32_t>(size);
  }
  return {sizes[0], sizes[1], sizes[2]};
}

// A typed value with the buffer protocol: a NumPy scalar or a ctypes value.
Argument typed_value(PyObject* o) {
  struct View {
    Py_buffer buffer{};
    ~View() { PyBuffer_Release(&buffer); }
  } view;
  need(PyObject_GetBuffer(o, &view.buffer, PyBUF_FORMAT | PyBUF_ND));
  const Py_buffer& b = view.buffer;
  STRATA_CHECK(b.ndim == 0, Type, "got an array of type {}; move it to the device as a tensor first",
               Py_TYPE(o)->tp_name);
  std::string_view format = b.format ? b.format : "B";
  while (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos) format.remove_prefix(1);
  STRATA_CHECK(!format.starts_with('P') && !format.starts_with('&') && !format.starts_with('O'), Type,
               "got a pointer or an object of type {}; kernels take tensors and numbers", Py_TYPE(o)->tp_name);
  const bool single = format.size() == 1;
  const bool is_integer = single && std::string_view("?bBhHiIlLqQnN").find(format[0]) != std::string_view::npos;
  const bool is_float = format == "f" || format == "d";
  const auto kind = is_integer ? Argument::Kind::Integer : is_float ? Argument::Kind::Float : Argument::Kind::Bytes;
  return {kind, b.buf, static_cast<size_t>(b.len)};
}

Argument argument_of(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o);
  if (PyBool_Check(o)) return Argument::number(o == Py_True);
  if (PyFloat_CheckExact(o)) return Argument::number(PyFloat_AS_DOUBLE(o));
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    const long long value = checked(PyLong_AsLongLongAndOverflow(o, &overflow));
    if (!overflow) return Argument::number(int64_t{value});
    const unsigned long long large = PyLong_AsUnsignedLongLong(o);
    if (!PyErr_Occurred()) return Argument(uint64_t{large});
    PyErr_Clear();
    fail(ErrorKind::Value, "the integer does not fit into 64 bits");
  }
  STRATA_CHECK(PyObject_CheckBuffer(o) && !PyBytes_Check(o) && !PyByteArray_Check(o), Type,
               "got {}; kernels take tensors, numbers, NumPy scalars and ctypes values", Py_TYPE(o)->tp_name);
  return typed_value(o);
}

// _kernel_launch(kernel, grid, block, arguments, shared bytes, strided)
PyObject* launch(PyObject*, PyObject* args) {
  PyObject *kernel, *grid, *block, *values;
  long long shared = 0;
  int strided = 0;
  if (!PyArg_ParseTuple(args, "OOOOLp", &kernel, &grid, &block, &values, &shared, &strided)) return nullptr;
  return guarded([&]() -> PyObject* {
    const KernelHandle& handle = inside<KernelHandle>(kernel);
    STRATA_CHECK(shared >= 0 && shared <= UINT32_MAX, Value, "kernel {}: shared_mem is {}, expected 0 or more bytes",
                 handle.name(), shared);
    const cuda::LaunchConfig config{grid_of(grid, "grid"), grid_of(block, "block"), static_cast<uint32_t>(shared),
                                    strided != 0};
    const Object list(need(PySequence_Fast(values, "args must be a tuple or list")));
    std::vector<Argument> arguments;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
      try {
        arguments.push_back(argument_of(PySequence_Fast_GET_ITEM(list.get(), i)));
      } catch (const Error& e) {
        fail(e.kind(), fmt::format("kernel {}, argument {}: {}", handle.name(), i, e.what()));
      }
    }
    {
      const WithoutGil unlock;
      handle.launch(config, arguments);
    }
    Py_RETURN_NONE;
  });
}

// --- elementwise kernels ---------------------------------------------------------------------------------------------

// _elementwise_create(inputs, outputs, operation, name, options)
PyObject* elementwise_create(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs, *operation, *name, *options;
  if (!PyArg_ParseTuple(args, "OOOOO", &inputs, &outputs, &operation, &name, &options)) return nullptr;
  return guarded([&] {
    return capsule(cuda::Elementwise(text_of(inputs, "in_params"), text_of(outputs, "out_params"),
                                     text_of(operation, "operation"), text_of(name, "name"),
                                     texts_of(options, "options")));
  });
}
// _elementwise_formula(formula, name, options)
PyObject* elementwise_formula(PyObject*, PyObject* args) {
  PyObject *formula, *name, *options;
  if (!PyArg_ParseTuple(args, "OOO", &formula, &name, &options)) return nullptr;
  return guarded([&] {
    return capsule(
      cuda::Elementwise::of(text_of(formula, "the formula"), text_of(name, "name"), texts_of(options, "options")));
  });
}
// The names of the inputs and of the outputs.
template <class K> PyObject* names_of_operands(PyObject*, PyObject* kernel) {
  return guarded([&]() -> PyObject* {
    const auto names_of = [](const std::vector<cuda::ElementwiseParameter>& parameters) {
      std::vector<std::string> out;
      out.reserve(parameters.size());
      for (const cuda::ElementwiseParameter& p : parameters) out.push_back(p.name);
      return list_of(out);
    };
    const auto& k = inside<K>(kernel);
    Object inputs(names_of(k.inputs())), outputs(names_of(k.outputs()));
    return Py_BuildValue("NN", inputs.release(), outputs.release());
  });
}

// Inputs and tensors for the outputs, from two tuples.
struct KernelOperands {
  std::vector<Tensor> held, outs;
  std::vector<Operand> inputs;

  KernelOperands(const std::string& name, PyObject* values, PyObject* outputs) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i) {
      PyObject* o = PyTuple_GET_ITEM(values, i);
      Value number;
      if (is_tensor(o)) {
        held.push_back(tensor_of(o));
        inputs.emplace_back(held.back());
      } else {
        STRATA_CHECK(number_value(o, number), Type, "{}: input {} must be a tensor or a number, got {}", name, i,
                     Py_TYPE(o)->tp_name);
        inputs.emplace_back(number);
      }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outputs); ++i)
      outs.push_back(require_tensor(PyTuple_GET_ITEM(outputs, i), name.c_str()));
  }
};

// _elementwise_call(kernel, inputs, outputs or ()): the outputs as a tuple
PyObject* elementwise_call(PyObject*, PyObject* args) {
  PyObject *kernel, *inputs, *outputs;
  if (!PyArg_ParseTuple(args, "OO!O!", &kernel, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs)) return nullptr;
  return guarded([&] {
    const auto& k = inside<cuda::Elementwise>(kernel);
    const KernelOperands operands(k.name(), inputs, outputs);
    std::vector<Tensor> results;
    with_compile_error([&] {
      const WithoutGil unlock;
      results = k(operands.inputs, operands.outs);
    });
    return wrap_list(results);
  });
}

// --- reductions ------------------------------------------------------------------------------------------------------

// _reduction_create(inputs, outputs, map, reduce, post, identity or None, type or "", name, options)
PyObject* reduction_create(PyObject*, PyObject* args) {
  PyObject *inputs, *outputs, *map, *reduce, *post, *identity, *type, *name, *options;
  if (!PyArg_ParseTuple(args, "OOOOOOOOO", &inputs, &outputs, &map, &reduce, &post, &identity, &type, &name, &options))
    return nullptr;
  return guarded([&] {
    cuda::ReductionFormulas formulas{text_of(map, "map_expr"), text_of(reduce, "reduce_expr"),
                                     text_of(post, "post_map_expr")};
    if (identity != Py_None) formulas.identity = text_of(identity, "identity");
    formulas.type = text_of(type, "reduce_type");
    return capsule(cuda::ReductionKernel(text_of(inputs, "in_params"), text_of(outputs, "out_params"),
                                         std::move(formulas), text_of(name, "name"), texts_of(options, "options")));
  });
}
// _reduction_call(kernel, inputs, outputs or (), axes or None, keepdims): the outputs as a tuple
PyObject* reduction_call(PyObject*, PyObject* args) {
  PyObject *kernel, *inputs, *outputs, *axes;
  int keepdims = 0;
  if (!PyArg_ParseTuple(args, "OO!O!Op", &kernel, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &axes, &keepdims))
    return nullptr;
  return guarded([&] {
    const auto& k = inside<cuda::ReductionKernel>(kernel);
    const KernelOperands operands(k.name(), inputs, outputs);
    cuda::ReductionAxes over{.axes = {}, .keepdims = keepdims != 0};
    if (axes != Py_None) {
      const Object list(need(PySequence_Fast(axes, "axis must be an int or a tuple of ints")));
      over.axes.emplace();
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i)
        over.axes->push_back(checked(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(list.get(), i))));
    }
    std::vector<Tensor> results;
    with_compile_error([&] {
      const WithoutGil unlock;
      results = k(operands.inputs, over, operands.outs);
    });
    return wrap_list(results);
  });
}
}  // namespace

bool init_kernels(PyObject* module) {
  compile_error = PyErr_NewExceptionWithDoc("strata.cuda.CompileError",
                                            "CUDA C++ that does not compile; `log` is the compiler's output.",
                                            PyExc_ValueError, nullptr);
  return compile_error && PyModule_AddObjectRef(module, "_CompileError", compile_error) == 0;
}

PyMethodDef kernel_functions[] = {{"_kernel_compile", compile, METH_VARARGS, nullptr},
                                  {"_kernel_names", names, METH_O, nullptr},
                                  {"_kernel_ptx", ptx, METH_O, nullptr},
                                  {"_kernel_find", find, METH_VARARGS, nullptr},
                                  {"_kernel_parameters", parameters, METH_O, nullptr},
                                  {"_kernel_launch", launch, METH_VARARGS, nullptr},
                                  {"_elementwise_create", elementwise_create, METH_VARARGS, nullptr},
                                  {"_elementwise_formula", elementwise_formula, METH_VARARGS, nullptr},
                                  {"_elementwise_names", names_of_operands<cuda::Elementwise>, METH_O, nullptr},
                                  {"_elementwise_call", elementwise_call, METH_VARARGS, nullptr},
                                  {"_reduction_create", reduction_create, METH_VARARGS, nullptr},
                                  {"_reduction_names", names_of_operands<cuda::ReductionKernel>, METH_O, nullptr},
                                  {"_reduction_call", reduction_call, METH_VARARGS, nullptr},
                                  {}};

}  // namespace strata::python
