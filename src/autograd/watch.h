// Lets the layer that records programs see the nodes that a backward pass runs through.
#pragma once
#include <atomic>

#include "autograd/node.h"

namespace strata::autograd {

using BackwardWatch = void (*)(const Node&);
// Is called with each node before its formula, on threads that an Observer sees. It may throw. Null: nobody watches.
STRATA_API extern std::atomic<BackwardWatch> backward_watch;

}  // namespace strata::autograd
