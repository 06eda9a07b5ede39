#include "cuda/optimizers.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/kernels/optimizers_params.h"
#include "cuda/pointwise.h"
#include "cuda/runtime/allocator.h"
#include "cuda/runtime/stream.h"
#include "cuda/upload.h"

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

struct Batch {  // the parameters of one compute type
  std::vector<OptimizerTensor> tensors;
  std::vector<OptimizerPiece> pieces;
};
}  // namespace

void optimizer_step(const char* rule, std::span<OptimizerUpdate> updates) {
  Batch batches[2];  // float, double
  std::vector<Tensor> kept;
  std::vector<std::pair<Tensor, Tensor>> copies;  // what lies otherwise: a dense twin, and where it goes back to
  Device device;
  for (const OptimizerUpdate& u : updates) {
    if (u.value.numel() == 0) continue;
    device = u.value.device();
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
    std::copy(u.members.begin(), u.members.end(), t.members);
    Batch& b = batches[u.value.dtype() == DType::F64];
    for (int64_t begin = 0; begin < t.count; begin += kPiece)
      b.pieces.push_back({static_cast<int64_t>(b.tensors.size()), begin});
    b.tensors.push_back(t);
  }
  // Its lists and step counts are made on the host: replaying them would repeat the numbers of this step.
  STRATA_CHECK(
    device.type == DeviceType::Cpu || !Runtime::gpu(device).allocator->capturing(), Runtime,
    "optimizer step: it cannot be captured in a graph; capture the forward and backward pass, and call step() "
    "after replay()");
  for (int wide = 0; wide < 2; ++wide) {
    const Batch& b = batches[wide];
    if (b.pieces.empty()) continue;
    const Tensor tensors = upload(b.tensors, device), pieces = upload(b.pieces, device);
    const OptimizerParams p{reinterpret_cast<uint64_t>(tensors.bytes()), reinterpret_cast<uint64_t>(pieces.bytes()),
                            kPiece};
    stream_of(device).launch(kernel_of(std::string(rule) + (wide ? "_f64" : "_f32")),
                             {static_cast<uint32_t>(b.pieces.size())}, {256}, 0, p);
  }
  for (const auto& [to, from] : copies) copy(*to, *from);
}

}  // namespace strata::cuda
