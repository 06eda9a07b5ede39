// where() of contiguous tensors of one type on a device.
#pragma once
#include "record/kernel.h"

namespace strata::cuda {

const char* where_ready(const Call& c);
void run_where(const Call& c);

}  // namespace strata::cuda
