// Trace spans of calls from Python.
#pragma once
#include "base/trace.h"
#include "python/binding.h"

namespace strata::python {

void note_line(tracing::Span& span);  // the line of the user's program, as facts

// Around a call of an op from Python: parsing, the call, and the result's object.
struct PythonSpan {
  explicit PythonSpan(const char* name) : span(tracing::Layer::Python, name) {
    if (span.active()) [[unlikely]]
      note_line(span);
  }
  tracing::Span span;
};

extern PyMethodDef trace_functions[];

}  // namespace strata::python
