// Matrix products. A call seen before on this thread costs a hash, four pointer stores and oneDNN's execute.
#include <mutex>
#include <vector>

#include "cpu/onednn/after.h"

namespace strata::onednn {
namespace {

struct Key {
  Matmul what;
  int64_t threads;
};
static_assert(sizeof(Key) % 8 == 0);

struct Entry {
  dnnl::matmul primitive;
  dnnl::memory a, b, bias, c, scratch;
  size_t scratch_bytes = 0;
  const char* reason = nullptr;  // why it is not used
  bool weight_known = false;
  PackedWeight weight;  // needed by every call of a linear layer
  Afterwards after;
  dnnl_exec_arg_t args[5 + Afterwards::kMost];
  int count = 0;
};

constexpr const char* kDependsOnThreads = "oneDNN's results would depend on the number of threads here";

// On processors without AVX-512 oneDNN uses its "gemm", which splits sums by the number of threads: the bits would
// depend on it. Our own product is as fast there and splits by shapes only.
const char* why_not(const char* implementation) {
  if (std::strstr(implementation, "ref"))
    return "oneDNN has only a reference implementation for these types and strides";
  if (std::strstr(implementation, "gemm:")) return kDependsOnThreads;
  return nullptr;
}

// Batched products with sums of this length were wrong with AVX-512 and more than two threads (oneDNN 3.2.0, observed
// from 3000 on, with a transposed first factor).
constexpr int64_t kLongestBatched = 1024;
bool is_long_batch(const Matmul& m) {
  int64_t batch = 1;
  for (int d = 0; d < m.ndim - 2; ++d) batch *= m.c_size[d];
  return batch > 1 && m.a_size[m.ndim - 1] > kLongestBatched;
}

// Long sums of few results, if the first factor is transposed, are split by the number of threads (observed with up to 300 x
// 300 results and 16 threads, from sums of 2048 on).
constexpr int64_t kLongestShared = 1024, kFewResults = 1 << 19;
bool is_shared_sum(const Matmul& m) {
  const int row = m.ndim - 2, column = m.ndim - 1;
  return m.a_stride[column] != 1 && m.a_size[column] > kLongestShared && m.c_size[row] * m.c_size[column] < kFewResults;
}

dnnl::memory::desc describe(const int64_t* size, const int64_t* stride, int ndim, Type type) {
  return {dnnl::memory::dims(size, size + ndim), type_of(type), dnnl::memory::dims(stride, stride + ndim)};
}

Entry make(const Matmul& m) {
  Entry e;
  const auto a = describe(m.a_size, m.a_stride, m.ndim, m.a_type), c = describe(m.c_size, m.c_stride, m.ndim, m.c_type);
  auto b = m.packed
             ? dnnl::memory::desc({m.b_size, m.b_size + m.ndim}, type_of(m.b_type), dnnl::memory::format_tag::any)
             : describe(m.b_size, m.b_stride, m.ndim, m.b_type);
  const int64_t columns = m.c_size[m.ndim - 1];
  dnnl::primitive_attr attributes = e.after.attributes(m.after, c, columns, 1 << (m.ndim - 1));
  dnnl::post_ops after;
  if (m.alpha != 1) after.append_eltwise(dnnl::algorithm::eltwise_linear, m.alpha, 0);
  if (m.beta != 0) after.append_sum(m.beta);
  if (m.alpha != 1 || m.beta != 0) attributes.set_post_ops(after);
  dnnl::memory::desc bias;
  if (m.bias) {
    int64_t size[Matmul::kMaxDims], stride[Matmul::kMaxDims];
    for (int d = 0; d < m.ndim; ++d) {
      size[d] = 1;
      stride[d] = m.c_size[m.ndim - 1];
    }
    size[m.ndim - 1] = m.c_size[m.ndim - 1];
    stride[m.ndim - 1] = 1;
    bias = describe(size, stride, m.ndim, m.after.bytes ? Type::F32 : m.c_type);
  }
  const auto pd = m.bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes)
                         : dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
  e.reason = is_long_batch(m)   ? "oneDNN gets long sums of several matrices wrong"
             : is_shared_sum(m) ? kDependsOnThreads
                                : why_not(pd.impl_info_str());
  if (e.reason) return e;
  e.primitive = dnnl::matmul(pd);
  b = pd.weights_desc();
  e.a = dnnl::memory(a, engine(), nullptr);
  e.b = dnnl::memory(b, engine(), nullptr);
  e.c = dnnl::memory(c, engine(), nullptr);
  const auto add = [&](int index, const dnnl::memory& memory) { e.args[e.count++] = {index, memory.get()}; };
  add(DNNL_ARG_SRC, e.a);
  add(DNNL_ARG_WEIGHTS, e.b);
  add(DNNL_ARG_DST, e.c);
  if (m.bias) {
    e.bias = dnnl::memory(bias, engine(), nullptr);
    add(DNNL_ARG_BIAS, e.bias);
  }
  e.scratch_bytes = pd.scratchpad_desc().get_size();
  if (e.scratch_bytes) {
    e.scratch = dnnl::memory(pd.scratchpad_desc(), engine(), nullptr);
    add(DNNL_ARG_SCRATCHPAD, e.scratch);
  }
  return e;
}

Entry& find(const Matmul& m, int threads) {
  static thread_local Cache<Key, Entry> cache;
  Key key;
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  Matmul& w = key.what;  // field by field: the padding must stay zero
  w.ndim = m.ndim;
  w.a_type = m.a_type;
  w.b_type = m.b_type;
  w.c_type = m.c_type;
  w.bias = m.bias;
  w.packed = m.packed;
  w.alpha = m.alpha;
  w.beta = m.beta;
  w.after = m.after;
  for (int d = 0; d < m.ndim; ++d) {
    w.a_size[d] = m.a_size[d];
    w.b_size[d] = m.b_size[d];
    w.c_size[d] = m.c_size[d];
    w.a_stride[d] = m.a_stride[d];
    w.b_stride[d] = m.packed ? 0 : m.b_stride[d];
    w.c_stride[d] = m.c_stride[d];
  }
  key.threads = threads;
  return cache.get(key, [&] { return make(m); });
}

Matmul with_packed(Matmul m) {
  m.packed = true;
  return m;
}

// An id of a layout: equal layouts have equal ids, on every thread.
int64_t number_of(const dnnl::memory::desc& layout) {
  static std::mutex mutex;
  static std::vector<dnnl::memory::desc> known;
  const std::lock_guard lock(mutex);
  const auto at = std::find(known.begin(), known.end(), layout);
  if (at != known.end()) return at - known.begin();
  known.push_back(layout);
  return static_cast<int64_t>(known.size()) - 1;
}
}  // namespace

const char* matmul_ready(const Matmul& m) {
  const char* reason = "oneDNN cannot describe this product";
  guarded([&] {
    const Threads threads;
    reason = find(m, threads.count()).reason;
  });
  return reason;
}

bool matmul(const Matmul& m, const void* a, const void* b, const void* bias, void* c, const Extra& extra) {
  return guarded([&] {
    const Threads threads;
    Entry& e = find(m, threads.count());
    dnnl_memory_set_data_handle(e.a.get(), const_cast<void*>(a));
    dnnl_memory_set_data_handle(e.b.get(), const_cast<void*>(b));
    dnnl_memory_set_data_handle(e.c.get(), c);
    if (m.bias) dnnl_memory_set_data_handle(e.bias.get(), const_cast<void*>(bias));
    const Block scratch(e.scratch_bytes);
    if (e.scratch_bytes) dnnl_memory_set_data_handle(e.scratch.get(), scratch.get());
    const int count = e.after.arguments(e.args, e.count, extra);
    dnnl::error::wrap_c_api(dnnl_primitive_execute(e.primitive.get(), stream().get(), count, e.args),
                            "oneDNN matmul failed");
  });
}

PackedWeight matmul_weight(const Matmul& m) {
  PackedWeight w;
  guarded([&] {
    const Threads threads;
    if (const Entry& e = find(m, threads.count()); e.weight_known) return static_cast<void>(w = e.weight);
    if (const Entry& e = find(with_packed(m), threads.count()); !e.reason) {
      const auto layout = e.b.get_desc();
      if (layout != describe(m.b_size, m.b_stride, m.ndim, m.b_type)) {
        w.bytes = layout.get_size();
        w.layout = number_of(layout);
      }
    }
    Entry& e = find(m, threads.count());  // look up again: the cache may have moved it
    e.weight = w;
    e.weight_known = true;
  });
  return w;
}

bool matmul_pack(const Matmul& m, const void* b, void* packed) {
  return guarded([&] {
    const Threads threads;
    dnnl::memory from(describe(m.b_size, m.b_stride, m.ndim, m.b_type), engine(), const_cast<void*>(b)),
      to(find(with_packed(m), threads.count()).b.get_desc(), engine(), packed);
    dnnl::reorder(from, to).execute(stream(), from, to);
  });
}

}  // namespace strata::onednn
