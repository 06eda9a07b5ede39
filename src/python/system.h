// strata.doctor and strata.devices.
#pragma once
#include "python/binding.h"

namespace strata::python {

extern PyMethodDef system_functions[], explain_functions[];

}  // namespace strata::python
