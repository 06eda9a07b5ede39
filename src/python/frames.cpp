// The location in the Python program of a call.
#include "python/trace.h"

#include <fmt/core.h>

#include <array>

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

namespace {
struct Line {
  PyObject* code = nullptr;  // owned, so that no other code object gets its address
  const char *file = nullptr, *function = nullptr;
};

// The file and function of a code object; those of recent ones are kept.
const Line& line_of(PyObject* code) {
  using Lines = std::array<Line, 64>;
  static thread_local Lines* recent = nullptr;  // thread-local memory of libraries is scarce
  if (!recent) recent = new Lines;              // kept: the interpreter may be gone when the thread ends
  Line& l = (*recent)[(reinterpret_cast<uintptr_t>(code) >> 6) % recent->size()];
  if (l.code == code) return l;
  const auto* c = reinterpret_cast<PyCodeObject*>(code);
  PyObject* before = l.code;
  l = {Py_NewRef(code), tracing::intern(shown(c->co_filename)), tracing::intern(shown(c->co_name))};
  Py_XDECREF(before);
  return l;
}

bool is_of_package(const char* file) {
  static const std::string folder = package_folder();
  return !folder.empty() && std::string_view(file).starts_with(folder);
}
}  // namespace

void note_line(tracing::Span& span) {
  Object frame(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* top = reinterpret_cast<PyFrameObject*>(frame.get());
    const Object code(reinterpret_cast<PyObject*>(PyFrame_GetCode(top)));
    const Line& l = line_of(code.get());
    if (!is_of_package(l.file)) {
      span.text(tracing::key::file, l.file);
      span.fact(tracing::key::line, PyFrame_GetLineNumber(top));
      span.text(tracing::key::function, l.function);
      return;
    }
    frame = Object(reinterpret_cast<PyObject*>(PyFrame_GetBack(top)));
  }
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
