// A deferred op on rows that is computed without its group, on a device.
#pragma once
#include "record/rows.h"

namespace strata {

// RowOp::alone of a call: runs the op's own kernel, with the call's arguments except for the operands of `rows`.
decltype(RowOp::alone) lone_call(const Call& c, const RowOp& rows);

}  // namespace strata
