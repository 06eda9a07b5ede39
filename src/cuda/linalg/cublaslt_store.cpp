#include "cuda/linalg/cublaslt_store.h"

#include <fmt/core.h>

#include <bit>
#include <map>

#include "base/error.h"
#include "cuda/libs/prepared.h"
#include "record/declined.h"

namespace strata::cuda::cublaslt {
namespace {

constexpr size_t kMostWorkspace = size_t{32} << 20;  // for split sums; PyTorch's limit

Layout make_layout(const Functions& f, int type, int64_t rows, int64_t columns, int64_t ld, int64_t count,
                   int64_t stride) {
  Layout made = nullptr;
  check(f, f.layout_create(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), ld),
        "describing a matrix");
  if (count > 1) {
    const auto batches = static_cast<int32_t>(count);
    check(f, f.layout_set(made, kLayoutBatchCount, &batches, sizeof batches), "describing a batch");
    check(f, f.layout_set(made, kLayoutBatchStride, &stride, sizeof stride), "describing a batch");
  }
  return made;
}

HeuristicResult recommended(const Geometry& g, const Prepared& p) {
  const Functions& f = p.f;
  Preference preference = nullptr;
  check(f, f.preference_create(&preference), "making a preference");
  const std::unique_ptr<PreferenceOpaque, Status (*)(Preference)> owner(preference, f.preference_destroy);
  const auto set = [&](int attribute, auto value) {
    check(f, f.preference_set(preference, attribute, &value, sizeof value), "setting a preference");
  };
  set(kPreferMaxWorkspace, kMostWorkspace);
  set(kPreferReductions, uint32_t{kReductionComputeType});  // partial sums are not rounded to the result's dtype
  const int attributes[] = {kPreferAlignmentB, kPreferAlignmentA, kPreferAlignmentC, kPreferAlignmentD};
  for (size_t i = 0; i < 4; ++i) set(attributes[i], static_cast<uint32_t>(g.alignment[i]));
  HeuristicResult result{};
  int found = 0;
  const Layouts& l = p.layouts;
  if (f.heuristic(p.handle, p.desc, l.first, l.second, l.c, l.d, preference, 1, &result, &found) || found == 0)
    result.state = -1;
  return result;
}

std::shared_ptr<Prepared> prepare(const Functions& f, Handle handle, const Geometry& g) {
  auto p = std::make_shared<Prepared>(f, handle);
  check(f, f.desc_create(&p->desc, static_cast<int>(g.compute), static_cast<int>(g.scale_type)),
        "describing a product");
  const auto set = [&](int attribute, auto value) {
    check(f, f.desc_set(p->desc, attribute, &value, sizeof value), "describing a product");
  };
  set(kDescTransA, int32_t{g.b_along_k ? kOpT : kOpN});
  set(kDescTransB, int32_t{g.a_along_k ? kOpN : kOpT});
  const bool gelu = g.activation == Activation::Gelu;
  const int32_t epilogue = (g.bias == Bias::Yes ? kEpilogueBias : 0) | (gelu ? kEpilogueGelu : 0) |
                           (g.activation == Activation::Relu ? kEpilogueRelu : 0) |
                           (g.keeps_argument ? kEpilogueAux : 0);
  if (epilogue) set(kDescEpilogue, epilogue);
  if (g.bias == Bias::Yes) set(kDescBiasDataType, static_cast<int32_t>(g.bias_type));
  if (g.keeps_argument) {
    set(kDescAuxPointer, reinterpret_cast<const void*>(uintptr_t{256}));
    set(kDescAuxLeadingDimension, int64_t{g.ldd});
  }
  if (g.fast) set(kDescFastAccumulation, int8_t{1});
  if (g.scales != Scales::None) {
    const auto somewhere =
      reinterpret_cast<const void*>(uintptr_t{256});  // the heuristic only asks whether there is one
    set(kDescScaleA, somewhere);
    set(kDescScaleB, somewhere);
  }
  if (g.scales == Scales::Rows) {
    const int32_t mode = kScaleOuterVector;  // since cuBLASLt 12.9
    if (f.desc_set(p->desc, kDescScaleModeA, &mode, sizeof mode) ||
        f.desc_set(p->desc, kDescScaleModeB, &mode, sizeof mode))
      return p;
  }
  Layouts& l = p->layouts;
  const auto layout = [&](int64_t type, int64_t rows, int64_t columns, int64_t ld, int64_t stride) {
    return make_layout(f, static_cast<int>(type), rows, columns, ld, g.batch, stride);
  };
  l.first = g.b_along_k ? layout(g.b_type, g.k, g.n, g.ldb, g.b_batch) : layout(g.b_type, g.n, g.k, g.ldb, g.b_batch);
  l.second = g.a_along_k ? layout(g.a_type, g.k, g.m, g.lda, g.a_batch) : layout(g.a_type, g.m, g.k, g.lda, g.a_batch);
  l.c = layout(g.d_type, g.n, g.m, g.ldc, g.c_batch);
  l.d = layout(g.d_type, g.n, g.m, g.ldd, g.d_batch);
  p->chosen = recommended(g, *p);
  p->found = p->chosen.state == 0;
  return p;
}

// Handles by device, and the cache. Never destroyed: the library may be unloaded before static destructors run.
class Store {
 public:
  static Store& get() {
    static auto* store = new Store;
    return *store;
  }
  std::shared_ptr<Prepared> find(const Functions& f, const Geometry& g) {
    return kept_.find(g, [&] { return prepare(f, handle(f, g.device), g); });
  }

 private:
  Handle handle(const Functions& f, int64_t device) {
    Handle& h = handles_[device];
    if (!h) check(f, f.create(&h), "starting it");
    return h;
  }
  std::map<int64_t, Handle> handles_;  // changed only while something is prepared
  PreparedCalls<Geometry, Prepared> kept_;
};
}  // namespace

Prepared::~Prepared() {
  for (Layout l : {layouts.first, layouts.second, layouts.c, layouts.d})
    if (l) f.layout_destroy(l);
  if (desc) f.desc_destroy(desc);
}

void check(const Functions& f, Status status, const char* what) {
  if (status) fail(ErrorKind::Runtime, fmt::format("cuBLASLt: {} failed with {}", what, f.status_name(status)));
}

void check_product(Prepared& p, Status status) {
  if (status == kNotSupported) {
    p.refused = true;
    throw Declined("cuBLASLt: a product failed with CUBLAS_STATUS_NOT_SUPPORTED");
  }
  check(p.f, status, "a product");
}

const char* objection_to(const Prepared& p) {
  if (!p.found) return "cuBLASLt has no kernel for this product";
  return p.refused ? "cuBLASLt did not support this product when it ran" : nullptr;
}

std::shared_ptr<Prepared> find_prepared(const Functions& f, const Geometry& g) { return Store::get().find(f, g); }

int64_t alignment(uint64_t address, int64_t stride_bytes) {
  const uint64_t bits = address | static_cast<uint64_t>(stride_bytes) | 16;
  return int64_t{1} << std::countr_zero(bits);
}

}  // namespace strata::cuda::cublaslt
