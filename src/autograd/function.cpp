#include "autograd/function.h"

#include <fmt/core.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "tensor/generator.h"

namespace strata::autograd {
namespace {

std::string type_name(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 && text ? text : type.name();
  std::free(text);
  return name.substr(name.rfind(':') == name.npos ? 0 : name.rfind(':') + 1);
}

void check_version(const Tensor& t, uint32_t version, const std::string& name) {
  STRATA_CHECK(t->version() == version, Runtime,
               "one of the variables needed for gradient computation has been modified by an inplace operation: {} "
               "saved a {} tensor of shape "
               "{} at version {}, it is now at version {}. Use the out-of-place form, or clone() the tensor first.",
               name, name_of(t.dtype()), to_string(t.shape()), version, t->version());
}
}  // namespace

void fail_used_up(const std::string& at) {
  fail(
    ErrorKind::Runtime,
    fmt::format("Trying to backward through the graph a second time (at {}): its saved tensors have been freed. Pass "
                "retain_graph=True to the first backward() or grad().",
                at));
}

std::vector<Tensor> FunctionContext::get_saved_variables() const {
  std::vector<Saved> saved;
  {
    const std::lock_guard lock(mutex_);
    if (freed_) fail_used_up(name_);
    saved = saved_;
  }
  std::vector<Tensor> tensors;
  for (const Saved& s : saved) {
    if (s.tensor) check_version(s.tensor, s.version, name_);
    tensors.push_back(s.tensor);
    if (s.output < 0 || !node_ || !thread_state.grad_mode) continue;
    Tensor t = alias(*s.tensor);  // for double backward it must carry this node as its history
    t->history = Ref<History>::share(node_);
    t->output = static_cast<uint32_t>(s.output);
    t->requires_grad = true;
    tensors.back() = std::move(t);
  }
  return tensors;
}

FunctionNode::FunctionNode(const std::type_info& type, Backward backward) : backward_(backward) {
  context_.name_ = type_name(type) + "Backward";
}

void FunctionNode::add_argument(const Tensor& t) {
  inputs_.push_back(t);
  context_.needs_.push_back(thread_state.grad_mode && t && edge_to(*t));
}

void FunctionNode::finish(std::unique_ptr<FunctionNode> self, std::span<Tensor> outputs) {
  FunctionContext& ctx = self->context_;
  for (const Tensor& t : ctx.dirty_) t->count_write();  // forward may have written without ops
  if (std::find(ctx.needs_.begin(), ctx.needs_.end(), true) == ctx.needs_.end()) return;
  const std::vector<Tensor> inputs = std::move(self->inputs_), constant = std::move(ctx.constant_);
  std::vector<Tensor> dirty = std::move(ctx.dirty_), recorded(outputs.begin(), outputs.end());
  std::erase_if(dirty, [&](const Tensor& t) { return among(t, constant); });
  for (Tensor& out : recorded) {
    if (!out || among(out, constant) || !is_differentiable(out.dtype())) out = {};  // carries no gradient
    self->output_shapes_.push_back(out ? shape_only(*out) : Tensor());
  }
  Node* const node = record_custom(std::move(self), inputs, recorded, dirty);
  if (!node) return;
  for (size_t o = 0; o < outputs.size(); ++o)
    if (recorded[o]) outputs[o] = recorded[o];
  ctx.node_ = node;
  for (const Tensor& t : std::exchange(ctx.to_save_, {})) {
    FunctionContext::Saved saved{t, t ? t->version() : 0, -1};
    const auto output =
      std::find_if(recorded.begin(), recorded.end(), [&](const Tensor& r) { return r.get() == t.get(); });
    if (t && output != recorded.end()) {
      saved.output = static_cast<int>(output - recorded.begin());
      saved.tensor = alias(*t);
    }
    ctx.saved_.push_back(std::move(saved));
  }
}

std::vector<Tensor> FunctionNode::apply(const std::vector<Tensor>& grads, bool) {
  std::vector<Tensor> given = grads;
  if (context_.materialize_)
    for (size_t o = 0; o < given.size(); ++o)
      if (!given[o] && output_shapes_[o]) given[o] = zeros_for(*output_shapes_[o]);
  std::vector<Tensor> result = backward_(context_, given);
  STRATA_CHECK(result.size() == context_.needs_.size(), Runtime,
               "function {} returned an incorrect number of gradients (expected {}, got {})", context_.name_,
               context_.needs_.size(), result.size());
  return result;
}

void FunctionNode::release() {
  std::vector<FunctionContext::Saved> saved;  // released outside the lock
  const std::lock_guard lock(context_.mutex_);
  saved.swap(context_.saved_);
  context_.freed_ = !saved.empty();
}

namespace {
[[noreturn]] void fail_derivative(const std::string& op) {
  fail(
    ErrorKind::NotImplemented,
    fmt::format("the derivative for '{}' is not implemented; detach() its input if it is to count as a constant", op));
}

class Underived : public CustomGrad {
 public:
  Underived(std::string op, bool is_zero, std::initializer_list<Tensor> inputs)
      : op_(std::move(op)), name_(op_ + "Backward"), is_zero_(is_zero) {
    for (const Tensor& t : inputs) inputs_.push_back(t ? shape_only(*t) : Tensor());
  }
  const char* name() const override { return name_.c_str(); }
  std::vector<Tensor> apply(const std::vector<Tensor>&, bool) override {
    if (!is_zero_) fail_derivative(op_);
    std::vector<Tensor> zeros;
    for (const Tensor& t : inputs_) zeros.push_back(t ? zeros_for(*t) : Tensor());
    return zeros;
  }

 private:
  std::string op_, name_;
  bool is_zero_;
  std::vector<Tensor> inputs_;  // shapes only
};

class UsedUp : public CustomGrad {
 public:
  UsedUp(std::string op, std::string freed) : op_(std::move(op)), freed_(std::move(freed)) {}
  const char* name() const override { return op_.c_str(); }
  std::vector<Tensor> apply(const std::vector<Tensor>&, bool) override { fail_used_up(freed_); }

 private:
  std::string op_, freed_;
};

Tensor underived(const char* op, std::initializer_list<Tensor> inputs, Tensor out, bool is_zero) {
  const bool wanted = thread_state.grad_mode &&
                      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t && t.requires_grad(); });
  if (wanted) record_custom(std::make_unique<Underived>(op, is_zero, inputs), inputs, {&out, 1});
  return out;
}
}  // namespace

Tensor used_up(const Tensor& t, const std::string& op, const std::string& freed) {
  Tensor out = t->history ? detach(t) : t;
  record_custom(std::make_unique<UsedUp>(op, freed), {}, {&out, 1});
  return out;
}

Tensor without_slope(const char* op, std::initializer_list<Tensor> inputs, Tensor out) {
  return underived(op, inputs, std::move(out), true);
}
Tensor without_derivative(const char* op, std::initializer_list<Tensor> inputs, Tensor out) {
  return underived(op, inputs, std::move(out), false);
}

namespace {
class Checkpoint : public CustomGrad {
 public:
  Checkpoint(TensorFunction fn, const std::vector<Tensor>& inputs, std::optional<Generator::State> rng)
      : fn_(std::move(fn)), inputs_(inputs), rng_(rng) {
    for (const Tensor& t : inputs_) versions_.push_back(t ? t->version() : 0);
  }
  const char* name() const override { return "CheckpointBackward"; }

  std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool create_graph) override {
    STRATA_CHECK(
      !create_graph, Runtime,
      "checkpoint: the gradient of a gradient needs intermediate results; call the function without checkpoint()");
    std::vector<Tensor> inputs, fresh;
    TensorFunction fn;
    {
      const std::lock_guard lock(mutex_);
      if (!fn_) fail_used_up(name());
      inputs = inputs_;
      fn = fn_;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& t = inputs[i];
      if (t) check_version(t, versions_[i], "checkpoint");
      fresh.push_back(t ? detach(t) : Tensor());
      if (t && t.requires_grad()) fresh.back().set_requires_grad();
    }
    const std::vector<Tensor> outs = forward_again(fn, fresh);
    STRATA_CHECK(outs.size() == grads.size(), Runtime,
                 "checkpoint: the function returned {} tensors, then {} when it was called again", grads.size(),
                 outs.size());
    std::vector<Tensor> roots, seeds;
    for (size_t o = 0; o < outs.size(); ++o)
      if (grads[o] && outs[o] && outs[o].requires_grad()) {
        roots.push_back(outs[o]);
        seeds.push_back(grads[o]);
      }
    if (!roots.empty()) autograd::backward(roots, seeds);
    std::vector<Tensor> result;
    result.reserve(fresh.size());
    for (const Tensor& t : fresh) result.push_back(t ? t.grad() : Tensor());
    return result;
  }
  void release() override {
    std::vector<Tensor> inputs;  // both are released outside the lock
    TensorFunction fn;
    const std::lock_guard lock(mutex_);
    inputs.swap(inputs_);
    fn.swap(fn_);
  }

 private:
  std::vector<Tensor> forward_again(const TensorFunction& fn, const std::vector<Tensor>& inputs) const {
    struct Restore {  // restores the stream position, also after an exception
      std::optional<Generator::State> state;
      ~Restore() {
        if (state) default_generator().set_state(*state);
      }
    } restore;
    if (rng_) {
      restore.state = default_generator().state();
      default_generator().set_state(*rng_);
    }
    EnableGrad on;
    return fn(inputs);
  }
  std::mutex mutex_;  // a thread may free the graph while another runs backward
  TensorFunction fn_;
  std::vector<Tensor> inputs_;
  std::vector<uint32_t> versions_;
  std::optional<Generator::State> rng_;
};
}  // namespace

std::vector<Tensor> checkpoint(TensorFunction fn, const std::vector<Tensor>& inputs, bool preserve_rng_state) {
  const bool wanted = thread_state.grad_mode &&
                      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t && edge_to(*t); });
  if (!wanted) return fn(inputs);
  std::optional<Generator::State> rng;
  if (preserve_rng_state) rng = default_generator().state();
  std::vector<Tensor> outs;
  {
    NoGrad off;
    outs = fn(inputs);
  }
  record_custom(std::make_unique<Checkpoint>(std::move(fn), inputs, rng), inputs, outs);
  return outs;
}

}  // namespace strata::autograd

namespace strata {
Grads no_derivative(const GradContext& c, const Tensor&) { autograd::fail_derivative(c.node().op->name); }
}  // namespace strata
