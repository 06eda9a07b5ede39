// The op of max_pool2d: maxima, and one byte per window with the position of each. Channels-last is preserved.
#include "cpu/nn/max_pool.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/movement/copy.h"
#include "cpu/staging.h"
#include "cuda/nn/max_pool.h"
#include "ops/layout.h"
#include "ops/nn/pool_sizes.h"
#include "strata/args/nn/max_pool.h"
#include "strata/ops.h"

namespace strata {
namespace {
using cpu::MaxPool;

using Window = std::array<IntList, 4>;  // kernel_size, stride, padding and dilation, each of two entries
template <class V> Window window_of(const V& a) { return {a.kernel_size(), a.stride(), a.padding(), a.dilation()}; }

MaxPool pool_of(Shape shape, const Window& window, bool last) {
  MaxPool p;
  STRATA_CHECK(shape.size() == 3 || shape.size() == 4, Runtime, "max_pool2d: expected 3D or 4D input, got shape {}",
               to_string(shape));
  for (size_t d = shape.size() == 3 ? 0 : 1; d < shape.size(); ++d)
    STRATA_CHECK(shape[d] > 0 || (d == 1 && shape.size() == 4), Runtime,
                 "max_pool2d: expected an input with non-zero size for all dimensions but the batch, got shape {}",
                 to_string(shape));
  const size_t lead = shape.size() - 2;
  for (size_t d = 0; d < lead; ++d) p.images *= shape[d];
  if (last) {
    p.images = shape[0];
    p.inner = shape[1];
  }
  int64_t* const to[] = {p.kernel, p.stride, p.padding, p.dilation};
  for (size_t i = 0; i < 4; ++i) {
    const IntList l = window[i];
    STRATA_CHECK(l.size == 2, Runtime, "max_pool2d: expected two entries for each spatial size, got {}", to_string(l));
    to[i][0] = l[0];
    to[i][1] = l[1];
    const int64_t least = i == 2 ? 0 : 1;  // padding may be 0
    STRATA_CHECK(
      l[0] >= least && l[1] >= least, Runtime,
      "max_pool2d: kernel size, stride and dilation should be greater than zero and pad non-negative, got {}",
      to_string(l));
  }
  for (int d = 0; d < 2; ++d) p.in[d] = shape[lead + static_cast<size_t>(d)];
  return p;
}
MaxPool forward_pool(const Call& c, bool last) {
  const args::max_pool_codes arg(c);
  MaxPool p = pool_of(arg.input().sizes(), window_of(arg), last);
  for (int d = 0; d < 2; ++d)
    p.out[d] =
      pooled_size("max_pool2d", p.in[d], p.kernel[d], p.stride[d], p.padding[d], p.dilation[d], arg.ceil_mode());
  const int64_t window = (Checked(p.kernel[0]) * p.kernel[1]).get();
  STRATA_CHECK(window <= MaxPool::kMostCodes, Runtime, "max_pool2d: a window of {} values has more than {}", window,
               MaxPool::kMostCodes);
  return p;
}
// Backward and gather: between the input's shape and that of the codes (small).
MaxPool coded_pool(Shape big, const TensorImpl& codes, const Window& window, bool last) {
  MaxPool p = pool_of(big, window, last);
  const size_t lead = big.size() - 2;
  STRATA_CHECK(codes.ndim == static_cast<int>(big.size()) && (codes.dtype == DType::U8 || codes.dtype == DType::Bool),
               Runtime, "max_pool2d: codes of shape {} do not fit an input of shape {}", to_string(codes.sizes()),
               to_string(big));
  for (size_t d = 0; d < lead; ++d)
    STRATA_CHECK(codes.shape[d] == big[d], Runtime, "max_pool2d: codes of shape {} do not fit an input of shape {}",
                 to_string(codes.sizes()), to_string(big));
  for (int d = 0; d < 2; ++d) p.out[d] = codes.shape[lead + static_cast<size_t>(d)];
  return p;
}

// Sets the strides of `out`, whose shape is set: channels-last or contiguous. They are not copied from another tensor:
// the stride of a dimension of size 1 is meaningless, and that dimension may have another size in `out`.
void lay_out(TensorImpl& out, bool last) {
  if (last) set_layout(out, "channels_last", nullptr, "max_pool2d");
  else out.set_contiguous_strides();
}
Tensor form_of(const TensorImpl& t, bool last) {
  Tensor like = shape_only(t);
  lay_out(*like, last);
  return like;
}

// The kernels of float32 and narrower types process channels-last tensors as they are.
bool keeps_last(const TensorImpl& x) { return compute_type(x.dtype) == DType::F32 && cpu::channels_last(x); }

template <class Run> void run_max_pool_forward(const Call& c, Run run) {
  const args::max_pool_codes a(c);
  const TensorImpl& x = a.input();
  const DType compute = compute_type(x.dtype);
  uint8_t* codes = *a.codes() ? c.outs[1].data<uint8_t>() : nullptr;
  if (keeps_last(x)) {
    const Tensor in = cpu::staged_like(x, x, DType::F32), out = cpu::place_for(*c.outs[0], *c.outs[0], DType::F32);
    run(forward_pool(c, true), static_cast<const float*>(in.data<float>()), out.data<float>(), codes);
    if (out.get() != c.outs[0].get()) cpu::copy(*c.outs[0], *out);
    return;
  }
  dispatch_compute(compute, [&]<class T>() {
    const cpu::In<T> in(x);
    const cpu::Out<T> out(c.outs[0]);
    run(forward_pool(c, false), in.get(), out.get(), codes);
    out.finish();
  });
}
// small -> big (backward) or big -> small (gather). Float32 is processed in the memory order of the codes.
template <class V, class Run> void run_coded(const V& c, const TensorImpl& x, Shape big, Run run) {
  const DType compute = compute_type(c.out().dtype());
  const TensorImpl &given = c.codes(), &out = *c.out();
  const bool last = compute == DType::F32 && cpu::channels_last(given);
  const MaxPool pool = coded_pool(big, given, window_of(c), last);
  const Tensor codes = cpu::staged_like(given, *form_of(given, last), DType::U8);
  const Tensor in = cpu::staged_like(x, *form_of(x, last), compute),
               result = cpu::place_for(out, *form_of(out, last), compute);
  dispatch_compute(compute, [&]<class T>() {
    run(pool, static_cast<const T*>(in.template data<T>()), static_cast<const uint8_t*>(codes.template data<uint8_t>()),
        result.template data<T>());
  });
  if (result.get() != &out) cpu::copy(out, *result);
}

cuda::MaxPoolWindow sizes_of(const Window& window) {
  cuda::MaxPoolWindow s;
  for (size_t d = 0; d < 2; ++d) {
    s.kernel[d] = window[0][d];
    s.stride[d] = window[1][d];
    s.padding[d] = window[2][d];
    s.dilation[d] = window[3][d];
  }
  return s;
}
}  // namespace

STRATA_OP(max_pool_codes,
          "_max_pool_codes(Tensor input, int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool "
          "ceil_mode, bool? codes=None) -> (Tensor, Tensor)")
  .doc("The largest value of each window of planes, and its position within the window (empty without `codes`).")
  .keeps_for_grad("codes")
  .helper()
  .no_out()
  .dtypes(kNumericTypes)
  .infer([](const args::max_pool_codes& c) {
    const TensorImpl& x = c.input();
    const MaxPool p = forward_pool(c, false);
    const bool last = keeps_last(x);
    int64_t shape[4];
    std::copy_n(x.shape, x.ndim, shape);
    shape[x.ndim - 2] = p.out[0];
    shape[x.ndim - 1] = p.out[1];
    c.out()->dtype = x.dtype;
    c.out(1)->dtype = DType::U8;
    c.out()->set_shape(Shape(shape, x.ndim));
    const int64_t none[] = {0};
    c.out(1)->set_shape(*c.codes() ? Shape(shape, x.ndim) : Shape(none, 1));
    lay_out(*c.out(), last);
    if (*c.codes()) lay_out(*c.out(1), last);
  })
  .kernel("simd",
          [](const Call& c) {
            run_max_pool_forward(
              c, []<class T>(const MaxPool& p, const T* x, T* y, uint8_t* codes) { cpu::max_pool(p, x, y, codes); });
          })
  .kernel("reference",
          [](const Call& c) {
            run_max_pool_forward(c, []<class T>(const MaxPool& p, const T* x, T* y, uint8_t* codes) {
              cpu::max_pool_reference(p, x, y, codes);
            });
          })
  .cuda("windows",
        [](const args::max_pool_codes& c) {
          cuda::max_pool(cuda::PoolMode::Forward, sizes_of(window_of(c)), c.input(), *c.out(),
                         *c.codes() ? c.out(1).get() : nullptr);
        })
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::max_pool_codes& c, const Tensor& g) -> Grads {
    return {_max_pool_codes_backward(g, c.result(1), c.kernel_size(), c.stride(), c.padding(), c.dilation(),
                                     c.shape_of_input())};
  })
  .samples({"f(2,3,8,6), [2,2], [2,2], [0,0], [1,1], False, True",
            "f(2,3,9,40), [3,2], [2,1], [1,0], [1,2], True, True", "f(3,6,7), [2,3], [3,3], [1,1], [1,1], False, True",
            "f(0,3,8,6), [2,2], [2,2], [0,0], [1,1], False, True"})
  .error("f(2,3,4,4), [20,20], [1,1], [9,9], [1,1], False, True", ErrorKind::Runtime, "more than 255");

STRATA_OP(max_pool_codes_backward,
          "_max_pool_codes_backward(Tensor grad, Tensor codes, int[] kernel_size, int[] stride, int[] padding, int[] "
          "dilation, int[] input_shape) -> Tensor")
  .doc("Writes each gradient to the position of its window's largest value.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::max_pool_codes_backward& c) {
    const TensorImpl &g = c.grad(), &codes = c.codes();
    const IntList shape = c.input_shape();
    coded_pool(Shape(shape.data, shape.size), codes, window_of(c), false);
    STRATA_CHECK(g.same_shape(codes), Runtime, "max_pool2d: the gradient has shape {}, the result {}",
                 to_string(g.sizes()), to_string(codes.sizes()));
    c.out()->dtype = g.dtype;
    c.out()->set_shape(shape);
    lay_out(*c.out(), cpu::channels_last(codes));
  })
  .kernel("simd",
          [](const args::max_pool_codes_backward& c) {
            const IntList shape = c.input_shape();
            run_coded(c, c.grad(), Shape(shape.data, shape.size),
                      []<class T>(const MaxPool& p, const T* g, const uint8_t* codes, T* x) {
                        cpu::max_pool_backward(p, g, codes, x);
                      });
          })
  .kernel("reference",
          [](const args::max_pool_codes_backward& c) {
            const IntList shape = c.input_shape();
            run_coded(c, c.grad(), Shape(shape.data, shape.size),
                      []<class T>(const MaxPool& p, const T* g, const uint8_t* codes, T* x) {
                        cpu::max_pool_backward_reference(p, g, codes, x);
                      });
          })
  .cuda("windows",
        [](const args::max_pool_codes_backward& c) {
          cuda::max_pool(cuda::PoolMode::Backward, sizes_of(window_of(c)), *c.out(), c.grad(), &c.codes());
        })
  .saves({"codes"})
  .grad([](const grads::max_pool_codes_backward& c, const Tensor& g) -> Grads {
    return {_max_pool_codes_gather(g, c.codes(), c.kernel_size(), c.stride(), c.padding(), c.dilation())};
  })
  .samples({"f(2,3,4,3), b(2,3,4,3), [2,2], [2,2], [0,0], [1,1], [2,3,8,6]"});

STRATA_OP(max_pool_codes_gather,
          "_max_pool_codes_gather(Tensor input, Tensor codes, int[] kernel_size, int[] stride, int[] padding, int[] "
          "dilation) -> Tensor")
  .doc("The values at the positions of each window's largest value.")
  .helper()
  .dtypes(kNumericTypes)
  .infer([](const args::max_pool_codes_gather& c) {
    const TensorImpl &x = c.input(), &codes = c.codes();
    coded_pool(x.sizes(), codes, window_of(c), false);
    c.out()->dtype = x.dtype;
    c.out()->set_shape(codes.sizes());
    lay_out(*c.out(), cpu::channels_last(codes));
  })
  .kernel("loops",
          [](const args::max_pool_codes_gather& c) {
            run_coded(c, c.input(), c.input().sizes(),
                      []<class T>(const MaxPool& p, const T* x, const uint8_t* codes, T* y) {
                        cpu::max_pool_gather(p, x, codes, y);
                      });
          })
  .kernel("reference",
          [](const args::max_pool_codes_gather& c) {
            run_coded(c, c.input(), c.input().sizes(),
                      []<class T>(const MaxPool& p, const T* x, const uint8_t* codes, T* y) {
                        cpu::max_pool_gather_reference(p, x, codes, y);
                      });
          })
  .cuda("windows",
        [](const args::max_pool_codes_gather& c) {
          cuda::max_pool(cuda::PoolMode::Gather, sizes_of(window_of(c)), c.input(), *c.out(), &c.codes());
        })
  .saves({"codes"})
  .grad([](const grads::max_pool_codes_gather& c, const Tensor& g) -> Grads {
    return {_max_pool_codes_backward(g, c.codes(), c.kernel_size(), c.stride(), c.padding(), c.dilation(),
                                     c.shape_of_input())};
  })
  .samples({"f(2,3,8,6), b(2,3,4,3), [2,2], [2,2], [0,0], [1,1]"});

}  // namespace strata
