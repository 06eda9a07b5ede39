#include "autograd/function.h"

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

bool among(const Tensor& t, const std::vector<Tensor>& list) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& other) { return other.get() == t.get(); });
}

void check_version(const Tensor& t, uint32_t version, const std::string& name) {
  STRATA_CHECK(t->version() == version, Runtime,
               "one of the variables needed for gradient computation has been modified by an inplace operation: {} "
               "saved a {} tensor of shape "
               "{} at version {}, it is now at version {}. Use the out-of-place form, or clone() the tensor first.",
               name, name_of(t.dtype()), to_string(t.shape()), version, t->version());
}
}  // namespace

std::vector<Tensor> FunctionContext::get_saved_variables() const {
  STRATA_CHECK(!freed_, Runtime,
               "Trying to backward through the graph a second time (at {}): its saved tensors have been freed. Pass "
               "retain_graph=True to the "
               "first backward() or grad().",
               name_);
  std::vector<Tensor> tensors;
  for (const Saved& s : saved_) {
    if (s.tensor) check_version(s.tensor, s.version, name_);
    tensors.push_back(s.tensor);
    if (s.output < 0 || !node_ || !thread_state.grad_mode) continue;
    Tensor t = alias(*s.tensor);  // for a gradient of the gradient it must know that this node made it
    t->history = Ref<History>::share(node_), t->output = static_cast<uint8_t>(s.output), t->requires_grad = true;
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
  if (std::find(ctx.needs_.begin(), ctx.needs_.end(), true) == ctx.needs_.end()) return;
  const std::vector<Tensor> inputs = std::move(self->inputs_);
  std::vector<Tensor> recorded(outputs.size());  // undefined: carries no gradient
  std::vector<size_t> written;
  for (size_t o = 0; o < outputs.size(); ++o) {
    Tensor& out = outputs[o];
    if (!out || among(out, ctx.constant_) || !is_floating(out.dtype())) continue;
    const bool dirty = among(out, ctx.dirty_);
    if (dirty) {
      STRATA_CHECK(!out.requires_grad() || out->history, Runtime,
                   "a leaf Variable that requires grad is being used in an in-place operation ({}); use no_grad() or "
                   "the out-of-place form",
                   ctx.name_);
      written.push_back(o);
    } else if (among(out, inputs) || out->base || out->history) {
      const bool again = among(out, ctx.to_save_);
      Tensor fresh = alias(*out);  // an input passed through gets a history of its own
      if (again)
        std::replace_if(
          ctx.to_save_.begin(), ctx.to_save_.end(), [&](const Tensor& t) { return t.get() == out.get(); }, fresh);
      out = fresh;
    }
    recorded[o] = dirty ? alias(*out) : out;
  }
  for (const Tensor& t : ctx.to_save_) {
    FunctionContext::Saved saved{t, t ? t->version() : 0, -1};
    for (size_t o = 0; o < outputs.size(); ++o)
      if (t && recorded[o] && outputs[o].get() == t.get()) saved.output = static_cast<int>(o), saved.tensor = alias(*t);
    ctx.saved_.push_back(std::move(saved));
  }
  ctx.to_save_.clear();
  for (const Tensor& out : recorded) self->output_shapes_.push_back(out ? shape_only(*out) : Tensor());
  if (std::none_of(recorded.begin(), recorded.end(), [](const Tensor& t) { return static_cast<bool>(t); })) return;
  const std::vector<Tensor> dirty = std::exchange(ctx.dirty_, {});
  ctx.constant_.clear();
  record_custom(std::move(self), inputs, recorded);
  for (const Tensor& t : recorded)
    if (t) ctx.node_ = node_of(*t);
  for (size_t o : written) rebase(*outputs[o], recorded[o]);
}

std::vector<Tensor> FunctionNode::apply(const std::vector<Tensor>& grads, bool) {
  STRATA_CHECK(!context_.freed_, Runtime,
               "Trying to backward through the graph a second time (at {}): its saved tensors have been freed. Pass "
               "retain_graph=True to the "
               "first backward() or grad().",
               context_.name_);
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
  context_.saved_.clear();
  context_.saved_data.clear();
  context_.freed_ = true;
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
    std::vector<Tensor> fresh;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor& t = inputs_[i];
      if (t) check_version(t, versions_[i], "checkpoint");
      fresh.push_back(t ? detach(t) : Tensor());
      if (t && t.requires_grad()) fresh.back().set_requires_grad();
    }
    const std::vector<Tensor> outs = forward_again(fresh);
    STRATA_CHECK(outs.size() == grads.size(), Runtime,
                 "checkpoint: the function returned {} tensors, then {} when it was called again", grads.size(),
                 outs.size());
    std::vector<Tensor> roots, seeds;
    for (size_t o = 0; o < outs.size(); ++o)
      if (grads[o] && outs[o] && outs[o].requires_grad()) roots.push_back(outs[o]), seeds.push_back(grads[o]);
    if (!roots.empty()) autograd::backward(roots, seeds);
    std::vector<Tensor> result;
    result.reserve(fresh.size());
    for (const Tensor& t : fresh) result.push_back(t ? t.grad() : Tensor());
    return result;
  }
  void release() override { inputs_.clear(), fn_ = nullptr; }

 private:
  std::vector<Tensor> forward_again(const std::vector<Tensor>& inputs) const {
    struct Restore {  // the stream goes on where it was, also after an exception
      std::optional<Generator::State> state;
      ~Restore() {
        if (state) default_generator().set_state(*state);
      }
    } restore;
    if (rng_) restore.state = default_generator().state(), default_generator().set_state(*rng_);
    EnableGrad on;
    return fn_(inputs);
  }
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
  for (Tensor& out : outs)
    if (out && (among(out, inputs) || out->base || out->history)) out = alias(*out);
  record_custom(std::make_unique<Checkpoint>(std::move(fn), inputs, rng), inputs, outs);
  return outs;
}

}  // namespace strata::autograd
