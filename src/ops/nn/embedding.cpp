// Rows of a table by index: embedding and embedding_bag.
#include "strata/args/nn/embedding.h"
#include "autograd/sparse_grad.h"
#include "base/host_memory.h"
#include "base/parallel.h"
#include "cpu/nn/rows.h"
#include "cpu/reference.h"
#include "cpu/staging.h"
#include "cuda/indexing/indexing.h"
#include "ops/check_dtype.h"
#include "strata/ops.h"

namespace strata {
namespace {

void check_indices(const char* op, const TensorImpl& i) {
  STRATA_CHECK(i.dtype == DType::I64 || i.dtype == DType::I32, Runtime,
               "{}: expected indices of dtype int64 or int32, got {}", op, name_of(i.dtype));
}
int64_t checked_row(int64_t i, int64_t rows) {
  STRATA_CHECK(i >= 0 && i < rows, Index, "embedding: index {} is out of range for {} rows", i, rows);
  return i;
}

// Scales rows longer than max_norm down to it, in place, as PyTorch does. A row that occurs twice gets the same value
// twice.
void shorten_rows(const char* op, const Tensor& weight, const Tensor& indices, double max_norm, double p) {
  STRATA_CHECK(weight.dim() == 2, Runtime, "{}: weight must be 2-D, got shape {}", op, to_string(weight.shape()));
  check_indices(op, *indices);
  const autograd::NoGrad no_grad;
  const Tensor at = reshape(to(indices, DType::I64), {-1});
  const Tensor rows = to(_embedding(weight, at, -1, false), compute_type(weight.dtype()));
  const int64_t along[] = {1};
  const Tensor norm = linalg::vector_norm(rows, p, OptIntList(IntList(along)), true);
  const Tensor shorter = mul(rows, div(full({}, max_norm, rows.dtype()), add(norm, 1e-7)));
  index_put_(weight, TensorList(std::vector<Tensor>{contiguous(at)}),
             to(where(gt(norm, max_norm), shorter, rows), weight.dtype()));
}

int64_t padding_row(const char* op, std::optional<int64_t> padding, int64_t rows) {
  if (!padding) return -1;
  STRATA_CHECK(*padding >= -rows && *padding < rows, Runtime,
               "{}: padding_idx must be within the number of embeddings ({}), got {}", op, rows, *padding);
  return *padding < 0 ? *padding + rows : *padding;
}

// The bag of each index: rows of a 2-D input, or ranges between offsets, which are checked on the host.
Tensor bags_of_rows(const TensorImpl& input) {
  const int64_t rows = input.shape[0], each = input.shape[1];
  return reshape(expand(unsqueeze(arange(rows, DType::I64), 1), {rows, each}), {rows * each});
}
Tensor bags_from(const Tensor& offsets, int64_t count, bool include_last) {
  check_indices("embedding_bag", *offsets);
  STRATA_CHECK(offsets.dim() == 1, Value, "embedding_bag: offsets has to be a 1D Tensor, got shape {}",
               to_string(offsets.shape()));
  const int64_t bags = offsets.numel() - (include_last && offsets.numel() > 0);
  if (offsets.is_meta()) return empty({count}, DType::I64);
  const Tensor host = offsets.device().type == DeviceType::Cpu ? offsets : to_host(*offsets);
  const cpu::In<int64_t> given(*host);
  STRATA_CHECK(bags == 0 || given[0] == 0, Value, "embedding_bag: offsets[0] has to be 0, got {}", given[0]);
  for (int64_t b = 0; b < bags; ++b)
    STRATA_CHECK(given[b] <= (b + 1 < bags ? given[b + 1] : count), Value,
                 "embedding_bag: offsets must rise and stay within the input of {} elements", count);
  if (offsets.device().type == DeviceType::Cpu) {
    const Tensor bag = make_tensor(Shape(&count, 1), DType::I64);
    for (int64_t b = 0; b < bags; ++b)
      std::fill(bag.data<int64_t>() + given[b], bag.data<int64_t>() + (b + 1 < bags ? given[b + 1] : count), b);
    return bag;
  }
  const Tensor starts = to(narrow(offsets, 0, 0, bags), DType::I64);
  return sub(search_core(starts, arange(count, DType::I64), {}, true, false), 1);
}

// Index within each bag of the maximum of a column: the first of equal values, NaN above all; the number of indices if
// a bag is empty.
Tensor largest_on_device(const Tensor& rows, const Tensor& flat, const Tensor& bag, int64_t bags, int64_t pad) {
  const int64_t count = flat.numel(), n = rows.size(1);
  const Tensor to_bag = expand(unsqueeze(bag, 1), {count, n}), used = unsqueeze(ne(flat, pad), 1);
  const Tensor values = where(used, rows, -INFINITY);
  const Tensor most =
    gather(scatter_reduce(full({bags, n}, -INFINITY, rows.dtype()), 0, to_bag, values, "amax"), 0, to_bag);
  const Tensor is_most = logical_and(used, logical_or(eq(values, most), isnan(values)));
  const Tensor number = where(is_most, unsqueeze(arange(count, DType::I64), 1), count);
  return scatter_reduce(full({bags, n}, count, DType::I64), 0, to_bag, number, "amin");
}
Tensor largest_on_host(const Tensor& rows, const Tensor& flat, const Tensor& bag, int64_t bags, int64_t pad) {
  const int64_t count = flat.numel(), n = rows.size(1);
  const Tensor place = full({bags, n}, count, DType::I64), values = cpu::staged(*rows, compute_type(rows.dtype()));
  const cpu::In<int64_t> row_bag(*bag);
  cpu::dispatch_float(values.dtype(), [&]<class T>() {
    for (int64_t k = 0; k < count; ++k) {
      if (flat.data<int64_t>()[k] == pad) continue;
      int64_t* best = place.data<int64_t>() + row_bag[k] * n;
      for (int64_t j = 0; j < n; ++j) {
        const T v = values.data<T>()[k * n + j], b = best[j] < count ? values.data<T>()[best[j] * n + j] : v;
        if (best[j] == count || v > b || (v != v && b == b)) best[j] = k;
      }
    }
  });
  return place;
}
// Each result passes its gradient to one row.
Tensor largest_of_bags(const Tensor& weight, const Tensor& rows, const Tensor& flat, const Tensor& bag, int64_t bags,
                       int64_t pad) {
  const int64_t count = flat.numel(), n = weight.size(1);
  if (count == 0) return zeros({bags, n}, weight.dtype());
  const auto find = weight.device().type == DeviceType::Cpu ? largest_on_host : largest_on_device;
  const Tensor place = find(autograd::detach(rows), flat, bag, bags, pad), some = lt(place, count);
  const Tensor row = take(flat, where(some, place, 0));
  return where(some, take(weight, add(mul(row, n), arange(n, DType::I64))), 0.0);
}

// Few rows of a table whose rows are not contiguous: the others are not read.
void strided_rows(const TensorImpl& table, const int64_t* index, int64_t count, const TensorImpl& out) {
  const int64_t n = table.shape[1], step = table.strides[1];
  dispatch_size(table.dtype, [&]<class T>() {
    const T* from = reinterpret_cast<const T*>(table.data);
    T* to = reinterpret_cast<T*>(out.data);
    parallel_for(count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const T* row = from + checked_row(index[k], table.shape[0]) * table.strides[0];
        for (int64_t j = 0; j < n; ++j) to[k * n + j] = row[j * step];
      }
    });
  });
}
}  // namespace

STRATA_OP(embedding_core,
          "_embedding(Tensor weight, Tensor indices, int padding_idx, bool scale_grad_by_freq) -> Tensor")
  .doc("The rows of weight at indices.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::embedding_core& c) {
    const TensorImpl &w = c.weight(), &i = c.indices();
    STRATA_CHECK(w.ndim == 2, Runtime, "embedding: 'weight' must be 2-D, got shape {}", to_string(w.sizes()));
    check_indices("embedding", i);
    int64_t shape[kMaxDims + 1];
    std::copy_n(i.shape, i.ndim, shape);
    shape[i.ndim] = w.shape[1];
    c.out()->dtype = w.dtype;
    c.out()->set_shape(Shape(shape, static_cast<size_t>(i.ndim) + 1));
  })
  .kernel("rows",
          [](const args::embedding_core& c) {
            const TensorImpl& w = c.weight();
            const cpu::In<int64_t> index(c.indices());
            if (!w.contiguous && c.indices().numel < w.shape[0])
              return strided_rows(w, index, c.indices().numel, *c.out());
            const Tensor table = cpu::staged(w, w.dtype);
            const int64_t n = w.shape[1], count = c.indices().numel;
            const size_t bytes = static_cast<size_t>(n) * size_of(w.dtype);
            parallel_for(count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
              for (int64_t k = begin; k < end; ++k)
                std::memcpy(c.out().bytes() + static_cast<size_t>(k) * bytes,
                            table.bytes() + static_cast<size_t>(checked_row(index[k], w.shape[0])) * bytes, bytes);
            });
          })
  .kernel("reference",
          [](const args::embedding_core& c) {
            const TensorImpl &w = c.weight(), &indices = c.indices();
            cpu::each_index(c.out().shape(), [&](const cpu::Index& at) {
              const int64_t row = checked_row(cpu::get<int64_t>(indices, at), w.shape[0]);
              cpu::put(*c.out(), at, w, {row, at[indices.ndim]});
            });
          })
  .cuda("rows", [](const args::embedding_core& c,
                   Workspace& workspace) { cuda::embedding(*c.out(), c.weight(), c.indices(), workspace); })
  .saves({"indices"})
  .grad([](const grads::embedding_core& c, const Tensor& g) -> Grads {
    return {_embedding_backward(g, c.indices(), c.shape_of_weight()[0], c.padding_idx(), c.scale_grad_by_freq())};
  })
  .samples({"f(5,3), i5(4), -1, False", "f(5,3), i5(2,2), -1, False"});

STRATA_OP(embedding_backward,
          "_embedding_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool scale_grad_by_freq) "
          "-> Tensor")
  .doc("The gradient of _embedding: rows of grad summed by index.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::embedding_backward& c) {
    const TensorImpl &g = c.grad(), &i = c.indices();
    check_indices("embedding", i);
    STRATA_CHECK(g.ndim == i.ndim + 1 && std::ranges::equal(i.sizes(), g.sizes().first(i.ndim)), Runtime,
                 "embedding: a gradient of shape {} does not fit indices of shape {}", to_string(g.sizes()),
                 to_string(i.sizes()));
    const int64_t shape[] = {c.num_weights(), g.shape[g.ndim - 1]};
    c.out()->dtype = c.grad().dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows",
          [](const args::embedding_backward& c) {
            const cpu::In<int64_t> index(c.indices());
            const int64_t count = c.indices().numel, rows = c.out().size(0), n = c.out().size(1),
                          padding = c.padding_idx();
            std::vector<int64_t> uses(c.scale_grad_by_freq() ? static_cast<size_t>(rows) : 0);
            if (!uses.empty())
              for (int64_t k = 0; k < count; ++k) ++uses[static_cast<size_t>(checked_row(index[k], rows))];
            cpu::dispatch_float(c.out().dtype(), [&]<class T>() {
              const cpu::In<T> grad(c.grad());
              const cpu::Out<T> out(c.out());
              // A thread owns a range of rows of the result and reads all indices: no two threads add to one row.
              parallel_for(
                rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n)), [&](int64_t begin, int64_t end) {
                  std::fill(out + begin * n, out + end * n, T(0));
                  for (int64_t k = 0; k < count; ++k) {
                    const int64_t row = checked_row(index[k], rows);
                    if (row < begin || row >= end || row == padding) continue;
                    const T scale = uses.empty() ? T(1) : T(1) / static_cast<T>(uses[static_cast<size_t>(row)]);
                    const T* from = grad + k * n;
                    T* to = out + row * n;
                    for (int64_t j = 0; j < n; ++j) to[j] += from[j] * scale;
                  }
                });
              out.finish();
            });
          })
  .kernel("reference",
          [](const args::embedding_backward& c) {
            const cpu::In<int64_t> index(c.indices());
            const cpu::In<double> grad(c.grad());
            const cpu::Out<double> out(c.out());
            const int64_t count = c.indices().numel, rows = c.out().size(0), n = c.out().size(1);
            out.fill(0);
            for (int64_t i = 0; i < count * n; ++i) {
              const int64_t row = checked_row(index[i / n], rows);
              const auto uses = c.scale_grad_by_freq() ? std::count(index.get(), index.get() + count, row) : 1;
              if (row != c.padding_idx()) out[row * n + i % n] += grad[i] / static_cast<double>(uses);
            }
            out.finish();
          })
  .cuda("sorted_rows",
        [](const args::embedding_backward& c, Workspace& workspace) {
          cuda::embedding_backward(*c.out(), c.grad(), c.indices(), c.padding_idx(), c.scale_grad_by_freq(), workspace);
        })
  .saves({"indices"})
  .grad([](const grads::embedding_backward& c, const Tensor& g) -> Grads {
    const Tensor indices = c.indices();
    const Tensor rows = _embedding(g, indices, -1, false);
    const int64_t padding = c.padding_idx();
    return {padding < 0 ? rows : masked_fill(rows, unsqueeze(eq(indices, padding), -1), 0.0)};
  })
  .samples({"f(4,3), i5(4), 5, -1, False"});

namespace {
// The gradient of the weight of embedding(sparse=True): the used rows only, except those at padding.
class SparseEmbeddingGrad final : public CustomGrad {
 public:
  SparseEmbeddingGrad(Tensor indices, Shape size, int64_t padding)
      : indices_(std::move(indices)), version_(indices_->version()), size_{size[0], size[1]}, padding_(padding) {}
  const char* name() const override { return "EmbeddingBackward0"; }
  std::vector<Tensor> apply(const std::vector<Tensor>& grads, bool) override {
    STRATA_CHECK(
      indices_, Runtime,
      "Trying to backward through the graph a second time (at embedding): its saved tensors have been freed. "
      "Pass retain_graph=True to the first backward() or grad().");
    STRATA_CHECK(indices_->version() == version_, Runtime,
                 "one of the variables needed for gradient computation has been modified by an inplace operation: the "
                 "indices of embedding");
    if (!grads[0]) return {Tensor()};
    const int64_t count = indices_.numel();
    Tensor places = reshape(to(indices_, DType::I64), {1, count}), rows = reshape(grads[0], {count, size_[1]});
    if (padding_ >= 0) {
      const Tensor kept = squeeze(nonzero(ne(select(places, 0, 0), padding_)), 1);
      places = index_select(places, 1, kept);
      rows = index_select(rows, 0, kept);
    }
    return {autograd::make_sparse({places, rows}, size_)};
  }
  void release() override { indices_ = {}; }

 private:
  Tensor indices_;
  uint32_t version_;
  int64_t size_[2];
  int64_t padding_;
};

Tensor rows_of_table(const Tensor& weight, const Tensor& indices, int64_t padding, bool scale, bool sparse) {
  Tensor rows = _embedding(weight, indices, padding, scale);
  if (!sparse || !rows.requires_grad()) return rows;
  STRATA_CHECK(!scale, Runtime,
               "embedding_backward: scale_grad_by_freq not supported with sparse gradients; use sparse=False");
  rows = alias(*rows);  // without the history, whose gradient is dense
  autograd::record_custom(std::make_unique<SparseEmbeddingGrad>(autograd::detach(indices), weight.shape(), padding),
                          {&weight, 1}, {&rows, 1});
  return rows;
}
}  // namespace

STRATA_OP(embedding,
          "nn.functional.embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float "
          "norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor")
  .doc("The rows of weight at the indices in input. Rows at padding_idx get no gradient.")
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, const Tensor& weight, std::optional<int64_t> padding,
                std::optional<double> max_norm, double norm_type, bool scale, bool sparse) {
    const int64_t row = padding_row("embedding", padding, weight.dim() ? weight.size(0) : 0);
    if (max_norm) shorten_rows("embedding", weight, input, *max_norm, norm_type);
    return rows_of_table(weight, input, row, scale, sparse);
  })
  .samples({"i5(4), f(5,3)", "!i5(2,3), f(5,3), 1", "!i5(4), f(5,3), scale_grad_by_freq=True"})
  .error("i5(4), f(5)", ErrorKind::Runtime, "must be 2-D")
  .error("f(4), f(5,3)", ErrorKind::Runtime, "expected indices of dtype int64");

namespace {
// Bags are numbered from 0 and follow each other.
void check_bags(const int64_t* bag, int64_t count, int64_t bags) {
  for (int64_t k = 0; k < count; ++k)
    STRATA_CHECK(bag[k] >= (k ? bag[k - 1] : 0) && bag[k] < bags, Value,
                 "embedding_bag: expected rising numbers of bags below {}, got {} at {}", bags, bag[k], k);
}
}  // namespace

STRATA_OP(_bag_sums,
          "_bag_sums(Tensor weight, Tensor indices, Tensor bag, int bags, int padding_idx, bool scale_grad_by_freq) -> "
          "Tensor")
  .doc("Sums of the rows of weight at indices, for bags of consecutive indices.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::_bag_sums& c) {
    const TensorImpl &w = c.weight(), &i = c.indices();
    STRATA_CHECK(w.ndim == 2 && i.ndim == 1 && c.bag().ndim == 1 && c.bag().numel == i.numel, Runtime,
                 "embedding_bag: expected a matrix and as many bags as indices, got shapes {}, {} and {}",
                 to_string(w.sizes()), to_string(i.sizes()), to_string(c.bag().sizes()));
    check_indices("embedding_bag", i);
    check_indices("embedding_bag", c.bag());
    STRATA_CHECK(c.bags() >= 0, Value, "embedding_bag: expected a number of bags, got {}", c.bags());
    const int64_t shape[] = {c.bags(), w.shape[1]};
    c.out()->dtype = w.dtype;
    c.out()->set_shape(shape);
  })
  .kernel("rows",
          [](const args::_bag_sums& c) {
            const int64_t rows = c.weight().shape[0], n = c.weight().shape[1], count = c.indices().numel;
            const cpu::In<int64_t> index(c.indices()), bag(c.bag());
            check_bags(bag.get(), count, c.bags());
            check_host_memory(c.bags(), sizeof(int64_t), "embedding_bag");
            std::vector<int64_t> starts(static_cast<size_t>(c.bags() + 1)), used;  // of each bag, within `used`
            used.reserve(static_cast<size_t>(count));
            for (int64_t b = 0, k = 0; b < c.bags(); ++b) {
              for (; k < count && bag[k] <= b; ++k)
                if (checked_row(index[k], rows) != c.padding_idx()) used.push_back(index[k]);
              starts[static_cast<size_t>(b + 1)] = static_cast<int64_t>(used.size());
            }
            cpu::dispatch_float(compute_type(c.weight().dtype), [&]<class T>() {
              const cpu::In<T> table(c.weight());
              const cpu::Out<T> out(c.out());
              const int64_t each = count / std::max<int64_t>(1, c.bags()) + 1;
              parallel_for(c.bags(), std::max<int64_t>(1, 20000 / (each * n + 1)), [&](int64_t begin, int64_t end) {
                for (int64_t b = begin; b < end; ++b) {
                  const int64_t first = starts[static_cast<size_t>(b)], last = starts[static_cast<size_t>(b + 1)];
                  cpu::sum_rows(table.get(), n, used.data() + first, last - first, out.get() + b * n);
                }
              });
              out.finish();
            });
          })
  .kernel("reference",
          [](const args::_bag_sums& c) {
            const int64_t rows = c.weight().shape[0], n = c.weight().shape[1];
            const cpu::In<int64_t> index(c.indices()), bag(c.bag());
            check_bags(bag.get(), c.indices().numel, c.bags());
            const cpu::In<double> table(c.weight());
            const cpu::Out<double> out(c.out());
            out.fill(0);
            for (int64_t k = 0; k < c.indices().numel; ++k) {
              const int64_t row = checked_row(index[k], rows);
              for (int64_t j = 0; row != c.padding_idx() && j < n; ++j) out[bag[k] * n + j] += table[row * n + j];
            }
            out.finish();
          })
  .cuda_on_host("bag_sums_on_host")
  .saves({"indices", "bag"})
  .grad([](const grads::_bag_sums& c, const Tensor& g) -> Grads {
    // The same sums with the roles exchanged: for each row of weight those of the rows of g whose bags contain it. The rows of
    // all bags need not be stored.
    const int64_t rows = c.shape_of_weight()[0], padding = c.padding_idx();
    const Tensor indices = to(c.indices(), DType::I64);
    const auto [sorted, order] = sort(indices);
    Tensor sums = _bag_sums(g, index_select(c.bag(), 0, order), sorted, rows, -1, false);
    if (c.scale_grad_by_freq()) {
      const Tensor uses = scatter_add(zeros({rows}, DType::I64), 0, indices, ones_like(indices));
      sums = div(sums, unsqueeze(to(clamp_min(uses, 1), sums.dtype()), 1));
    }
    if (padding >= 0) sums = masked_fill(sums, unsqueeze(eq(arange(rows, DType::I64), padding), 1), 0.0);
    return {sums};
  })
  .samples({"f(5,3), t[0,4,2,2], t[0,0,1,1], 3, -1, False", "f(5,3), t[0,4,2,2,1,0], t[0,0,0,0,0,2], 3, 2, False"});

STRATA_OP(embedding_bag,
          "nn.functional.embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float "
          "norm_type=2, bool scale_grad_by_freq=False, str mode='mean', "
          "bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int? padding_idx=None) "
          "-> Tensor")
  .doc("Sums, means or maxima of bags of rows. Bags are the rows of a 2-D input, or start at offsets into a 1-D one.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& offsets, std::optional<double> max_norm,
                double norm_type, bool scale, std::string_view mode, bool sparse, const Tensor& per_sample,
                bool include_last, std::optional<int64_t> padding) {
    refuse_integers(weight, "embedding_bag");
    STRATA_CHECK(weight.dim() == 2, Runtime, "embedding_bag: weight must be 2-D, got shape {}",
                 to_string(weight.shape()));
    STRATA_CHECK(mode == "sum" || mode == "mean" || mode == "max", Value,
                 "embedding_bag: mode has to be one of sum, mean or max, got '{}'", mode);
    STRATA_CHECK(!sparse || mode != "max", Value, "embedding_bag: max mode does not support sparse weights");
    STRATA_CHECK(!per_sample || mode == "sum", NotImplemented,
                 "embedding_bag: per_sample_weights are supported for mode='sum' only, got mode='{}'", mode);
    STRATA_CHECK(!per_sample || per_sample->same_shape(*input), Value,
                 "embedding_bag: expected per_sample_weights of the shape of input, {}, got {}",
                 to_string(input.shape()), per_sample ? to_string(per_sample.shape()) : "");
    STRATA_CHECK(input.dim() == 1 || input.dim() == 2, Value, "embedding_bag: input has to be 1D or 2D, got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(
      input.dim() == 2 ? !offsets : static_cast<bool>(offsets), Value, "embedding_bag: {}",
      input.dim() == 2 ? "if input is 2D, then offsets has to be None" : "offsets has to be a 1D Tensor but got None");
    check_indices("embedding_bag", *input);
    const int64_t rows = weight.size(0), n = weight.size(1), count = input.numel(),
                  pad = padding_row("embedding_bag", padding, rows);
    if (max_norm) shorten_rows("embedding_bag", weight, input, *max_norm, norm_type);
    const Tensor flat = contiguous(reshape(to(input, DType::I64), {count}));
    const Tensor bag = offsets ? bags_from(offsets, count, include_last) : bags_of_rows(*input);
    const int64_t bags = offsets ? offsets.numel() - (include_last && offsets.numel() > 0) : input.size(0);
    const Tensor padding_mask = pad >= 0 ? eq(flat, pad) : Tensor();
    const auto mean_or_sum = [&](const Tensor& total) {
      if (mode == "sum") return total;
      const Tensor counted = pad >= 0 ? to(logical_not(padding_mask), DType::I64) : ones({count}, DType::I64);
      const Tensor sizes = clamp_min(scatter_add(zeros({bags}, DType::I64), 0, bag, counted), 1);
      return div(total, unsqueeze(to(sizes, total.dtype()), 1));
    };
    // On the CPU the rows of all bags need not be stored.
    if (mode != "max" && !per_sample && !sparse && weight.device().type == DeviceType::Cpu)
      return mean_or_sum(_bag_sums(weight, flat, bag, bags, pad, scale));
    Tensor picked = rows_of_table(weight, flat, pad, scale, sparse);
    if (mode == "max") return largest_of_bags(weight, picked, flat, bag, bags, pad);
    if (pad >= 0) picked = masked_fill(picked, unsqueeze(padding_mask, -1), 0.0);
    if (per_sample) picked = mul(picked, reshape(per_sample, {count, 1}));
    return mean_or_sum(index_add(zeros({bags, n}, picked.dtype()), 0, bag, picked));
  })
  .samples({"i5(2,3), f(5,3)", "i5(2,3), f(5,3), mode='sum', per_sample_weights=f(2,3)", "i5(2,3), f(5,3), mode='max'"})
  .error("i5(4), f(5,3)", ErrorKind::Value, "offsets has to be a 1D Tensor")
  .error("i5(2,3), f(5,3), mode='max', sparse=True", ErrorKind::Value, "max mode does not support sparse weights")
  .error("i5(2,3), f(5,3), mode='x'", ErrorKind::Value, "one of sum, mean or max");

}  // namespace strata
