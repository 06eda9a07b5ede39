// Arguments with one number per spatial dimension.
#pragma once
#include "record/args.h"

namespace strata {

// A list with an entry per spatial dimension, from a list of one or of all.
inline void spread(const char* op, const char* name, IntList l, int dims, int64_t least, int64_t* to) {
  STRATA_CHECK(l.size == 1 || static_cast<int>(l.size) == dims, Runtime,
               "{}: {} must be a single int or {} of them, got {}", op, name, dims, to_string(l));
  for (int d = 0; d < dims; ++d) {
    to[d] = l[l.size == 1 ? 0 : static_cast<size_t>(d)];
    STRATA_CHECK(to[d] >= least, Runtime, "{}: {} must be {}, got {}", op, name,
                 least ? "greater than zero" : "non-negative (negative padding is not supported)", to_string(l));
    STRATA_CHECK(to[d] < int64_t{1} << 40, Runtime, "{}: {} {} is too large", op, name, to[d]);
  }
}

}  // namespace strata
