// Convolutions. oneDNN chooses its preferred layouts; inputs and results in other layouts are reordered here, at memory
// speed. Channels-last tensors are used directly.
#include "cpu/onednn/after.h"

namespace strata::onednn {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct Key {
  Convolution what;
  int64_t threads;
};

// One tensor of a convolution: in the caller's layout, and in the primitive's.
struct Side {
  Desc user, inner;
  dnnl::memory user_memory, inner_memory;
  dnnl::reorder reorder;
  bool same = true;
};

struct Entry {
  dnnl::primitive primitive;
  Side input, weight, output;
  dnnl::memory bias, scratch;
  Afterwards after;
  size_t scratch_bytes = 0, reorder_bytes = 0;
  bool slow = true;
};

Dims dims(const int64_t* from, int count) { return {from, from + count}; }

bool channels_last(const int64_t* size, const int64_t* stride, int ndim) {
  if (stride[1] != 1) return false;
  int64_t n = size[1];
  for (int d = ndim; d-- > 2; n *= size[d])
    if (size[d] != 1 && stride[d] != n) return false;
  return size[0] == 1 || stride[0] == n;
}

void settle(Side& side, const Desc& inner, bool result) {
  side.inner = inner;
  side.same = inner == side.user;
  side.user_memory = dnnl::memory(side.user, engine(), nullptr);
  if (side.same) return;
  side.inner_memory = dnnl::memory(inner, engine(), nullptr);
  const Desc &from = result ? inner : side.user, &to = result ? side.user : inner;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
  side.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to, attributes));
}

template <class PD>
void finish(Entry& e, const PD& pd, const Desc& input, const Desc& weight, const Desc& output, const Convolution& c) {
  e.slow = std::strstr(pd.impl_info_str(), "ref") != nullptr;
  if (e.slow) return;
  settle(e.input, input, c.pass == ConvPass::BackwardInput);
  settle(e.weight, weight, c.pass == ConvPass::BackwardWeight);
  settle(e.output, output, c.pass == ConvPass::Forward);
  e.scratch_bytes = pd.scratchpad_desc().get_size();
  if (e.scratch_bytes) e.scratch = dnnl::memory(pd.scratchpad_desc(), engine(), nullptr);
}

Entry make(const Convolution& c) {
  const int n = c.spatial + 2, w = n + (c.groups > 1);
  const After& after = c.after;
  const auto type = type_of(after.bytes ? after.input_type : c.type),
             result_type = after.bytes ? type_of(after.result_type) : type;
  Entry e;
  e.input.user = Desc(dims(c.input, n), type, dims(c.input_stride, n));
  const auto weight_type = c.wide_weight ? type_of(Type::F32) : after.bytes ? type_of(Type::S8) : type;
  e.weight.user = Desc(dims(c.weight, w), weight_type, dims(c.weight_stride, w));
  e.output.user = Desc(dims(c.output, n), result_type, dims(c.output_stride, n));
  const bool last = channels_last(c.input, c.input_stride, n) && channels_last(c.output, c.output_stride, n) &&
                    c.input[1] > 1 && c.output[1] > 1;
  const auto any = dnnl::memory::format_tag::any;
  const Desc input = last ? e.input.user : Desc(dims(c.input, n), type, any),
             weight(dims(c.weight, w), after.bytes ? weight_type : type, any),
             weight_result(dims(c.weight, w), weight_type, any),
             output = last ? e.output.user : Desc(dims(c.output, n), result_type, any);
  const int64_t channels = c.output[1];
  const auto bias_type = after.bytes ? type_of(Type::F32) : type;
  const Desc bias = c.bias ? Desc({channels}, bias_type, dnnl::memory::format_tag::a) : Desc();
  if (c.bias) e.bias = dnnl::memory(bias, engine(), nullptr);
  if (after.any() && !last) {
    e.slow = true;  // what follows the sums is in the order of the result, which only channels-last tensors determine
    return e;
  }
  const dnnl::primitive_attr attributes = e.after.attributes(after, output, channels, c.groups > 1 ? 3 : 1);
  Dims dilation = dims(c.dilation, c.spatial);
  for (auto& d : dilation) --d;  // oneDNN counts the holes
  const Dims stride = dims(c.stride, c.spatial), left = dims(c.pad_left, c.spatial),
             right = dims(c.pad_right, c.spatial);
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
    engine(), c.pass == ConvPass::Forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
    direct, input, weight, c.pass == ConvPass::BackwardInput ? Desc() : bias, output, stride, dilation, left, right,
    attributes);
  if (c.pass == ConvPass::Forward) {
    finish(e, forward, forward.src_desc(), forward.weights_desc(), forward.dst_desc(), c);
    if (!e.slow) e.primitive = dnnl::convolution_forward(forward);
  } else if (c.pass == ConvPass::BackwardInput) {
    const dnnl::convolution_backward_data::primitive_desc pd(engine(), direct, input, weight, output, stride, dilation,
                                                             left, right, forward, attributes);
    finish(e, pd, pd.diff_src_desc(), pd.weights_desc(), pd.diff_dst_desc(), c);
    if (!e.slow) e.primitive = dnnl::convolution_backward_data(pd);
  } else {
    const dnnl::convolution_backward_weights::primitive_desc pd(engine(), direct, input, weight_result, bias, output,
                                                                stride, dilation, left, right, forward, attributes);
    finish(e, pd, pd.src_desc(), pd.diff_weights_desc(), pd.diff_dst_desc(), c);
    if (!e.slow) e.primitive = dnnl::convolution_backward_weights(pd);
  }
  return e;
}

Entry& find(const Convolution& c, int threads) {
  static thread_local Cache<Key, Entry> cache;
  Key key;
  std::memset(static_cast<void*>(&key), 0, sizeof key);
  Convolution& k = key.what;
  k.pass = c.pass;
  k.type = c.type;
  k.spatial = c.spatial;
  k.bias = c.bias;
  k.wide_weight = c.wide_weight;
  k.groups = c.groups;
  k.after = c.after;
  const auto copy = [](int64_t* to, const int64_t* from, int count) { std::copy_n(from, count, to); };
  copy(k.input, c.input, 6);
  copy(k.weight, c.weight, 6);
  copy(k.output, c.output, 6);
  copy(k.input_stride, c.input_stride, 6);
  copy(k.weight_stride, c.weight_stride, 6);
  copy(k.output_stride, c.output_stride, 6);
  copy(k.stride, c.stride, 3);
  copy(k.dilation, c.dilation, 3);
  copy(k.pad_left, c.pad_left, 3);
  copy(k.pad_right, c.pad_right, 3);
  key.threads = threads;
  return cache.get(key, [&] { return make(c); });
}

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }
}  // namespace

const char* convolution_ready(const Convolution& c) {
  const char* reason = "oneDNN has only a reference implementation for this convolution";
  guarded([&] {
    const Threads threads;
    if (!find(c, threads.count()).slow) reason = nullptr;
  });
  return reason;
}

size_t convolution_weight_bytes(const Convolution& c) {
  size_t bytes = 0;
  guarded([&] {
    const Threads threads;
    const Side& weight = find(c, threads.count()).weight;
    if (!weight.same) bytes = weight.inner.get_size();
  });
  return bytes;
}

bool convolution_wants_channels_last(const Convolution& c) {
  const auto last = [&](const Side& side, const int64_t* size) {
    const int n = c.spatial + 2;
    Dims strides(static_cast<size_t>(n));
    strides[1] = 1;
    int64_t step = size[1];
    for (int d = n; d-- > 0;) {
      if (d == 1) continue;
      strides[static_cast<size_t>(d)] = step;
      step *= size[d];
    }
    return !side.same && side.inner == Desc(dims(size, n), type_of(c.type), strides);
  };
  bool wants = false;
  if (c.input[1] < 2 || c.output[1] < 2) return wants;
  guarded([&] {
    const Threads threads;
    const Entry& e = find(c, threads.count());
    wants = last(e.input, c.input) && last(e.output, c.output);
  });
  return wants;
}

bool convolution_pack(const Convolution& c, const void* weight, void* packed) {
  return guarded([&] {
    const Threads threads;
    Side& side = find(c, threads.count()).weight;
    side.user_memory.set_data_handle(const_cast<void*>(weight));
    side.inner_memory.set_data_handle(packed);
    side.reorder.execute(stream(), side.user_memory, side.inner_memory);
  });
}

bool convolution(const Convolution& c, void* input, void* weight, void* bias, void* output, const void* packed,
                 const Extra& extra) {
  return guarded([&] {
    const Threads threads;
    Entry& e = find(c, threads.count());
    Side* sides[] = {&e.input, &e.weight, &e.output};
    void* user[] = {input, weight, output};
    const bool result[] = {c.pass == ConvPass::BackwardInput, c.pass == ConvPass::BackwardWeight,
                           c.pass == ConvPass::Forward};
    const int arguments[] = {c.pass == ConvPass::BackwardInput ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
                             c.pass == ConvPass::BackwardWeight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                             c.pass == ConvPass::Forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST};
    size_t bytes = rounded(e.scratch_bytes);
    const auto ready = [&](const Side* s) { return packed && s == &e.weight; };
    for (Side* s : sides) bytes += s->same || ready(s) ? 0 : rounded(s->inner.get_size());
    const Block block(bytes);
    auto* free = static_cast<std::byte*>(block.get());
    dnnl_exec_arg_t args[5 + Afterwards::kMost];
    int count = 0;
    for (int i = 0; i < 3; ++i) {
      Side& s = *sides[i];
      s.user_memory.set_data_handle(user[i]);
      if (ready(&s)) {
        s.inner_memory.set_data_handle(const_cast<void*>(packed));
      } else if (!s.same) {
        s.inner_memory.set_data_handle(free);
        free += rounded(s.inner.get_size());
        if (!result[i]) s.reorder.execute(stream(), s.user_memory, s.inner_memory);
      }
      args[count++] = {arguments[i], (s.same ? s.user_memory : s.inner_memory).get()};
    }
    if (c.bias && c.pass != ConvPass::BackwardInput) {
      e.bias.set_data_handle(bias);
      args[count++] = {c.pass == ConvPass::Forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, e.bias.get()};
    }
    if (e.scratch_bytes) {
      e.scratch.set_data_handle(free);
      args[count++] = {DNNL_ARG_SCRATCHPAD, e.scratch.get()};
    }
    count = e.after.arguments(args, count, extra);
    dnnl::error::wrap_c_api(dnnl_primitive_execute(e.primitive.get(), stream().get(), count, args),
                            "oneDNN convolution failed");
    for (int i = 0; i < 3; ++i)
      if (result[i] && !sides[i]->same)
        sides[i]->reorder.execute(stream(), sides[i]->inner_memory, sides[i]->user_memory);
  });
}

}  // namespace strata::onednn
