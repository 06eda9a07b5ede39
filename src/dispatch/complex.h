// Calls with complex tensors, for ops whose kernels compute with real numbers.
#pragma once
#include "record/op.h"

namespace strata {

// Whether a tensor of the arguments is complex.
inline bool has_complex(const Args& args) {
  for (const Value& v : args) {
    if (v.tag == Tag::Tensor) {
      if (is_complex(v.tensor->dtype)) [[unlikely]]
        return true;
    } else if (v.tag == Tag::Tensors) {
      for (const Tensor& t : v.tensor_list())
        if (t && is_complex(t.dtype())) [[unlikely]]
          return true;
    }
  }
  return false;
}

// Throws if the op does not accept complex tensors. Called if there is one.
void check_accepts_complex(const OpRecord& op, const Args& args);

// Runs a kernel for a linear op, or one that moves elements: once with the real parts of all complex tensors, once with the
// imaginary parts. A number that is a value and not a factor (a fill value) is split too.
void run_by_parts(const Call& c, void (*run)(const Call&));

}  // namespace strata
