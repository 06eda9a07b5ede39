// Lets the layer that records programs see the nodes that a backward pass runs through.
#pragma once
#include <atomic>

#include "autograd/node.h"

namespace strata::autograd {

using BackwardWatch = void (*)(const Node&);
// Is called with each node before its formula, on threads that an Observer sees. It may throw. Null: nobody watches.
STRATA_API extern std::atomic<BackwardWatch> backward_watch;

// The references to a tensor from what the observer of this thread keeps, directly and through views that only it keeps. Null: there
// never was one.
using KeptReferences = int32_t (*)(const TensorImpl&);
STRATA_API extern std::atomic<KeptReferences> kept_references;
// Whether the program has no more references to a tensor than this: a followed program must go on as if nobody watched.
inline bool has_only(const TensorImpl& t, int32_t references) {
  const int32_t all = t.refs.load(std::memory_order_acquire);
  if (all <= references) return true;
  const KeptReferences kept = kept_references.load(std::memory_order_relaxed);
  return kept && all - kept(t) <= references;
}

}  // namespace strata::autograd
