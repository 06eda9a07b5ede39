// Custom ops in C++: records that a program or a shared library defines at run time. They have everything that Strata's
// own ops have: a shape rule, kernels per back end, a gradient, explain() and traces.
//
//   STRATA_LIBRARY() {
//     strata::library::custom_op("mine::twice(Tensor input) -> Tensor")
//       .composite([](const Tensor& input) { return input * 2; });
//   }
//
// Python: strata.ops.load_library("libmine.so"), then strata.ops.mine.twice(x).
#pragma once
#include <string>
#include <vector>

#include "record/op.h"

namespace strata::library {

// A new op with a name of the form "namespace::name", to be completed with the builder of OpRecord. Complete it before
// another thread calls it. Throws Value for a schema that is invalid or a name that is taken.
STRATA_API OpRecord& custom_op(const std::string& schema);

// Differs if structs that a library and libstrata share have other sizes: they were built with different headers.
constexpr size_t layout() {
  size_t mix = 0;
  for (const size_t size : {sizeof(OpRecord), sizeof(Param), sizeof(Kernel), sizeof(Plan), sizeof(Call), sizeof(Args),
                            sizeof(TensorImpl), sizeof(ThreadState), sizeof(Explanation::Line), kBackends})
    mix = mix * 1000003 + size;
  return mix;
}

// The custom op of this name; throws Value if there is none.
STRATA_API const OpRecord& find(const std::string& name);

// Opens a shared library and runs its STRATA_LIBRARY block; returns the ops that it defines, none if it was loaded
// before. It is never closed. Throws Io if it cannot be opened, Value if it was built with other headers.
STRATA_API std::vector<const OpRecord*> load(const std::string& path);

}  // namespace strata::library

// One per shared library: its body defines the ops when the library is loaded. Not a static initializer, because an
// exception could not leave that.
#define STRATA_LIBRARY()                                                             \
  extern "C" STRATA_API size_t strata_layout() { return strata::library::layout(); } \
  extern "C" STRATA_API void strata_define_ops()
