#include "cpu/linalg/products.h"

#include "base/parallel.h"
#include "cpu/linalg/gemm_narrow.h"
#include "cpu/onednn_loader.h"
#include "cpu/packed.h"
#include "cpu/staging.h"

namespace strata::cpu {
namespace {

void add_batch(Gemm& g, int64_t size, int64_t a, int64_t b, int64_t c) {
  if (size == 1) return;
  if (const int last = g.batch_dims - 1;
      last >= 0 && g.a_b[last] == a * size && g.b_b[last] == b * size && g.c_b[last] == c * size) {
    g.batch[last] *= size;
    g.a_b[last] = a;
    g.b_b[last] = b;
    g.c_b[last] = c;
    return;
  }
  STRATA_CHECK(
    g.batch_dims < Gemm::kMaxBatch, NotImplemented,
    "a matrix product has at most {} batch dimensions that cannot be merged; make its arguments contiguous() "
    "and of one batch shape first",
    Gemm::kMaxBatch);
  const int d = g.batch_dims++;
  g.batch[d] = size;
  g.a_b[d] = a;
  g.b_b[d] = b;
  g.c_b[d] = c;
}

// [batch, m, k] times one [k, n] is [batch * m, k] times [k, n] if a's and c's rows continue from one matrix to the
// next.
void fold_batch(Gemm& g) {
  if (g.batch_dims != 1 || g.b_b[0] != 0) return;
  if (g.m == 1) {
    g.a_m = g.a_b[0];
    g.c_m = g.c_b[0];
    g.m = g.batch[0];
    g.batch_dims = 0;
  } else if (g.a_b[0] == g.a_m * g.m && g.c_b[0] == g.c_m * g.m) {
    g.m *= g.batch[0];
    g.batch_dims = 0;
  }
}

onednn::Matmul describe(const Gemm& g, onednn::Type type, bool bias) {
  onednn::Matmul m;
  m.ndim = 2 + g.batch_dims;
  m.a_type = m.b_type = m.c_type = type;
  m.bias = bias;
  m.alpha = static_cast<float>(g.alpha);
  m.beta = g.accumulate ? 1.f : 0.f;
  for (int d = 0; d < g.batch_dims; ++d) {
    m.c_size[d] = g.batch[d];
    m.c_stride[d] = g.c_b[d];
    m.a_size[d] = g.a_b[d] ? g.batch[d] : 1;
    m.a_stride[d] = g.a_b[d] ? g.a_b[d] : std::max<int64_t>(1, g.m * g.k);
    m.b_size[d] = g.b_b[d] ? g.batch[d] : 1;
    m.b_stride[d] = g.b_b[d] ? g.b_b[d] : std::max<int64_t>(1, g.n * g.k);
  }
  const int r = g.batch_dims;
  // Strides of dimensions of size 1 have no meaning: use those of a contiguous matrix.
  const auto pair = [](int64_t* size, int64_t* stride, int64_t rows, int64_t columns, int64_t down, int64_t along) {
    size[0] = rows;
    size[1] = columns;
    if (columns == 1) along = down == 1 ? rows : 1;
    if (rows == 1) down = along == 1 ? columns : 1;
    stride[0] = down;
    stride[1] = along;
  };
  pair(m.a_size + r, m.a_stride + r, g.m, g.k, g.a_m, g.a_k);
  pair(m.b_size + r, m.b_stride + r, g.k, g.n, g.b_k, g.b_n);
  pair(m.c_size + r, m.c_stride + r, g.m, g.n, g.c_m, g.c_n);
  return m;
}

// One unit stride, the other at least as long as a row: a contiguous or sliced matrix.
bool plain(int64_t rows, int64_t columns, int64_t down, int64_t along) {
  if (columns == 1) return rows == 1 || down >= 1;
  if (rows == 1) return along == 1;
  return (along == 1 && down >= columns) || (down == 1 && along >= rows);
}

constexpr const char* kSmall = "small: our own tiles need neither threads nor a library call";

}  // namespace

const char* product_onednn_fits(const Gemm& g, DType dtype) {
  if (dtype != DType::F32 && dtype != DType::BF16) return "oneDNN is used for float32 and bfloat16";
  if (!onednn_table()) return onednn_missing();
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.batches() == 0) return "a size is 0";
  if (dtype == DType::F32 && gemm_small(g)) return kSmall;
  if (dtype == DType::F32 && gemm_is_matrix_vector(g)) return "a matrix times a vector: our own loop is faster";
  if (dtype == DType::F32 && gemm_is_narrow(g)) return "few columns: the large factor is read once, in place";
  if (dtype == DType::F32 && gemm_is_shallow(g))
    return "short sums: bound by the result's memory, so nothing is packed";
  if (g.batch_dims + 2 > onednn::Matmul::kMaxDims) return "too many batch dimensions";
  if (!plain(g.m, g.k, g.a_m, g.a_k) || !plain(g.k, g.n, g.b_k, g.b_n) || !plain(g.m, g.n, g.c_m, g.c_n))
    return "an operand has no unit stride";
  return nullptr;
}

namespace {

void run_onednn(const Gemm& g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* bias) {
  const auto m = describe(g, c.dtype == DType::F32 ? onednn::Type::F32 : onednn::Type::BF16, bias != nullptr);
  if (!onednn_table()->matmul(m, a.data, b.data, bias ? bias->data : nullptr, c.data, {})) onednn_failed("matmul");
}

const char* onednn_ready(const Gemm& g, DType dtype, bool bias) {
  if (const char* why = product_onednn_fits(g, dtype)) return why;
  return onednn_table()->matmul_ready(describe(g, dtype == DType::F32 ? onednn::Type::F32 : onednn::Type::BF16, bias));
}

template <class T> const T* values(const TensorImpl& t) { return reinterpret_cast<const T*>(t.data); }

// Our own product, directly for the compute types, through staged copies for the others.
template <class Run>
void run_own(const Gemm& g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* bias,
             Run run) {
  const DType type = compute_type(c.dtype);
  dispatch_compute(type, [&]<class T>() {
    Gemm h = g;
    if (bias) h.accumulate = true;
    if (c.dtype == type) {
      if (bias) copy_values(c, *bias);
      return run(h, values<T>(a), values<T>(b), reinterpret_cast<T*>(c.data));
    }
    // The staged copies have other strides: plan again.
    const Tensor x = staged(a, type), y = staged(b, type), z = make_tensor(c.sizes(), type);
    Gemm twin = plan_product(*x, *y, *z);
    twin.accumulate = h.accumulate;
    twin.alpha = h.alpha;
    if (bias) copy_values(*z, *bias);
    else if (h.accumulate) copy_values(*z, c);
    run(twin, x.data<T>(), y.data<T>(), z.data<T>());
    copy_values(c, *z);
  });
}

bool run_dots(const Gemm& g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* bias) {
  return c.dtype == DType::BF16 && !bias &&
         gemv_bf16(g, values<BFloat16>(a), values<BFloat16>(b), reinterpret_cast<BFloat16*>(c.data));
}

struct Simd {
  void operator()(const Gemm& g, const float* a, const float* b, float* c) const { gemm_simd(g, a, b, c); }
  void operator()(const Gemm& g, const double* a, const double* b, double* c) const { gemm_simd(g, a, b, c); }
  void operator()(const Gemm& g, const int64_t* a, const int64_t* b, int64_t* c) const { gemm_rows(g, a, b, c); }
};
struct Reference {
  template <class T> void operator()(const Gemm& g, const T* a, const T* b, T* c) const { gemm_reference(g, a, b, c); }
};

// --- (a, b) ---------------------------------------------------------------------------------------------------------
Gemm plan(const Call& c) { return plan_product(c.args.tensor(0), c.args.tensor(1), *c.out()); }

const char* product_small(const Call& c) {
  if (c.out().dtype() != DType::F32) return "not float32";
  const TensorImpl &a = c.args.tensor(0), &b = c.args.tensor(1);
  if (a.ndim == 2 && b.ndim == 2 && c.out()->contiguous && gemm_small(a.shape[0], b.shape[1], b.shape[0]))
    return nullptr;  // the usual case needs no plan
  return gemm_small(plan(c)) ? nullptr : "too large for one thread";
}
const char* product_onednn(const Call& c) {
  const Gemm g = plan(c);
  if (c.out().dtype() == DType::BF16 && gemm_is_dots(g)) return "dot products: our own loop is faster";
  return onednn_ready(g, c.out().dtype(), false);
}

// --- (input, a, b, …) -------------------------------------------------------------------------------------------------
// addmm, baddbmm: beta and alpha are the last two arguments. The output starts as beta * input.
Gemm plan_scaled(const Call& c) {
  Gemm g = plan_product(c.args.tensor(1), c.args.tensor(2), *c.out());
  g.alpha = c.args[4].number();
  g.accumulate = c.args[3].number() != 0;
  return g;
}
template <class Run> void run_scaled(const Call& c, Run run) {
  const double beta = c.args[3].number();
  const Gemm g = plan_scaled(c);
  const DType type = compute_type(c.out().dtype());
  if (c.out().dtype() == type) {
    if (beta != 0) copy_scaled(c.out(), c.args.tensor(0), beta);
    return run(g, c.args.tensor(1), c.args.tensor(2), *c.out());
  }
  const Tensor wide = make_tensor(c.out().shape(), type);  // rounds once, at the end
  if (beta != 0) copy_scaled(wide, c.args.tensor(0), beta);
  const Tensor a = staged(c.args.tensor(1), type), b = staged(c.args.tensor(2), type);
  Gemm h = plan_product(*a, *b, *wide);
  h.alpha = g.alpha;
  h.accumulate = g.accumulate;
  run(h, *a, *b, *wide);
  copy_values(*c.out(), *wide);
}

// --- linear -------------------------------------------------------------------------------------------------------------
struct LinearPlan {
  Tensor input;   // contiguous, if the rows of the given one make several products
  Tensor weight;  // transposed: [in, out]
  Gemm gemm;
  const TensorImpl* bias;
  Tensor dense_bias;
  bool copies_input = false;
  explicit LinearPlan(const Call& c)
      : input(c.args.share(0)),
        weight(shape_only(c.args.tensor(1))),
        bias(c.args.is_tensor(2) ? &c.args.tensor(2) : nullptr) {
    weight->data = c.args.tensor(1).data;
    if (weight->ndim == 2) {
      std::swap(weight->shape[0], weight->shape[1]);
      std::swap(weight->strides[0], weight->strides[1]);
    }
    weight->update_contiguous();
    gemm = plan_product(*input, *weight, *c.out());
    if (gemm.batch_dims > 0) {  // copying the input costs less than several small products
      input = shape_only(*input);
      input->set_contiguous_strides();
      gemm = plan_product(*input, *weight, *c.out());
      copies_input = true;
    }
    if (!bias) return;
    const int64_t columns = weight->ndim == 2 ? weight->shape[1] : 1;
    if (bias->numel == 1 && columns > 1) {
      Tensor spread = shape_only(*bias);  // oneDNN reads one for each column
      spread->data = bias->data;
      spread->set_shape(Shape(std::array{columns}));
      spread->strides[0] = 0;
      spread->update_contiguous();
      dense_bias = staged(*spread, bias->dtype);
      bias = dense_bias.get();
    } else if (!bias->contiguous || bias->ndim != 1) {
      dense_bias = staged(*bias, bias->dtype);
      bias = dense_bias.get();
    }
  }
  // The input that the product is planned for; before, it has no values if it is a copy.
  const TensorImpl& input_of(const Call& c) {
    if (copies_input) input = staged(c.args.tensor(0), c.args.tensor(0).dtype);
    return *input;
  }
};

}  // namespace

Ref<Storage> packed_weight(const onednn::Matmul& m, const TensorImpl& weight) {
  const onednn::Table& table = *onednn_table();
  const auto form = may_keep_forms(weight) ? table.matmul_weight(m) : onednn::PackedWeight();
  if (!form.bytes) return {};
  const FormKey key = {static_cast<int64_t>(Form::OneDnnProduct), form.layout, weight.strides[0]};
  return form_if_kept(weight, key, form.bytes, [&](std::byte* to) {
    if (!table.matmul_pack(m, weight.data, to)) onednn_failed("reorder");
  });
}

namespace {
// Uses the weight in oneDNN's order, once it was seen twice with the same values: the bits are those of the plain
// order, and it takes as little as half the time for few rows.
void run_linear_onednn(const Call& c) {
  LinearPlan p(c);
  const TensorImpl& weight = c.args.tensor(1);
  auto m = describe(p.gemm, c.out().dtype() == DType::F32 ? onednn::Type::F32 : onednn::Type::BF16, p.bias != nullptr);
  const onednn::Table& table = *onednn_table();
  const Ref<Storage> packed = packed_weight(m, weight);
  m.packed = static_cast<bool>(packed);
  if (!table.matmul(m, p.input_of(c).data, packed ? packed->data : weight.data, p.bias ? p.bias->data : nullptr,
                    c.out()->data, {}))
    onednn_failed("matmul");
}

}  // namespace

Gemm plan_product(const TensorImpl& a, const TensorImpl& b, const TensorImpl& c) {
  Gemm g;
  const int ab = std::max(a.ndim - 2, 0), bb = std::max(b.ndim - 2, 0), batch = std::max(ab, bb);
  g.k = a.shape[a.ndim - 1];
  g.a_k = a.strides[a.ndim - 1];
  if (a.ndim > 1) {
    g.m = a.shape[a.ndim - 2];
    g.a_m = a.strides[a.ndim - 2];
  }
  if (b.ndim > 1) {
    g.n = b.shape[b.ndim - 1];
    g.b_n = b.strides[b.ndim - 1];
    g.b_k = b.strides[b.ndim - 2];
  } else {
    g.b_k = b.strides[0];
    g.b_n = 1;
  }
  if (g.n == 1) g.b_n = 1;
  int d = c.ndim;
  if (b.ndim > 1) g.c_n = c.strides[--d];
  if (a.ndim > 1) g.c_m = c.strides[--d];
  if (g.n == 1) g.c_n = 1;
  if (g.m == 1) g.c_m = g.n * g.c_n;
  for (int i = 0; i < batch; ++i) {
    const int x = i - (batch - ab), y = i - (batch - bb);
    add_batch(g, c.shape[i], x < 0 || a.shape[x] == 1 ? 0 : a.strides[x], y < 0 || b.shape[y] == 1 ? 0 : b.strides[y],
              c.strides[i]);
  }
  fold_batch(g);
  return g;
}

void run_product(Gemm g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& c, const TensorImpl* bias) {
  if (!bias && c.dtype == DType::F32 && gemm_small(g))
    return gemm_simd(g, values<float>(a), values<float>(b), reinterpret_cast<float*>(c.data));
  if (run_dots(g, a, b, c, bias)) return;
  if (!onednn_ready(g, c.dtype, bias != nullptr)) return run_onednn(g, a, b, c, bias);
  run_own(g, a, b, c, bias, Simd());
}

void add_product_kernels(OpRecord& op) {
  op.kernel(
      "simd_small",
      [](const Call& c) {
        gemm_simd(plan(c), values<float>(c.args.tensor(0)), values<float>(c.args.tensor(1)), c.out().data<float>());
      },
      product_small)
    .kernel(
      "onednn", [](const Call& c) { run_onednn(plan(c), c.args.tensor(0), c.args.tensor(1), *c.out(), nullptr); },
      product_onednn)
    .from(Source::OneDnn)
    .kernel("simd_tiles",
            [](const Call& c) {
              const TensorImpl &a = c.args.tensor(0), &b = c.args.tensor(1);
              const Gemm g = plan(c);
              if (!run_dots(g, a, b, *c.out(), nullptr)) run_own(g, a, b, *c.out(), nullptr, Simd());
            })
    .kernel("reference", [](const Call& c) {
      run_own(plan(c), c.args.tensor(0), c.args.tensor(1), *c.out(), nullptr, Reference());
    });
}

void add_scaled_product_kernels(OpRecord& op) {
  op.kernel("fused",
            [](const Call& c) {
              run_scaled(c, [](const Gemm& g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& out) {
                run_product(g, a, b, out);
              });
            })
    .kernel("reference", [](const Call& c) {
      run_scaled(c, [](const Gemm& g, const TensorImpl& a, const TensorImpl& b, const TensorImpl& out) {
        run_own(g, a, b, out, nullptr, Reference());
      });
    });
}

void add_linear_kernels(OpRecord& op) {
  op.kernel("onednn", run_linear_onednn,
            [](const Call& c) {
              const TensorImpl &x = c.args.tensor(0), &w = c.args.tensor(1);
              if (w.ndim == 2 && c.out().dtype() == DType::F32 && gemm_small(1, w.shape[0], w.shape[1]) &&
                  x.numel * w.shape[0] <= 64 * 64 * 64)
                return kSmall;  // known without a plan
              const LinearPlan p(c);
              return onednn_ready(p.gemm, c.out().dtype(), p.bias != nullptr);
            })
    .from(Source::OneDnn)
    .kernel("simd_tiles",
            [](const Call& c) {
              LinearPlan p(c);
              run_own(p.gemm, p.input_of(c), *p.weight, *c.out(), p.bias, Simd());
            })
    .kernel("reference", [](const Call& c) {
      LinearPlan p(c);
      run_own(p.gemm, p.input_of(c), *p.weight, *c.out(), p.bias, Reference());
    });
}

}  // namespace strata::cpu
