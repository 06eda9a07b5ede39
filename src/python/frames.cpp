// The location in the Python program of a call.
#include "python/binding.h"

#include <fmt/core.h>

namespace strata::python {
namespace {

// Names of files and functions need not be valid UTF-8.
std::string file_of(PyFrameObject* frame) {
  const Object code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return shown(reinterpret_cast<PyCodeObject*>(code.get())->co_filename);
}

// The folder of the package, with a trailing slash; empty if unknown.
std::string package_folder() {
  const Object module(PyImport_ImportModule("strata"));
  const Object file(module ? PyModule_GetFilenameObject(module.get()) : nullptr);
  const char* text = file ? PyUnicode_AsUTF8(file.get()) : nullptr;
  if (!text) PyErr_Clear();
  const std::string_view path = text ? text : "";
  return std::string(path.substr(0, path.rfind('/') + 1));
}

bool of_this_package(PyFrameObject* frame) {
  static const std::string folder = package_folder();
  return !folder.empty() && file_of(frame).starts_with(folder);
}
}  // namespace

int frames_of_package() {
  int count = 0;
  Object frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  for (; frame && of_this_package(reinterpret_cast<PyFrameObject*>(frame.get())); ++count)
    frame = Object(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.get()))));
  return count;
}

std::string python_line(bool of_the_user) {
  if (!Py_IsInitialized()) return {};
  const WithGil gil;
  Object frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  const auto top = [&] { return reinterpret_cast<PyFrameObject*>(frame.get()); };
  if (of_the_user) {
    while (frame && of_this_package(top())) frame = Object(reinterpret_cast<PyObject*>(PyFrame_GetBack(top())));
  }
  if (!frame) return {};
  const Object code(reinterpret_cast<PyObject*>(PyFrame_GetCode(top())));
  const auto* c = reinterpret_cast<PyCodeObject*>(code.get());
  return fmt::format("File \"{}\", line {}, in {}", file_of(top()), PyFrame_GetLineNumber(top()), shown(c->co_name));
}

}  // namespace strata::python
