// strata.doctor.
#pragma once
#include "python/binding.h"

namespace strata::python {

extern PyMethodDef doctor_functions[];

}  // namespace strata::python
