// Engines: networks, engines and contexts are capsules here; python/strata/engine gives them classes.
#include <fmt/core.h>

#include "engine/builder.h"
#include "engine/plan.h"
#include "engine/report.h"
#include "python/binding.h"
#include "python/capsule.h"
#include "python/engine_network.h"
#include "python/files.h"
#include "python/graph_capsule.h"
#include "python/kernels.h"
#include "python/onnx_values.h"
#include "strata/ops/movement/copy.h"

namespace strata::python {

using SharedContext = std::shared_ptr<engine::ExecutionContext>;
template <> constexpr const char* kCapsule<SharedContext> = "strata.engine.context";

namespace {

std::vector<int64_t> sizes_of(PyObject* o) {
  const Object items(need(PySequence_Fast(o, "engine: expected a list of sizes")));
  std::vector<int64_t> sizes;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
    sizes.push_back(checked(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(items.get(), i))));
  return sizes;
}
// [{input: (min, opt, max)}, ...]
std::vector<engine::OptimizationProfile> profiles_of(PyObject* list) {
  const Object items(need(PySequence_Fast(list, "engine: expected a list of profiles")));
  std::vector<engine::OptimizationProfile> profiles;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    engine::OptimizationProfile& p = profiles.emplace_back();
    PyObject *name, *ranges;
    Py_ssize_t at = 0;
    PyObject* dict = PySequence_Fast_GET_ITEM(items.get(), i);
    STRATA_CHECK(PyDict_Check(dict), Type, "engine: a profile is a dict of (min, opt, max) by input, got {}",
                 Py_TYPE(dict)->tp_name);
    while (PyDict_Next(dict, &at, &name, &ranges)) {
      const Object three(need(PySequence_Fast(ranges, "engine: expected (min, opt, max)")));
      STRATA_CHECK(PySequence_Fast_GET_SIZE(three.get()) == 3, Value,
                   "engine: expected (min, opt, max), found {} items", PySequence_Fast_GET_SIZE(three.get()));
      const auto part = [&](Py_ssize_t k) { return sizes_of(PySequence_Fast_GET_ITEM(three.get(), k)); };
      p.set(text_of(name, "the name of an input"), part(0), part(1), part(2));
    }
  }
  return profiles;
}
engine::BuilderConfig config_of(PyObject* dict) {
  engine::BuilderConfig c;
  const auto item = [&](const char* key) { return PyDict_GetItemString(dict, key); };
  const auto flag = [&](const char* key, bool& value) {
    if (PyObject* o = item(key)) value = truth_of(o);
  };
  const auto size = [&](const char* key, size_t& value) {
    if (PyObject* o = item(key)) value = checked(PyLong_AsSize_t(o));
  };
  flag("fp16", c.fp16);
  flag("bf16", c.bf16);
  flag("int8", c.int8);
  flag("cuda_graphs", c.cuda_graphs);
  flag("graphs_now", c.graphs_now);
  size("workspace_limit", c.workspace_limit);
  size("most_specializations", c.most_specializations);
  size("most_bytes", c.most_bytes);
  if (PyObject* o = item("level")) c.level = static_cast<int>(checked(PyLong_AsLong(o)));
  if (PyObject* o = item("time_limit")) c.time_limit = checked(PyFloat_AsDouble(o));
  if (PyObject* o = item("timing_cache"); o && o != Py_None) {
    Path path;
    if (!PyUnicode_FSConverter(o, &path.bytes)) throw PythonError{};
    c.timing_cache = path.text();
  }
  if (PyObject* o = item("profiles")) c.profiles = profiles_of(o);
  if (PyObject* o = item("calibration")) c.calibration = engine::table_of(text_of(o, "a calibration table"));
  if (PyObject* o = item("progress"); o && o != Py_None)
    c.progress = [o](const std::string& what, double done) {
      const WithGil lock;
      const Object answer(need(or_sleep_at_exit([&] { return PyObject_CallFunction(o, "sd", what.c_str(), done); })));
      return answer.get() == Py_None || truth_of(answer.get());
    };
  return c;
}

// --- networks ---------------------------------------------------------------------------------------------------------
// _engine_network(path or bytes, device)
PyObject* network_of_model(PyObject*, PyObject* args) {
  PyObject *source, *device;
  if (!PyArg_ParseTuple(args, "OO", &source, &device)) return nullptr;
  return guarded([&]() -> PyObject* {
    const Device where = device_of_object(device);
    onnx::Model model = onnx_model_of(source);
    SharedNetwork network;
    {
      const WithoutGil free;
      network = std::make_shared<engine::OnnxNetwork>(std::move(model), where);
    }
    return capsule(std::move(network));
  });
}
// _engine_network_of_loaded(the network of a strata.onnx.Model), which both share
PyObject* network_of_loaded(PyObject*, PyObject* o) {
  return guarded([&] { return capsule<SharedNetwork>(std::make_shared<engine::OnnxNetwork>(onnx_network_of(o))); });
}
std::vector<std::string> names_of(PyObject* list) {
  std::vector<std::string> names;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    names.push_back(text_of(PyList_GET_ITEM(list, i), "the name of a value"));
  return names;
}
// _engine_network_of_graph(graph, device, input names, output names): weights are copied
PyObject* network_of_graph(PyObject*, PyObject* args) {
  PyObject *o, *device, *inputs, *outputs;
  if (!PyArg_ParseTuple(args, "OOO!O!", &o, &device, &PyList_Type, &inputs, &PyList_Type, &outputs)) return nullptr;
  return guarded([&]() -> PyObject* {
    graph::Graph g = inside<graph::Graph>(o);
    const engine::PortNames names{names_of(inputs), names_of(outputs)};
    const autograd::NoGrad off;
    for (graph::Graph::State& s : g.states) s.tensor = clone(s.tensor);
    return capsule<SharedNetwork>(
      std::make_shared<engine::GraphNetwork>(std::move(g), device_of_object(device), names));
  });
}

// --- engines ----------------------------------------------------------------------------------------------------------
// _engine_build(network, config)
PyObject* build(PyObject*, PyObject* args) {
  PyObject *network, *config;
  if (!PyArg_ParseTuple(args, "OO!", &network, &PyDict_Type, &config)) return nullptr;
  return guarded([&]() -> PyObject* {
    engine::BuilderConfig c = config_of(config);
    const SharedNetwork n = inside<SharedNetwork>(network);
    SharedEngine made;
    {
      const WithoutGil free;
      made = engine::build(n, std::move(c));
    }
    return capsule(std::move(made));
  });
}
// _engine_describe(engine): JSON
PyObject* describe(PyObject*, PyObject* o) {
  return guarded([&] { return text_object(engine::describe(*inside<SharedEngine>(o))); });
}
PyObject* device_of(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(inside<SharedEngine>(o)->device()); });
}
// _engine_save(engine, path or None, description): None, or the bytes
PyObject* save(PyObject*, PyObject* args) {
  PyObject *o, *path;
  if (!PyArg_ParseTuple(args, "OO", &o, &path)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedEngine e = inside<SharedEngine>(o);
    if (path == Py_None) {
      std::string bytes;
      {
        const WithoutGil free;
        bytes = engine::plan_bytes(*e);
      }
      return need(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
    }
    Path where;
    if (!PyUnicode_FSConverter(path, &where.bytes)) throw PythonError{};
    const WithoutGil free;
    engine::save_plan(*e, where.text());
    return Py_NewRef(Py_None);
  });
}
// _engine_load(path or bytes, device or None, config)
PyObject* load(PyObject*, PyObject* args) {
  PyObject *source, *device;
  if (!PyArg_ParseTuple(args, "OO", &source, &device)) return nullptr;
  return guarded([&]() -> PyObject* {
    std::optional<Device> where;
    if (device != Py_None) where = device_of_object(device);
    std::shared_ptr<FileBytes> file;
    Path path;
    if (PyBytes_Check(source))
      file = FileBytes::copy(
        {reinterpret_cast<const std::byte*>(PyBytes_AS_STRING(source)), static_cast<size_t>(PyBytes_GET_SIZE(source))},
        "<bytes>");
    else if (!PyUnicode_FSConverter(source, &path.bytes)) throw PythonError{};
    SharedEngine e;
    {
      const WithoutGil free;
      if (!file) file = FileBytes::map(path.text());
      e = engine::read_plan(file, where);
    }
    return capsule(std::move(e));
  });
}

// --- contexts ---------------------------------------------------------------------------------------------------------
PyObject* context(PyObject*, PyObject* o) {
  return guarded([&] { return capsule(SharedContext(inside<SharedEngine>(o)->create_context())); });
}
// _engine_run(context, inputs, outputs or None): a list of outputs
PyObject* run(PyObject*, PyObject* args) {
  PyObject *o, *list, *given;
  if (!PyArg_ParseTuple(args, "OO!O", &o, &PyList_Type, &list, &given)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedContext c = inside<SharedContext>(o);
    const onnx::Values inputs = onnx_values_of(list);
    if (given == Py_None) {
      onnx::Values outputs;
      {
        const WithoutGil free;
        outputs = c->run(inputs);
      }
      return list_of(outputs);
    }
    STRATA_CHECK(PyList_Check(given), Type, "engine: expected a list of outputs");
    std::vector<Tensor> outputs;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(given); ++i) {
      PyObject* item = PyList_GET_ITEM(given, i);
      outputs.push_back(item == Py_None ? Tensor() : require_tensor(item, "engine"));
    }
    {
      const WithoutGil free;
      c->run_into(inputs, outputs);
    }
    Object results(need(PyList_New(0)));
    for (Tensor& t : outputs) append(results, wrap(std::move(t)));
    return results.release();
  });
}
// _engine_state(context): (how it ran last, bytes of memory)
PyObject* state(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    const engine::ExecutionContext& c = *inside<SharedContext>(o);
    return need(Py_BuildValue("(Nn)", text_object(c.last_mode()), static_cast<Py_ssize_t>(c.bytes())));
  });
}

// --- reports ----------------------------------------------------------------------------------------------------------
// _engine_inspect(engine, inputs): JSON
PyObject* inspect(PyObject*, PyObject* args) {
  PyObject *o, *list;
  if (!PyArg_ParseTuple(args, "OO!", &o, &PyList_Type, &list)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedEngine e = inside<SharedEngine>(o);
    const onnx::Values inputs = onnx_values_of(list);
    std::string text;
    {
      const WithoutGil free;
      text = engine::describe(*e, inputs);
    }
    return text_object(text);
  });
}
// _engine_profile(context, inputs, times, form, title, peak FLOP/s, peak bytes/s): a text
PyObject* profile(PyObject*, PyObject* args) {
  PyObject *o, *list;
  int times;
  const char *form, *title;
  Py_ssize_t title_size;
  engine::Peaks peaks;
  if (!PyArg_ParseTuple(args, "OO!iss#dd", &o, &PyList_Type, &list, &times, &form, &title, &title_size, &peaks.flops,
                        &peaks.bytes))
    return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedContext c = inside<SharedContext>(o);
    const onnx::Values inputs = onnx_values_of(list);
    std::string text;
    {
      const WithoutGil free;
      const std::vector<engine::LayerProfile> layers = engine::profile(*c, inputs, times);
      const std::string_view how = form;
      text = how == "html"   ? engine::profile_html(layers, peaks, std::string(title, static_cast<size_t>(title_size)))
             : how == "json" ? engine::profile_json(layers, peaks)
                             : engine::profile_text(layers, peaks);
    }
    return text_object(text);
  });
}
// _engine_accuracy(engine, inputs, form): a text
PyObject* accuracy(PyObject*, PyObject* args) {
  PyObject *o, *list;
  const char* form;
  if (!PyArg_ParseTuple(args, "OO!s", &o, &PyList_Type, &list, &form)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedEngine e = inside<SharedEngine>(o);
    const onnx::Values inputs = onnx_values_of(list);
    std::string text;
    {
      const WithoutGil free;
      const std::vector<engine::LayerError> layers = engine::accuracy(*e, inputs);
      text = std::string_view(form) == "json" ? engine::accuracy_json(layers) : engine::accuracy_text(layers);
    }
    return text_object(text);
  });
}
// _engine_tune(engine, inputs, seconds, timing cache or None): how many layers had a choice
PyObject* tune(PyObject*, PyObject* args) {
  PyObject *o, *list, *cache;
  double seconds;
  if (!PyArg_ParseTuple(args, "OO!dO", &o, &PyList_Type, &list, &seconds, &cache)) return nullptr;
  return guarded([&]() -> PyObject* {
    const SharedEngine e = inside<SharedEngine>(o);
    const onnx::Values inputs = onnx_values_of(list);
    Path path;
    if (cache != Py_None && !PyUnicode_FSConverter(cache, &path.bytes)) throw PythonError{};
    size_t layers = 0;
    {
      const WithoutGil free;
      engine::TimingCache times = path.bytes ? engine::TimingCache::read(path.text()) : engine::TimingCache();
      layers = engine::tune(*e, inputs, seconds, times);
      if (path.bytes) times.write(path.text());
    }
    return need(PyLong_FromSize_t(layers));
  });
}

}  // namespace

PyMethodDef engine_functions[] = {{"_engine_network", network_of_model, METH_VARARGS, nullptr},
                                  {"_engine_network_of_loaded", network_of_loaded, METH_O, nullptr},
                                  {"_engine_network_of_graph", network_of_graph, METH_VARARGS, nullptr},
                                  {"_engine_build", build, METH_VARARGS, nullptr},
                                  {"_engine_describe", describe, METH_O, nullptr},
                                  {"_engine_device", device_of, METH_O, nullptr},
                                  {"_engine_save", save, METH_VARARGS, nullptr},
                                  {"_engine_load", load, METH_VARARGS, nullptr},
                                  {"_engine_context", context, METH_O, nullptr},
                                  {"_engine_run", run, METH_VARARGS, nullptr},
                                  {"_engine_state", state, METH_O, nullptr},
                                  {"_engine_inspect", inspect, METH_VARARGS, nullptr},
                                  {"_engine_profile", profile, METH_VARARGS, nullptr},
                                  {"_engine_accuracy", accuracy, METH_VARARGS, nullptr},
                                  {"_engine_tune", tune, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

}  // namespace strata::python
