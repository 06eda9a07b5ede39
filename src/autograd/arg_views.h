// Base classes of the generated argument views (strata/args/*.h); see tools/gen_args.py.
#pragma once
#include "autograd/node.h"
#include "record/op.h"

namespace strata::args {

// A view of a Call: tensors as kernels take them. A lambda of a definition may take a view in place of the Call.
class View {
 public:
  explicit View(const Args& all) : all_(all) {}
  explicit View(const Call& c) : all_(c.args), call_(&c) {}
  const Call& call() const { return *call_; }
  operator const Call&() const { return *call_; }  // NOLINT(google-explicit-constructor): helpers take the Call
  const OpRecord& op() const { return call_->op; }
  const Tensor& out(size_t k = 0) const { return call_->outs[k]; }

 protected:
  const Value& value(uint32_t i) const { return all_[i]; }
  bool is_tensor(uint32_t i) const { return all_.is_tensor(i); }
  const TensorImpl& tensor(uint32_t i) const { return all_.tensor(i); }
  Tensor share(uint32_t i) const { return all_.share(i); }

 private:
  const Args& all_;
  const Call* call_ = nullptr;
};

}  // namespace strata::args

namespace strata::grads {

// A view of a node: the saved tensors.
class View {
 public:
  explicit View(const GradContext& context) : context_(context) {}
  operator const GradContext&() const { return context_; }  // NOLINT(google-explicit-constructor): helpers take it
  Tensor result(uint32_t i = 0) const { return context_.result(i); }
  const Tensor& grad(uint32_t output) const { return context_.grad(output); }
  Tensor grad_or_zeros(uint32_t output) const { return context_.grad_or_zeros(output); }
  bool needs_list(uint32_t k) const { return context_.needs_list(k); }
  const Node& node() const { return context_.node(); }

 protected:
  const GradContext& context() const { return context_; }
  const Value& value(uint32_t i) const { return context_.arg(i); }

 private:
  const GradContext& context_;
};

}  // namespace strata::grads
