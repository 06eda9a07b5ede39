// Launches the kernels of cuda/pointwise/complex.cu.
#include "cuda/pointwise/complex.h"

#include <algorithm>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/pointwise/complex_params.h"
#include "cuda/pointwise/walk_parts.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kThreads = 256;
static_assert(kComplexDims == kAxesMost);

struct Kernels {
  Function c64, c128;
  explicit Kernels(const std::string& name) : c64("complex", name + "_c64"), c128("complex", name + "_c128") {}
};
const Kernels& kernels_of(const ComplexFormula& f) {
  void* known = f.device.load(std::memory_order_acquire);
  if (!known) {
    auto* made = new Kernels(f.loops.name);
    if (f.device.compare_exchange_strong(known, made, std::memory_order_acq_rel)) known = made;
    else delete made;
  }
  return *static_cast<const Kernels*>(known);
}

// Launches a walk that fits 32-bit offsets.
void launch_part(const Stream& stream, const Function& kernel, const Walk& w, ComplexParams& p, const int* operand_of) {
  p.count = static_cast<uint32_t>(w.total);
  p.ndim = w.ndim;
  for (int k = 0; k < w.views; ++k) {
    p.view[operand_of[k]].data = reinterpret_cast<uint64_t>(w.view[k].data);
    p.view[operand_of[k]].type = static_cast<int32_t>(w.view[k].type);
  }
  for (int d = 0; d < w.ndim; ++d) {  // the kernel expects the fastest dimension first
    const int from = w.ndim - 1 - d;
    p.size[d] = divisor(static_cast<uint32_t>(w.shape[from]));
    for (int k = 0; k < w.views; ++k) p.step[d][operand_of[k]] = static_cast<int32_t>(w.view[k].step[from]);
  }
  const auto blocks = static_cast<uint32_t>(std::min<int64_t>((w.total + kThreads - 1) / kThreads, 1 << 16));
  stream.launch(kernel, {blocks}, {kThreads}, 0, p);
}
}  // namespace

void run_complex(const Call& c, const Formula& f, DType common) {
  const TensorImpl& out = *c.out();
  Walk w(out);
  ComplexParams p{};
  int operand_of[Walk::kMaxViews] = {0};
  const auto put = [](double* parts, Complex<double> z) {
    parts[0] = z.re;
    parts[1] = z.im;
  };
  Complex<double> members[kMaxMembers];
  read_members(f, c.args, members);
  for (int k = 0; k < f.members; ++k) put(p.members[k], members[k]);
  for (int k = 0; k < f.inputs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor && v.tensor->device == out.device) {
      operand_of[w.views] = k + 1;
      w.add(*v.tensor);
    } else if (v.tag == Tag::Tensor) {  // one element in host memory
      put(p.view[k + 1].number, Tensor(Ref<TensorImpl>::share(v.tensor)).item().to_complex());
    } else {
      put(p.view[k + 1].number, number_operand<Complex<double>>(f, v, k, common));
    }
  }
  if (w.total == 0) return;
  w.collapse();
  const Kernels& kernels = kernels_of(*c.op.complex_formula);
  const Function& kernel = common == DType::C64 ? kernels.c64 : kernels.c128;
  each_launchable(w, [&](const Walk& part) { launch_part(stream_of(out.device), kernel, part, p, operand_of); });
}

}  // namespace strata::cuda
