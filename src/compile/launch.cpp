#include "compile/launch.h"

#include <algorithm>
#include <utility>

#include "autograd/autograd.h"
#include "compile/control.h"
#include "cuda/runtime/event.h"
#include "cuda/runtime/in_stream.h"
#include "cuda/runtime/runtime.h"
#include "dispatch/deferred.h"
#include "record/precision.h"
#include "strata/ops.h"

namespace strata::graph {
namespace {

Device device_of(const Graph& graph) {
  for (const Graph::Value& v : graph.values) return v.type.device;
  return {};
}
bool has(const std::vector<ValueId>& ids, ValueId id) { return std::ranges::find(ids, id) != ids.end(); }

// Memory of its own with the same shape and strides.
Tensor memory_like(const Tensor& t) {
  Tensor copy(Ref<TensorImpl>::adopt(TensorImpl::make()));
  copy->set_shape(t->sizes());
  copy->set_strides_like(*t);
  copy->dtype = t->dtype;
  copy->device = t->device;
  copy->allocate();
  return copy;
}

}  // namespace

LaunchedProgram::Precision LaunchedProgram::Precision::now() {
  return {allow_tf32_products(), allow_tf32_convolutions(), is_deterministic()};
}

const char* LaunchedProgram::objection(const Graph& graph) {
  const Device device = device_of(graph);
  if (device.type != DeviceType::Cuda && device.type != DeviceType::Vgpu) return "it is not on a GPU";
  bool on_others = false;  // a kernel takes the value of a CPU tensor as a number
  for_each_graph(graph, [&](const Graph& g) {
    for (const Graph::Value& v : g.values) on_others |= v.type.device != device;
  });
  if (on_others) return "it has tensors on several devices";
  if (decides_by_values(graph)) return "it decides by values (cond, while_loop)";
  for (const Graph::Write& w : graph.writes)
    if (has(graph.inputs, w.target)) return "it writes to an argument";
  return graph.nodes.empty() ? "it has no work" : nullptr;
}

LaunchedProgram::LaunchedProgram(std::shared_ptr<const Program> program, const std::vector<Tensor>& inputs,
                                 std::vector<Use> uses, bool defers)
    : program_(std::move(program)), stream_(cuda::stream_of(device_of(program_->graph()))), uses_(std::move(uses)) {
  STRATA_CHECK(fits(), NotImplemented, "the stream is being captured");
  for (const Tensor& t : inputs) {
    STRATA_CHECK(t->is_dense(), NotImplemented, "an argument has gaps or repeated elements");
    inputs_.push_back(memory_like(t));
  }
  cuda::Gpu& gpu = stream_.gpu();
  const cuda::Stream aside = cuda::Stream::create(gpu);  // the default stream records no graphs
  const cuda::Event before(gpu);
  before.record(stream_);
  before.wait_in(aside);
  const cuda::InStream there(aside);
  const autograd::NoGrad off;
  work_ = cuda::Graph::begin(aside);
  {
    std::optional<Deferral> deferral;
    if (defers) deferral.emplace();
    outputs_ = program_->run(inputs_);
    if (deferral) deferral->finish();
  }
  work_->end();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    lent_.emplace_back();
    if (uses_[i] == Use::Lent) {
      lent_[i].tensor = alias(*outputs_[i]);
      lent_[i].own = outputs_[i]->storage->refs.load();
    }
    if (uses_[i] == Use::None) continue;
    STRATA_CHECK(outputs_[i]->is_dense(), NotImplemented, "a result has gaps or repeated elements");
    const auto shares = [&](const Tensor& t) { return t->storage.get() == outputs_[i]->storage.get(); };
    STRATA_CHECK(std::none_of(outputs_.begin(), outputs_.begin() + static_cast<ptrdiff_t>(i), shares), NotImplemented,
                 "its results share memory");
    const auto is_state = [&](const Graph::State& s) { return shares(s.tensor); };
    STRATA_CHECK(std::ranges::none_of(inputs_, shares) && std::ranges::none_of(program_->graph().states, is_state),
                 NotImplemented, "a result is a view of an argument or a parameter");
  }
}

bool LaunchedProgram::fits() const {
  const Device device = stream_.gpu().device();
  return cuda::stream_of(device) == stream_ && precision_ == Precision::now() && !cuda::is_capturing(device);
}

std::vector<Tensor> LaunchedProgram::run(const std::vector<Tensor>& inputs) const {
  const std::lock_guard lock(running_);
  const autograd::NoGrad off;
  for (size_t i = 0; i < inputs.size(); ++i) copy_(inputs_[i], inputs[i]);
  work_->replay(stream_);
  if (!std::exchange(counted_, false))
    for (const Graph::Write& w : program_->graph().writes)
      for (const Graph::State& s : program_->graph().states)
        if (s.id == w.target) s.tensor->count_write();
  std::vector<Tensor> outputs(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (uses_[i] == Use::Given) {
      outputs[i] = clone(outputs_[i]);
    } else if (uses_[i] == Use::Lent) {
      outputs[i] = lent_[i].tensor;
      outputs[i]->count_write();
    }
  return outputs;
}

}  // namespace strata::graph
