// Scans on a device.
#pragma once
#include "record/kernel.h"
#include "record/kinds.h"

namespace strata::cuda {

struct ScanCall {
  const TensorImpl& x;
  int dim;
  const TensorImpl& out;
  Scan kind = Scan::Sum;
  const TensorImpl* places = nullptr;  // indices: a scan for extremes instead of `kind`
  bool largest = false;                // of the extremes
};
const char* plan_scan(const ScanCall& s, Plan& plan);
void run_scan(const ScanCall& s, const Call& c, const Plan& plan);

}  // namespace strata::cuda
