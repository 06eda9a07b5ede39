// Products with an epilogue of the user from Python (strata.gemm).
#include "cuda/custom/gemm.h"

#include <fmt/core.h>

#include "python/capsule.h"
#include "python/kernels.h"

namespace strata::python {

template <> constexpr const char* kCapsule<gemm::Kernel> = "strata.gemm";

namespace {

// A tuple of N ints.
template <size_t N> std::array<int, N> ints_of(PyObject* o, const char* what) {
  const std::string message = fmt::format("gemm: {} must be a tuple of {} ints", what, N);
  const Object list(need(PySequence_Fast(o, message.c_str())));
  STRATA_CHECK(PySequence_Fast_GET_SIZE(list.get()) == N, Value, "{}, got {}", message,
               PySequence_Fast_GET_SIZE(list.get()));
  std::array<int, N> out;
  for (size_t i = 0; i < N; ++i) {
    const Object number(need(PyNumber_Index(PySequence_Fast_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i)))));
    int overflow = 0;
    const long value = checked(PyLong_AsLongAndOverflow(number.get(), &overflow));
    STRATA_CHECK(!overflow && value > 0 && value <= 1024, Value, "gemm: a size of {} is out of range", what);
    out[i] = static_cast<int>(value);
  }
  return out;
}

// _gemm_create(dtype, tile or None, stages or 0, warps or None, (epilogue, second or None), (out_dtype or None, dtype of
// the second result or None), preamble, name, options, tf32, amax)
PyObject* create(PyObject*, PyObject* args) {
  PyObject *dtype, *tile, *warps, *epilogue, *second, *out_dtype, *second_dtype, *preamble, *name, *options;
  int stages = 0, tf32 = 0, amax = 0;
  if (!PyArg_ParseTuple(args, "OOiO(OO)(OO)OOOpp", &dtype, &tile, &stages, &warps, &epilogue, &second, &out_dtype,
                        &second_dtype, &preamble, &name, &options, &tf32, &amax))
    return nullptr;
  return guarded([&] {
    gemm::Config c;
    c.dtype = dtype_of_object(dtype);
    if (tile != Py_None) c.tile = ints_of<3>(tile, "tile");
    c.stages = stages;
    if (warps != Py_None) c.warps = ints_of<2>(warps, "warps");
    c.epilogue = text_of(epilogue, "epilogue");
    if (second != Py_None) c.second = text_of(second, "epilogue");
    STRATA_CHECK(second == Py_None || !c.second.empty(), Value,
                 "gemm: the second epilogue is empty; expected an expression such as \"acc\"");
    if (out_dtype != Py_None) c.out_dtype = dtype_of_object(out_dtype);
    if (second_dtype != Py_None) c.second_dtype = dtype_of_object(second_dtype);
    c.tf32 = tf32 != 0;
    c.amax = amax != 0;
    c.preamble = text_of(preamble, "preamble");
    c.name = text_of(name, "name");
    c.options = texts_of(options, "options");
    return capsule(gemm::compile(c));
  });
}

// _gemm_describe(kernel): tile, stages, warps, bytes of shared memory, [(name, number of indices, whether by column)]
PyObject* describe(PyObject*, PyObject* kernel) {
  return guarded([&]() -> PyObject* {
    const auto& k = inside<gemm::Kernel>(kernel);
    const gemm::Config& c = k.config();
    Object extras(need(PyList_New(0)));
    for (const gemm::ExtraUse& x : k.extras())
      append(extras, Py_BuildValue("siN", x.name.c_str(), static_cast<int>(x.kind), PyBool_FromLong(x.by_column)));
    return Py_BuildValue("(iii)i(ii)IN", c.tile[0], c.tile[1], c.tile[2], c.stages, c.warps[0], c.warps[1],
                         k.shared_bytes(), extras.release());
  });
}

// _gemm_call(kernel, a, b, {name: tensor or number}, tuple of outputs, may be empty): a tuple of results
PyObject* call(PyObject*, PyObject* args) {
  PyObject *kernel, *a, *b, *named, *outs;
  if (!PyArg_ParseTuple(args, "OOOO!O!", &kernel, &a, &b, &PyDict_Type, &named, &PyTuple_Type, &outs)) return nullptr;
  return guarded([&]() -> PyObject* {
    const auto& k = inside<gemm::Kernel>(kernel);
    const char* who = k.config().name.c_str();
    const Tensor left = require_tensor(a, who), right = require_tensor(b, who);
    std::vector<Tensor> to;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(outs); ++i)
      to.push_back(require_tensor(PyTuple_GET_ITEM(outs, i), who));
    std::vector<gemm::Named> extras;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(named, &at, &key, &value);) {
      const std::string name = text_of(key, "the name of an operand");
      Value number;
      if (is_tensor(value)) {
        number = Value(reinterpret_cast<PyTensor*>(value)->impl);
      } else {
        STRATA_CHECK(number_value(value, number), Type, "{}: '{}' must be a tensor or a number, got {}", who, name,
                     Py_TYPE(value)->tp_name);
      }
      extras.push_back({name, Operand(number)});
    }
    std::vector<Tensor> results;
    with_compile_error([&] {
      const WithoutGil unlock;
      results = k.all(left, right, extras, to);
    });
    Object list(need(PyTuple_New(static_cast<Py_ssize_t>(results.size()))));
    for (size_t i = 0; i < results.size(); ++i)
      PyTuple_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), need(wrap(std::move(results[i]))));
    return list.release();
  });
}
}  // namespace

PyMethodDef gemm_functions[] = {{"_gemm_create", create, METH_VARARGS, nullptr},
                                {"_gemm_describe", describe, METH_O, nullptr},
                                {"_gemm_call", call, METH_VARARGS, nullptr},
                                {}};

}  // namespace strata::python
