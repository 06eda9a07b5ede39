// The kernels that calls considered, as a list of (op, kernel, reason).
#pragma once
#include "python/binding.h"
#include "record/op.h"

namespace strata::python {

inline PyObject* considered_lines(const std::vector<Explanation::Line>& considered) {
  Object lines(need(PyList_New(0)));
  for (const Explanation::Line& line : considered)
    if (!line.behind)
      append(lines, Py_BuildValue("(sss)", line.op->name.c_str(), line.kernel->name, verdict(line).c_str()));
  return lines.release();
}

}  // namespace strata::python
