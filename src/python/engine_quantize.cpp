// Calibration of networks for int8.
#include "engine/quantize/calibrate.h"
#include "python/binding.h"
#include "python/engine_network.h"
#include "python/files.h"
#include "python/kernels.h"
#include "python/onnx_values.h"

namespace strata::python {
namespace {

// _engine_network_of(engine)
PyObject* network_of(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const SharedEngine e = inside<SharedEngine>(o);
    return capsule(SharedNetwork(e, &e->network()));
  });
}

// _engine_calibrate(network, next, method, percentile, max_error): the table as text. next() returns a list of inputs, or None.
PyObject* calibrate(PyObject*, PyObject* args) {
  PyObject *network, *next, *method;
  engine::CalibrationOptions options;
  if (!PyArg_ParseTuple(args, "OOUdd", &network, &next, &method, &options.percentile, &options.max_error))
    return nullptr;
  return guarded([&]() -> PyObject* {
    options.method = engine::calibrator_of(text_of(method, "the name of a method"));
    const SharedNetwork n = inside<SharedNetwork>(network);
    const auto sample = [&]() -> std::optional<onnx::Values> {
      const WithGil lock;
      const Object list(need(PyObject_CallNoArgs(next)));
      if (list.get() == Py_None) return {};
      return onnx_values_of(list.get());
    };
    std::string text;
    {
      const WithoutGil free;
      text = engine::to_string(engine::calibrate(*n, sample, options));
    }
    return need(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  });
}

// _engine_quantize(network, inputs, table, path): the number of layers in int8
PyObject* quantize(PyObject*, PyObject* args) {
  PyObject *network, *list, *table, *file;
  if (!PyArg_ParseTuple(args, "OOUO", &network, &list, &table, &file)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedNetwork n = inside<SharedNetwork>(network);
    const onnx::Values inputs = onnx_values_of(list);
    const engine::CalibrationTable known = engine::table_of(text_of(table, "a calibration table"));
    Path path;
    if (!PyUnicode_FSConverter(file, &path.bytes)) throw PythonError{};
    size_t layers = 0;
    {
      const WithoutGil free;
      layers = engine::save_quantized(*n, inputs, known, path.text());
    }
    return need(PyLong_FromSize_t(layers));
  });
}

}  // namespace

PyMethodDef engine_quantize_functions[] = {{"_engine_network_of", network_of, METH_O, nullptr},
                                           {"_engine_calibrate", calibrate, METH_VARARGS, nullptr},
                                           {"_engine_quantize", quantize, METH_VARARGS, nullptr},
                                           {nullptr, nullptr, 0, nullptr}};

}  // namespace strata::python
