#include "cuda/optim/optimizers.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/optim/optimizers_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kPiece = 2048;  // elements per block

const Function& kernel_of(const std::string& name) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, std::unique_ptr<Function>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<Function>& f = (*known)[name];
  if (!f) f = std::make_unique<Function>("optimizers", name);
  return *f;
}

bool lies_like(const TensorImpl& t, const TensorImpl& like) {
  if (t.dtype != like.dtype || !like.is_dense()) return false;
  for (int d = 0; d < t.ndim; ++d)
    if (t.shape[d] != 1 && t.strides[d] != like.strides[d]) return false;
  return true;
}

// Whether 16-byte accesses are possible: the dtype has vectors, and everything is aligned.
bool has_vectors(const OptimizerTensor& t, DType dtype) {
  const uint64_t vector = dtype == DType::F64 ? 16 : 4 * size_of(dtype);
  return kFloatingTypes.has(dtype) && (t.value | t.grad | t.state[0] | t.state[1] | t.state[2]) % vector == 0;
}

// Launches being filled: one for each compute type and set of members; few steps have more than one.
class Launches {
 public:
  Launches(const char* rule, const Stream& stream, std::span<const double> options, const Tensor& lr,
           Workspace& workspace)
      : rule_(rule), stream_(stream), workspace_(workspace) {
    std::copy(options.begin(), options.end(), numbers_.options);
    if (lr) {
      numbers_.lr = reinterpret_cast<uint64_t>(lr.bytes());
      numbers_.lr_type = static_cast<int32_t>(lr.dtype());
    }
  }
  void add(const OptimizerTensor& t, const OptimizerUpdate& u) {
    Open& o = of(u);
    OptimizerParams& p = o.params;
    if (u.on_device)
      for (size_t k = 0; k < kKeptNumbers; ++k) {
        o.kept[p.tensors][k] = u.kept[k] ? reinterpret_cast<uint64_t>(u.kept[k].bytes()) : 0;
        o.kept_type[p.tensors][k] = u.kept[k] ? static_cast<int32_t>(u.kept[k].dtype()) : 0;
      }
    p.first_block[p.tensors] = o.blocks;
    p.tensor[p.tensors] = t;
    o.blocks += static_cast<uint32_t>((t.count + kPiece - 1) / kPiece);
    if (++p.tensors == kTensorsPerLaunch) launch(o);
  }
  void finish() {
    for (Open& o : open_)
      if (o.params.tensors > 0) launch(o);
  }

 private:
  struct Open {
    bool wide, on_device;
    uint32_t blocks = 0;
    OptimizerParams params{};
    uint64_t kept[kTensorsPerLaunch][kKeptNumbers];
    int32_t kept_type[kTensorsPerLaunch][kKeptNumbers];
  };
  Open& of(const OptimizerUpdate& u) {
    const bool wide = u.value.dtype() == DType::F64;
    for (Open& o : open_)
      if (o.wide == wide && o.on_device == u.on_device &&
          (u.on_device || std::equal(u.members.begin(), u.members.end(), o.params.members)))
        return o;
    Open& o = open_.emplace_back();
    o.wide = wide;
    o.on_device = u.on_device;
    o.params.piece = kPiece;
    if (!u.on_device) std::copy(u.members.begin(), u.members.end(), o.params.members);
    return o;
  }
  void launch(Open& o) {
    Tensor list;
    if (o.on_device) {
      const int64_t count = int64_t{o.params.tensors} * kRuleNumbers;
      list = workspace_.take(count, DType::F64);
      numbers_.list = o.params.list = reinterpret_cast<uint64_t>(list.bytes());
      numbers_.tensors = o.params.tensors;
      std::memcpy(numbers_.kept, o.kept, sizeof o.kept);
      std::memcpy(numbers_.kept_type, o.kept_type, sizeof o.kept_type);
      if (!workspace_.planning())
        stream_.launch(kernel_of(std::string(rule_) + "_numbers"), {1}, {kTensorsPerLaunch}, 0, numbers_);
    }
    if (o.blocks > 0 && !workspace_.planning())
      stream_.launch(kernel_of(std::string(rule_) + (o.wide ? "_f64" : "_f32")), {o.blocks}, {256}, 0, o.params);
    o.blocks = 0;
    o.params.tensors = 0;
  }
  const char* rule_;
  Stream stream_;
  Workspace& workspace_;
  OptimizerNumbersParams numbers_{};
  std::vector<Open> open_;
};
}  // namespace

void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates, std::span<const double> options,
                    const Tensor& lr, Workspace& workspace) {
  if (updates.empty()) return;
  Launches launches(rule, stream_of(updates[0].value.device()), options, lr, workspace);
  // tensors with another layout: a dense copy, and where it is copied back to
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const OptimizerUpdate& u : updates) {
    // All in the parameter's memory order; if it has gaps, in a dense one.
    Tensor like = shape_only(*u.value);
    like->set_strides_like(*u.value);
    const auto address = [&](const Tensor& t, bool written) -> uint64_t {
      if (!t) return 0;
      if (lies_like(*t, *like)) return reinterpret_cast<uint64_t>(t.bytes());
      Tensor twin = workspace.take(like.shape(), like.dtype());
      std::copy_n(like->strides, like->ndim, twin->strides);
      twin->update_contiguous();
      if (!workspace.planning()) copy(*twin, *t);
      if (written) copies.emplace_back(t, twin);
      return reinterpret_cast<uint64_t>(twin.bytes());
    };
    OptimizerTensor t{};
    t.value = address(u.value, true);
    t.grad = address(u.grad, false);
    for (size_t k = 0; k < 3; ++k) t.state[k] = address(u.state[k], true);
    t.count = u.value.numel();
    t.type = static_cast<int32_t>(u.value.dtype());
    t.vectors = has_vectors(t, u.value.dtype());
    launches.add(t, u);
  }
  launches.finish();
  if (workspace.planning()) return;
  for (const auto& [to, from] : copies) copy(*to, *from);
}

}  // namespace strata::cuda
