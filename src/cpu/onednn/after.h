// What follows the sums of a primitive, as its attributes and arguments.
#pragma once
#include "cpu/onednn/module.h"

namespace strata::onednn {

class Afterwards {
 public:
  // `result`: the layout of the result in memory. `channel`: the dimension of the weights that the scales are for, as a mask.
  dnnl::primitive_attr attributes(const After& after, const dnnl::memory::desc& result, int64_t channels, int channel);
  // The arguments of a call, after the first `count`; returns their new number.
  int arguments(dnnl_exec_arg_t* args, int count, const Extra& extra);
  static constexpr int kMost = 5;

 private:
  struct Argument {
    int index;
    dnnl::memory memory;
    const void* (*of)(const Extra&);
  };
  std::vector<Argument> arguments_;
};

}  // namespace strata::onednn
