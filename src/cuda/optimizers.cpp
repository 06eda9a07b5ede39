#include "cuda/optimizers.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/kernels/optimizers_params.h"
#include "cuda/pointwise.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kPiece = 4096;  // elements of a block

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

// Whether 16-byte accesses serve the tensor: dtypes that vectors have, everything aligned for a vector's elements.
bool has_vectors(const OptimizerTensor& t, DType dtype) {
  const uint64_t vector = dtype == DType::F64 ? 16 : 4 * size_of(dtype);
  return kFloatingTypes.has(dtype) && size_of(dtype) >= 2 &&
         (t.value | t.grad | t.state[0] | t.state[1] | t.state[2]) % vector == 0;
}

// Launches that are being filled: one for each compute type and set of members, which few steps have more than one of.
class Launches {
 public:
  Launches(const char* rule, Device device) : rule_(rule), stream_(stream_of(device)) {}
  void add(const OptimizerTensor& t, bool wide, const std::array<double, kRuleNumbers>& members) {
    Open& o = of(wide, members);
    OptimizerParams& p = o.params;
    p.first_block[p.tensors] = o.blocks, p.tensor[p.tensors] = t;
    o.blocks += static_cast<uint32_t>((t.count + kPiece - 1) / kPiece);
    if (++p.tensors == kTensorsPerLaunch) launch(o);
  }
  void finish() {
    for (Open& o : open_)
      if (o.params.tensors > 0) launch(o);
  }

 private:
  struct Open {
    bool wide;
    uint32_t blocks = 0;
    OptimizerParams params{};
  };
  Open& of(bool wide, const std::array<double, kRuleNumbers>& members) {
    for (Open& o : open_)
      if (o.wide == wide && std::equal(members.begin(), members.end(), o.params.members)) return o;
    Open& o = open_.emplace_back(Open{wide});
    o.params.piece = kPiece;
    std::copy(members.begin(), members.end(), o.params.members);
    return o;
  }
  void launch(Open& o) {
    stream_.launch(kernel_of(std::string(rule_) + (o.wide ? "_f64" : "_f32")), {o.blocks}, {256}, 0, o.params);
    o.blocks = 0, o.params.tensors = 0;
  }
  const char* rule_;
  Stream stream_;
  std::vector<Open> open_;
};
}  // namespace

void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates) {
  const auto some = std::ranges::find_if(updates, [](const OptimizerUpdate& u) { return u.value.numel() > 0; });
  if (some == updates.end()) return;
  const Device device = some->value.device();
  // Its step counts are numbers of the host: replaying them would repeat this step.
  STRATA_CHECK(
    !Runtime::gpu(device).allocator->capturing(), Runtime,
    "optimizer step: it cannot be captured in a graph; capture the forward and backward pass, and call step() "
    "after replay()");
  Launches launches(rule, device);
  std::vector<Tensor> kept;
  std::vector<std::pair<Tensor, Tensor>> copies;  // what lies otherwise: a dense twin, and where it goes back to
  for (const OptimizerUpdate& u : updates) {
    if (u.value.numel() == 0) continue;
    // All in the parameter's order; where it has gaps, in a dense one.
    Tensor like = shape_only(*u.value);
    like->set_strides_like(*u.value);
    const auto address = [&](const Tensor& t, bool written) -> uint64_t {
      if (!t) return 0;
      if (lies_like(*t, *like)) return reinterpret_cast<uint64_t>(t.bytes());
      Tensor twin = shape_only(*like);
      twin->allocate();
      copy(*twin, *t);
      if (written) copies.emplace_back(t, twin);
      else kept.push_back(twin);
      return reinterpret_cast<uint64_t>(twin.bytes());
    };
    OptimizerTensor t{};
    t.value = address(u.value, true), t.grad = address(u.grad, false);
    for (size_t k = 0; k < 3; ++k) t.state[k] = address(u.state[k], true);
    t.count = u.value.numel(), t.type = static_cast<int32_t>(u.value.dtype());
    t.vectors = has_vectors(t, u.value.dtype());
    launches.add(t, u.value.dtype() == DType::F64, u.members);
  }
  launches.finish();
  for (const auto& [to, from] : copies) copy(*to, *from);
}

}  // namespace strata::cuda
