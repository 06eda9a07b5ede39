// What the generated views of arguments (strata/args/*.h) are made of; see tools/gen_args.py.
#pragma once
#include "autograd/node.h"
#include "record/op.h"

namespace strata::args {

// Of a call: tensors as kernels take them.
class View {
 public:
  explicit View(const Args& all) : all_(all) {}
  explicit View(const Call& c) : all_(c.args) {}

 protected:
  const Value& value(uint32_t i) const { return all_[i]; }
  bool is_tensor(uint32_t i) const { return all_.is_tensor(i); }
  const TensorImpl& tensor(uint32_t i) const { return all_.tensor(i); }

 private:
  const Args& all_;
};

}  // namespace strata::args

namespace strata::grads {

// Of a node: tensors as they were saved.
class View {
 public:
  explicit View(const GradContext& context) : c(context) {}
  const GradContext& c;  // for the results and their gradients

 protected:
  const Value& value(uint32_t i) const { return c.arg(i); }
};

}  // namespace strata::grads
