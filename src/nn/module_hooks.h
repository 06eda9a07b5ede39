// The hooks of a module; not allocated for modules without hooks.
#pragma once
#include "nn/module.h"

namespace strata::nn {

struct ModuleState::Hooks {
  std::vector<std::pair<int64_t, ForwardPreHook>> pre;
  std::vector<std::pair<int64_t, ForwardHook>> post;
  int64_t next = 0;  // id of the next hook
};

}  // namespace strata::nn
