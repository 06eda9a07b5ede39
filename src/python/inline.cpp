// strata.cuda.load_inline with host functions: compiling them and calling them with Python values.
#include "cuda/custom/inline.h"

#include <fmt/core.h>

#include "python/capsule.h"
#include "python/kernels.h"

namespace strata::python {

using cuda::ExtensionFunction;
using cuda::ExtensionValue;
template <> constexpr const char* kCapsule<ExtensionFunction> = "strata.extension_function";

namespace {

ExtensionValue value_of(PyObject* o, const std::string& what, int depth = 0) {
  if (o == Py_None) return {};
  if (is_tensor(o)) return tensor_of(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (is_dtype(o)) return dtype_of_object(o);
  if (PyUnicode_Check(o)) return text_of(o, what.c_str());
  if (PyFloat_Check(o)) return checked(PyFloat_AsDouble(o));
  if (PyList_Check(o) || PyTuple_Check(o)) {
    STRATA_CHECK(depth < 8, Value, "{}: lists are nested too deeply", what);
    ExtensionValue all;
    all.kind = PyList_Check(o) ? ExtensionValue::Kind::List : ExtensionValue::Kind::Tuple;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      const Object item(Py_NewRef(PySequence_Fast_GET_ITEM(o, i)));
      all.list.push_back(value_of(item.get(), what, depth + 1));
    }
    return all;
  }
  if (PyIndex_Check(o)) {
    const Object number(need(PyNumber_Index(o)));
    int overflow = 0;
    const long long value = checked(PyLong_AsLongLongAndOverflow(number.get(), &overflow));
    STRATA_CHECK(!overflow, Value, "{}: the int does not fit into 64 bits", what);
    return int64_t{value};
  }
  Value number;  // of NumPy
  STRATA_CHECK(number_value(o, number), Type, "{}: values of type {} cannot be passed to C++ functions", what,
               Py_TYPE(o)->tp_name);
  return checked(PyFloat_AsDouble(o));
}

PyObject* object_of(const ExtensionValue& v) {
  using Kind = ExtensionValue::Kind;
  switch (v.kind) {
    case Kind::None: break;
    case Kind::Bool: return PyBool_FromLong(v.i != 0);
    case Kind::Int: return need(PyLong_FromLongLong(v.i));
    case Kind::Float: return need(PyFloat_FromDouble(v.f));
    case Kind::Text:
      return need(PyUnicode_DecodeUTF8(v.text.data(), static_cast<Py_ssize_t>(v.text.size()), "replace"));
    case Kind::Tensor: return wrap(v.tensor);
    case Kind::DType: return wrap(static_cast<DType>(v.i));
    case Kind::List:
    case Kind::Tuple: {
      Object list(need(PyList_New(0)));
      for (const ExtensionValue& e : v.list) append(list, object_of(e));
      return v.kind == Kind::List ? list.release() : need(PyList_AsTuple(list.get()));
    }
  }
  Py_RETURN_NONE;
}

// _inline_load(name, cpp sources, cuda sources, functions, docs, cflags, cuda cflags, ldflags, include paths, folder):
// [(name, doc, types of the parameters, function)]
PyObject* inline_load(PyObject*, PyObject* args) {
  PyObject *name, *cpp, *cuda_sources, *functions, *docs, *cflags, *cuda_cflags, *ldflags, *paths, *folder;
  if (!PyArg_ParseTuple(args, "OOOOOOOOOO", &name, &cpp, &cuda_sources, &functions, &docs, &cflags, &cuda_cflags,
                        &ldflags, &paths, &folder))
    return nullptr;
  return guarded([&] {
    cuda::InlineOptions o{.name = text_of(name, "name"),
                          .cpp_sources = texts_of(cpp, "cpp_sources"),
                          .cuda_sources = texts_of(cuda_sources, "cuda_sources"),
                          .functions = {},
                          .cflags = texts_of(cflags, "extra_cflags"),
                          .cuda_cflags = texts_of(cuda_cflags, "extra_cuda_cflags"),
                          .ldflags = texts_of(ldflags, "extra_ldflags"),
                          .include_paths = texts_of(paths, "extra_include_paths"),
                          .build_directory = text_of(folder, "build_directory")};
    const std::vector<std::string> names = texts_of(functions, "functions"), texts = texts_of(docs, "docs");
    STRATA_CHECK(names.size() == texts.size(), Value, "load_inline: {} functions have {} docs", names.size(),
                 texts.size());
    for (size_t i = 0; i < names.size(); ++i) o.functions.emplace_back(names[i], texts[i]);
    std::vector<ExtensionFunction> made;
    with_compile_error([&] {
      const WithoutGil unlock;
      made = cuda::load_inline(o).functions();
    });
    Object list(need(PyList_New(0)));
    for (const ExtensionFunction& f : made)
      append(list, Py_BuildValue("ssNN", f.name.c_str(), f.doc.c_str(), list_of(f.parameters), capsule(f)));
    return list.release();
  });
}

// _inline_call(function, arguments)
PyObject* inline_call(PyObject*, PyObject* args) {
  PyObject *function, *values;
  if (!PyArg_ParseTuple(args, "OO!", &function, &PyTuple_Type, &values)) return nullptr;
  return guarded([&] {
    const auto& f = inside<ExtensionFunction>(function);
    std::vector<ExtensionValue> arguments;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(values); ++i)
      arguments.push_back(value_of(PyTuple_GET_ITEM(values, i), fmt::format("{}(): argument {}", f.name, i + 1)));
    ExtensionValue result;
    with_compile_error([&] {
      const WithoutGil unlock;
      result = f(arguments);
    });
    return object_of(result);
  });
}
}  // namespace

PyMethodDef inline_functions[] = {
  {"_inline_load", inline_load, METH_VARARGS, nullptr}, {"_inline_call", inline_call, METH_VARARGS, nullptr}, {}};

}  // namespace strata::python
