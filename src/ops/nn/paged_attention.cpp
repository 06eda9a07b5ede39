// Decoding: attention of a few queries of each sequence with keys and values in pages of a cache.
#include "cuda/nn/paged_attention.h"
#include "autograd/autograd.h"
#include "ops/device_inputs.h"
#include "ops/nn/attention_rows.h"
#include "ops/planned.h"
#include "ops/transfer.h"
#include "strata/args/nn/paged_attention.h"

namespace strata {
namespace {

// query [N, L, H, D], caches [pages, page size, shared heads, features], table [N, pages of a sequence], contexts [N].
void infer_paged_attention(const Call& call) {
  const args::paged_attention_core c(call);
  const TensorImpl &q = c.query(), &k = c.key_cache(), &v = c.value_cache(), &table = c.block_table(),
                   &contexts = c.context_lens();
  STRATA_CHECK(
    q.ndim == 4 && k.ndim == 4 && v.ndim == 4, Runtime,
    "paged_attention: expected query [sequences, queries, heads, features] and caches [pages, page size, heads, "
    "features], got {}, {} and {}",
    to_string(q.sizes()), to_string(k.sizes()), to_string(v.sizes()));
  STRATA_CHECK(
    k.shape[0] == v.shape[0] && k.shape[1] == v.shape[1] && k.shape[2] == v.shape[2] && q.shape[3] == k.shape[3],
    Runtime, "paged_attention: query {}, key_cache {} and value_cache {} do not fit each other", to_string(q.sizes()),
    to_string(k.sizes()), to_string(v.sizes()));
  STRATA_CHECK(k.shape[2] > 0 && q.shape[2] % k.shape[2] == 0, Runtime,
               "paged_attention: query has {} heads and the caches {}; the first must be a multiple of the second",
               q.shape[2], k.shape[2]);
  STRATA_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, Runtime,
               "paged_attention: expected query and caches to have the same dtype, but got {}, {} and {}",
               name_of(q.dtype), name_of(k.dtype), name_of(v.dtype));
  const auto is_index = [](const TensorImpl& t) { return t.dtype == DType::I32 || t.dtype == DType::I64; };
  STRATA_CHECK(table.ndim == 2 && table.shape[0] == q.shape[0] && is_index(table), Runtime,
               "paged_attention: expected block_table [{}, pages] of dtype int32 or int64, got {} of shape {}",
               q.shape[0], name_of(table.dtype), to_string(table.sizes()));
  STRATA_CHECK(contexts.ndim == 1 && contexts.shape[0] == q.shape[0] && is_index(contexts), Runtime,
               "paged_attention: expected context_lens [{}] of dtype int32 or int64, got {} of shape {}", q.shape[0],
               name_of(contexts.dtype), to_string(contexts.sizes()));
  const int64_t shape[] = {q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  c.out()->dtype = q.dtype;
  c.out()->set_shape(shape);
}

// On the CPU, the pages of a sequence are copied together.
template <class Run> void run_paged_on_cpu(const Call& call, Run run) {
  const args::paged_attention_core c(call);
  const TensorImpl &q = c.query(), &k = c.key_cache(), &v = c.value_cache();
  const int64_t sequences = q.shape[0], pages = k.shape[0], page_size = k.shape[1], heads = k.shape[2];
  const int64_t table_pages = c.block_table().shape[1], most_keys = table_pages * page_size;
  const cpu::In<int64_t> table(c.block_table()), contexts(c.context_lens());
  cpu::dispatch_float(q.dtype, [&]<class T>() {
    const cpu::In<T> query(q);
    const cpu::Out<T> out(call.out());
    cpu::Attention a{};
    a.batch_dims = 2;
    a.batch[0] = heads;
    a.batch[1] = q.shape[2] / heads;
    a.rows = a.log_step = q.shape[1];
    a.width = q.shape[3];
    a.value_width = v.shape[3];
    a.right = 0;
    if (c.window() >= 0) a.left = c.window();
    a.scale = c.scale();
    for (int64_t n = 0; n < sequences; ++n) {
      STRATA_CHECK(contexts[n] >= 0 && contexts[n] <= most_keys, Index,
                   "paged_attention: context_lens has {}, but {} pages of {} keys in block_table are {}", contexts[n],
                   table_pages, page_size, most_keys);
      a.columns = contexts[n];
      a.diagonal = a.columns - a.rows;
      if (a.rows == 0 || a.batches() == 0) continue;
      const Tensor keys = empty({a.columns, heads, a.width}, dtype_of<T>, q.device),
                   values = empty({a.columns, heads, a.value_width}, dtype_of<T>, q.device);
      for (int64_t at = 0; at < a.columns; at += page_size) {
        const int64_t page = table[n * table_pages + at / page_size], count = std::min(page_size, a.columns - at);
        STRATA_CHECK(page >= 0 && page < pages, Index,
                     "paged_attention: block_table has page {}, but the caches have {} pages", page, pages);
        const auto copy_page = [&](const Tensor& to, const TensorImpl& cache) {
          cpu::copy_values(*narrow(to, 0, at, count), *narrow(select(alias(cache), 0, page), 0, 0, count));
        };
        copy_page(keys, k);
        copy_page(values, v);
      }
      const auto heads_of = [&](const T* data, int64_t width) {
        cpu::Matrices<const T> m;
        m.data = data;
        m.row = heads * width;
        m.step[0] = width;
        return m;
      };
      const auto rows_of = [&]<class E>(E* data, int64_t width) {
        cpu::Matrices<E> m;
        m.data = data + n * a.rows * q.shape[2] * width;
        m.row = q.shape[2] * width;
        m.step[0] = a.batch[1] * width;
        m.step[1] = width;
        return m;
      };
      run(a, cpu::AttentionForward<T>{rows_of(query.get(), a.width),
                                      heads_of(keys.template data<T>(), a.width),
                                      heads_of(values.template data<T>(), a.value_width),
                                      {},
                                      rows_of(out.get(), a.value_width),
                                      nullptr});
    }
    out.finish();
  });
}

cuda::PagedAttentionCall paged_call(const Call& call) {
  const args::paged_attention_core c(call);
  return {c.query(),        c.key_cache(), c.value_cache(), c.block_table(),
          c.context_lens(), *call.out(),   c.scale(),       c.window()};
}

// On devices, where no fused kernel takes the call: the pages are copied together, and the scores are stored.
void paged_on_device(const Call& call) {
  const args::paged_attention_core c(call);
  const autograd::NoGrad no_grad;
  const DType type = compute_type(call.out().dtype());
  const Device device = c.query().device;
  const Tensor contexts = to(alias(c.context_lens()), DType::I64), table = to(alias(c.block_table()), DType::I64);
  const int64_t sequences = c.query().shape[0], queries = c.query().shape[1], heads = c.key_cache().shape[2];
  const int64_t page_size = c.key_cache().shape[1], keys = table.size(1) * page_size;
  // index_select reports contexts and pages that are out of range.
  const Tensor lengths = index_select(arange(keys + 1, DType::I64, device), 0, contexts);
  const Tensor end = reshape(lengths, {sequences, 1, 1}), j = arange(keys, DType::I64, device);
  if (call.out().numel() == 0) return;
  if (keys == 0) return copy_values(*call.out(), *zeros(call.out().shape(), type, device));
  const Tensor page_of = index_select(table, 1, div(j, page_size, "floor"));  // [sequences, keys]
  const Tensor used = where(lt(j, unsqueeze(lengths, 1)), page_of, int64_t{0});
  const auto gathered = [&](const Tensor& cache) {  // [sequences, heads, 1, keys, features]
    const Tensor all = flatten(to(alias(*cache), type), 0, 1), inside = remainder(j, page_size);
    const Tensor rows = index_select(all, 0, flatten(add(mul(used, page_size), inside)));
    return unsqueeze(transpose(reshape(rows, {sequences, keys, heads, cache.size(3)}), 1, 2), 2);
  };
  const Tensor i = unsqueeze(arange(queries, DType::I64, device), 1), at = add(i, sub(end, queries));
  Tensor seen = logical_and(le(j, at), lt(j, end));
  if (c.window() >= 0) seen = logical_and(seen, ge(j, sub(at, c.window())));
  seen = reshape(seen, {sequences, 1, 1, queries, keys});
  const Tensor attends = any(seen, -1, true);
  const Tensor q = transpose(unflatten(to(alias(c.query()), type), 2, {heads, c.query().shape[2] / heads}), 1, 3);
  const Tensor rows = transpose(q, 1, 2);  // [sequences, heads, repeats, queries, features]
  const Tensor scores = mul(matmul(rows, transpose(gathered(c.share_key_cache()), -2, -1)), c.scale());
  const Tensor weights = softmax(masked_fill(scores, logical_and(logical_not(seen), attends), -HUGE_VAL), -1);
  const Tensor result = matmul(masked_fill(weights, logical_not(attends), 0.0), gathered(c.share_value_cache()));
  copy_values(*call.out(), *flatten(movedim(result, {3}, {1}), 2, 3));
}
}  // namespace

STRATA_OP(
  paged_attention_core,
  "_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor context_lens, "
  "float scale, int window) -> Tensor")
  .doc("paged_attention of queries [sequences, queries, heads, features]; a window of -1 is no limit.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .autocast(Autocast::Lower)
  .infer(infer_paged_attention)
  .kernel("blocks",
          [](const Call& c) {
            run_paged_on_cpu(c, []<class T>(const cpu::Attention& a, const cpu::AttentionForward<T>& p) {
              cpu::attention_forward(a, p);
            });
          })
  .kernel("reference",
          [](const Call& c) {
            run_paged_on_cpu(c, []<class T>(const cpu::Attention& a, const cpu::AttentionForward<T>& p) {
              cpu::attention_forward_reference(a, p);
            });
          })
  .grad(no_derivative)
  .samples({"f(2,1,4,4), f(5,3,2,4), f(5,3,2,6), t[[4,0,2],[1,3,0]], t[7,4], 0.5, -1",
            "f(2,3,2,4), f(5,3,2,4), f(5,3,2,4), t[[4,0,2],[1,3,0]], t[9,2], 0.5, 2",
            "f(1,2,2,4), f(2,4,1,4), f(2,4,1,4), t[[1,0]], t[0], 0.5, 1"})
  .error("f(2,1,4,4), f(5,3,3,4), f(5,3,3,4), t[[0],[1]], t[1,1], 0.5, -1", ErrorKind::Runtime, "must be a multiple")
  .error("f(2,1,4,4), f(5,3,2,5), f(5,3,2,4), t[[0],[1]], t[1,1], 0.5, -1", ErrorKind::Runtime, "do not fit each other")
  .error("f(2,1,4,4), f(5,3,2,4), f(5,3,2,4), t[[0,1]], t[1,1], 0.5, -1", ErrorKind::Runtime, "expected block_table [2")
  .error("f(2,1,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[1]], t[1], 0.5, -1", ErrorKind::Runtime, "context_lens [2]")
  .error("f(2,1,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[5]], t[1,1], 0.5, -1", ErrorKind::Index, "page 5")
  .error("f(2,1,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[1]], t[1,4], 0.5, -1", ErrorKind::Index, "context_lens has 4");

STRATA_OP(
  paged_attention,
  "nn.functional.paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, Tensor block_table, Tensor "
  "context_lens, *, float? scale=None, int? window=None) -> Tensor")
  .no_method()
  .doc(
    "Attention of the last queries of each sequence, [sequences, queries, heads, features] or [sequences, heads, "
    "features], with keys and values in pages of a cache [pages, page size, heads, features]. Key j of sequence s is "
    "key j "
    "% page_size of page block_table[s, j / page_size]; context_lens has the number of keys of each sequence, "
    "including "
    "those of the queries. Several heads of the query may share one of the cache.\n\n"
    "Query i of L attends to the keys up to its own position, context_lens - L + i, and with a window to at most so "
    "many "
    "before it. There is no gradient.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& query, const Tensor& key_cache, const Tensor& value_cache, const Tensor& table,
                const Tensor& contexts, std::optional<double> scale, std::optional<int64_t> window) {
    STRATA_CHECK(
      query.dim() == 3 || query.dim() == 4, Runtime,
      "paged_attention: expected query [sequences, queries, heads, features] or [sequences, heads, features], "
      "got shape {}",
      to_string(query.shape()));
    STRATA_CHECK(!scale || *scale > 0, Value, "paged_attention: scale must be greater than 0, got {}", *scale);
    STRATA_CHECK(!window || *window >= 0, Value, "paged_attention: window must not be negative, got {}", *window);
    const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.size(-1), 1)));
    const Tensor q = query.dim() == 3 ? unsqueeze(query, 1) : query;
    const Tensor out = _paged_attention(q, key_cache, value_cache, int32_indices(table), int32_indices(contexts),
                                        factor, window.value_or(-1));
    return query.dim() == 3 ? squeeze(out, 1) : out;
  })
  .samples({"!f(2,4,4), f(5,3,2,4), f(5,3,2,6), t[[4,0,2],[1,3,0]], t[7,4]",
            "!f(2,3,2,4), f(5,3,2,4), f(5,3,2,4), t[[4,0,2],[1,3,0]], t[9,2], scale=0.3, window=2"})
  .error("f(2,4), f(5,3,2,4), f(5,3,2,4), t[[0],[1]], t[1,1]", ErrorKind::Runtime, "expected query")
  .error("f(2,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[1]], t[1,1], scale=0.0", ErrorKind::Value, "greater than 0")
  .error("f(2,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[4294967296]], t[1,1]", ErrorKind::Index, "5 pages")
  .error("f(2,4,4), f(5,3,2,4), f(5,3,2,4), t[[0],[1]], t[1,1], window=-3", ErrorKind::Value, "not be negative");

namespace {
[[maybe_unused]] const bool paged_kernels_added = [] {
  add_planned<paged_call, cuda::plan_paged_attention, cuda::run_paged_attention>(op_paged_attention_core, Backend::Cuda,
                                                                                 "tensor_cores");
  op_paged_attention_core.record.cuda("ops", paged_on_device);
  return true;
}();
}  // namespace

}  // namespace strata
