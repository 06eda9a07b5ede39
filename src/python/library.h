// Custom ops: callables of records that are defined at run time.
#pragma once
#include "python/binding.h"

namespace strata::python {

// A dict from names to callables, as make_ops().
PyObject* callables_of(const std::vector<const OpRecord*>& ops);

extern PyMethodDef library_functions[];

}  // namespace strata::python
