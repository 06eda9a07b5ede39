// strata.doctor and strata.devices: what the machine has and what is wrong with it, as JSON for the Python package to read.
#include "python/system.h"
#include "python/texts.h"

#include "system/devices/devices.h"
#include "system/doctor/doctor.h"

namespace strata::python {
namespace {

std::vector<std::string> texts(PyObject* list) {
  std::vector<std::string> out;
  const Object items(need(PySequence_Fast(list, "expected a list of texts")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const char* text = PyUnicode_AsUTF8(PySequence_Fast_GET_ITEM(items.get(), i));
    if (!text) throw PythonError{};
    out.emplace_back(text);
  }
  return out;
}

std::map<std::string, std::string> dict_of_texts(PyObject* dict) {
  std::map<std::string, std::string> out;
  const Object items(need(PyMapping_Items(dict)));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* pair = PyList_GET_ITEM(items.get(), i);
    const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 0)),
               *value = key ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 1)) : nullptr;
    if (!value) throw PythonError{};
    out[key] = value;
  }
  return out;
}

// _doctor(sections, torch, probes, device, root, environment, packages, architectures, seconds): JSON, text, script
PyObject* examine(PyObject*, PyObject* args) {
  PyObject *sections, *environment, *packages;
  int torch, probes;
  const char *device, *root, *architectures;
  double seconds;
  if (!PyArg_ParseTuple(args, "OppssOOzd", &sections, &torch, &probes, &device, &root, &environment, &packages,
                        &architectures, &seconds))
    return nullptr;
  return guarded([&] {
    doctor::Options o;
    o.sections = texts(sections);
    o.torch = torch != 0;
    o.probes = probes != 0;
    o.device = device;
    o.root = root;
    if (environment != Py_None) o.environment = dict_of_texts(environment);
    o.package_folders = texts(packages);
    if (architectures) o.architectures = architectures;
    o.seconds = seconds;
    doctor::Report report;
    {
      const WithoutGil unlock;
      report = doctor::examine(o);
    }
    return need(Py_BuildValue("NNN", text_of(doctor::to_json(report)), text_of(doctor::to_text(report)),
                              text_of(doctor::fix_hints(report))));
  });
}

PyObject* explain(PyObject*, PyObject* args) {
  const char* id;
  if (!PyArg_ParseTuple(args, "s", &id)) return nullptr;
  return guarded([&] { return text_of(doctor::explain(id)); });
}

PyObject* list_checks(PyObject*, PyObject*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (const doctor::CheckInfo& c : doctor::checks())
      append(list, Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "id", c.id.c_str(), "section", c.section.c_str(),
                                 "severity", c.severity == doctor::Severity::Error ? "error" : "warning", "title",
                                 c.title.c_str(), "explanation", c.explanation.c_str(), "fix", c.fix.c_str(), "page",
                                 c.page.c_str()));
    return list.release();
  });
}

PyObject* list_topics(PyObject*, PyObject*) {
  return guarded([&] {
    Object list(need(PyList_New(0)));
    for (const std::string& t : doctor::topics()) append(list, text_of(t));
    return list.release();
  });
}

// _devices_list(measure): JSON, text
PyObject* list_devices(PyObject*, PyObject* args) {
  int measure;
  if (!PyArg_ParseTuple(args, "p", &measure)) return nullptr;
  return guarded([&] {
    std::vector<devices::Info> all;
    {
      const WithoutGil unlock;
      all = devices::list(measure != 0);
    }
    return need(Py_BuildValue("NN", text_of(devices::to_json(all)), text_of(devices::to_text(all, true))));
  });
}

PyObject* device_load(PyObject*, PyObject*) {
  return guarded([&] {
    std::vector<devices::Load> now;
    {
      const WithoutGil unlock;
      now = devices::load();
    }
    return text_of(devices::to_json(now));
  });
}

PyObject* list_dtypes(PyObject*, PyObject*) {
  return guarded([&] {
    const auto all = devices::dtypes();
    return need(Py_BuildValue("NN", text_of(devices::to_json(all)), text_of(devices::to_text(all))));
  });
}
}  // namespace

PyMethodDef system_functions[] = {
  {"_devices_list", list_devices, METH_VARARGS, nullptr}, {"_devices_load", device_load, METH_NOARGS, nullptr},
  {"_devices_dtypes", list_dtypes, METH_NOARGS, nullptr}, {"_doctor", examine, METH_VARARGS, nullptr},
  {"_doctor_explain", explain, METH_VARARGS, nullptr},    {"_doctor_checks", list_checks, METH_NOARGS, nullptr},
  {"_doctor_topics", list_topics, METH_NOARGS, nullptr},  {}};

}  // namespace strata::python
