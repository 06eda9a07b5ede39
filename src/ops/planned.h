// Planned kernels from a function that describes the call in the launcher's terms.
#pragma once
#include "record/op.h"

namespace strata {

template <auto describe, auto prepare, auto run> void add_planned(OpRecord& op, Backend backend, const char* name) {
  op.planned(
    backend, name, [](const Call& c, Plan& plan) { return prepare(describe(c), plan); },
    [](const Call& c, const Plan& plan) { run(describe(c), c, plan); });
}

}  // namespace strata
