// Functions that draw random numbers: rrelu and the fractional max pools.
#include "strata/args/nn/random.h"
#include "autograd/autograd.h"
#include "cpu/staging.h"
#include "cuda/nn/pooling.h"
#include "ops/device_inputs.h"

namespace strata {
namespace {

Tensor rrelu_of(const Tensor& input, double lower, double upper, bool training, bool inplace) {
  STRATA_CHECK(lower <= upper, Runtime, "rrelu: lower should not be greater than upper, got lower={} and upper={}",
               lower, upper);
  const Tensor slope = training ? uniform_(empty_like(autograd::detach(input)), lower, upper) : Tensor();
  const Tensor x = inplace ? clone(input) : input;  // the gradient needs the old values
  const Tensor out = training ? where(gt(x, 0), x, mul(x, slope)) : nn::functional::leaky_relu(x, (lower + upper) / 2);
  return inplace ? copy_(input, out) : out;
}

// The start of each window along one dimension (Graham, Fractional Max-Pooling): steps of alpha, shifted by the sample.
std::vector<int64_t> starts(double sample, int64_t in, int64_t out, int64_t kernel) {
  std::vector<int64_t> at(static_cast<size_t>(out), in - kernel);
  const double alpha = out > 1 ? static_cast<double>(in - kernel) / static_cast<double>(out - 1) : 0;
  for (int64_t i = 0; i + 1 < out; ++i)
    at[static_cast<size_t>(i)] =
      static_cast<int64_t>((static_cast<double>(i) + sample) * alpha) - static_cast<int64_t>(sample * alpha);
  return at;
}

// Index of the sample for spatial dimension d: as in PyTorch, width first in two dimensions.
size_t sample_of(size_t d, size_t dims) { return dims == 2 ? 1 - d : d; }

void run_fractional(const Call& c) {
  const args::fractional_max_pool_core arg(c);
  const TensorImpl& x = arg.input();
  const IntList kernel = arg.kernel_size(), out_size = arg.output_size();
  const size_t dims = kernel.size, lead = static_cast<size_t>(x.ndim) - dims;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, k[3] = {1, 1, 1}, planes = 1;
  for (size_t d = 0; d < lead; ++d) planes *= x.shape[d];
  for (size_t d = 0; d < dims; ++d) {
    in[3 - dims + d] = x.shape[lead + d];
    out[3 - dims + d] = out_size[d];
    k[3 - dims + d] = kernel[d];
  }
  const cpu::In<double> samples(arg.samples());
  dispatch_compute(x.dtype, [&]<class T>() {
    const cpu::In<T> values(x);
    const cpu::Out<T> result(c.outs[0]);
    int64_t* index = c.outs[1].data<int64_t>();
    const int64_t windows = out[0] * out[1] * out[2];
    const auto pool_plane = [&](int64_t plane) {
      std::vector<int64_t> at[3] = {{0}, {0}, {0}};
      for (size_t d = 0; d < dims; ++d)
        at[3 - dims + d] =
          starts(samples[plane * static_cast<int64_t>(dims) + static_cast<int64_t>(sample_of(d, dims))],
                 in[3 - dims + d], out[3 - dims + d], k[3 - dims + d]);
      const T* from = values + plane * in[0] * in[1] * in[2];
      int64_t o = plane * windows;
      for (int64_t a : at[0])
        for (int64_t b : at[1])
          for (int64_t e : at[2]) {
            int64_t best = (a * in[1] + b) * in[2] + e;
            for (int64_t i = a; i < a + k[0]; ++i)
              for (int64_t j = b; j < b + k[1]; ++j)
                for (int64_t l = e; l < e + k[2]; ++l) {
                  const int64_t place = (i * in[1] + j) * in[2] + l;
                  if (from[place] > from[best] || from[place] != from[place]) best = place;
                }
            result[o] = from[best];
            index[o++] = best;
          }
    };
    const int64_t reads = std::max<int64_t>(1, windows * k[0] * k[1] * k[2]);
    parallel_for(planes, std::max<int64_t>(1, 4096 / reads), [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) pool_plane(plane);
    });
    result.finish();
  });
}

void fractional_on_device(const Call& c, Workspace& workspace) {
  const args::fractional_max_pool_core a(c);
  const TensorImpl& x = a.input();
  const IntList kernel = a.kernel_size(), out_size = a.output_size();
  const size_t dims = kernel.size, lead = static_cast<size_t>(x.ndim) - dims;
  const Tensor samples = dense(a.share_samples(), DType::F64, workspace), input = dense(a.share_input(), workspace);
  if (workspace.planning()) return;
  PoolShape s;
  cuda::PoolSamples places{.values = *samples, .dims = static_cast<int>(dims)};
  for (size_t d = 0; d < lead; ++d) s.planes *= x.shape[d];
  for (size_t d = 0; d < dims; ++d) {
    const size_t to = 3 - dims + d;
    s.in[to] = x.shape[lead + d];
    s.out[to] = out_size[d];
    s.kernel[to] = kernel[d];
    places.sample[to] = static_cast<int>(sample_of(d, dims));
  }
  cuda::pool_max(s, *input, *c.outs[0], *c.outs[1], &places);
}

std::vector<int64_t> repeated(IntList list, size_t dims, const char* op, const char* name) {
  STRATA_CHECK(list.size == 1 || list.size == dims, Runtime, "{}: {} must be a number or {} of them, got {}", op, name,
               dims, to_string(list));
  std::vector<int64_t> out;
  for (size_t d = 0; d < dims; ++d) out.push_back(list[list.size == 1 ? 0 : d]);
  return out;
}

std::array<Tensor, 2> fractional(const char* op, size_t dims, const Tensor& input, IntList kernel_size,
                                 OptIntList output_size, std::optional<std::span<const double>> ratio,
                                 const Tensor& random_samples) {
  STRATA_CHECK(input.dim() == static_cast<int>(dims) + 1 || input.dim() == static_cast<int>(dims) + 2, Runtime,
               "{}: expected a {}D or {}D input, got shape {}", op, dims + 1, dims + 2, to_string(input.shape()));
  STRATA_CHECK(output_size.given != ratio.has_value(), Value,
               "{}: exactly one of output_size and output_ratio is needed", op);
  const std::vector<int64_t> kernel = repeated(kernel_size, dims, op, "kernel_size");
  const Shape in = input.shape().last(dims);
  std::vector<int64_t> out;
  if (output_size.given) out = repeated(output_size, dims, op, "output_size");
  for (size_t d = 0; ratio && d < dims; ++d) {
    STRATA_CHECK(ratio->size() == 1 || ratio->size() == dims, Runtime,
                 "{}: output_ratio must be a number or {} of them, got {}", op, dims, ratio->size());
    const double r = (*ratio)[ratio->size() == 1 ? 0 : d];
    STRATA_CHECK(r > 0 && r < 1, Value, "{}: output_ratio must be between 0 and 1, got {}", op, r);
    out.push_back(static_cast<int64_t>(static_cast<double>(in[d]) * r));
  }
  for (size_t d = 0; d < dims; ++d)
    STRATA_CHECK(kernel[d] > 0 && out[d] > 0 && out[d] <= in[d] && kernel[d] <= in[d] - out[d] + 1, Runtime,
                 "{}: {} windows of {} do not fit an input of size {} (dimension {} of shape {})", op, out[d],
                 kernel[d], in[d], input.dim() - static_cast<int>(dims) + static_cast<int>(d),
                 to_string(input.shape()));
  const bool batched = input.dim() == static_cast<int>(dims) + 2;
  const int64_t shape[] = {batched ? input.size(0) : 1, input.size(batched ? 1 : 0), static_cast<int64_t>(dims)};
  if (random_samples)
    STRATA_CHECK(std::ranges::equal(random_samples.shape(), Shape(shape)) && is_floating(random_samples.dtype()),
                 Runtime, "{}: expected random samples of shape {} and a floating dtype, got {} and {}", op,
                 to_string(shape), to_string(random_samples.shape()), name_of(random_samples.dtype()));
  return _fractional_max_pool(input, kernel, out,
                              random_samples ? random_samples : rand(IntList(Shape(shape)), nullptr, DType::F64));
}
}  // namespace

STRATA_OP(rrelu,
          "nn.functional.rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
          "bool inplace=False) -> Tensor")
  .doc(
    "x above zero; below, x times a slope drawn between lower and upper for each element, or their mean outside "
    "training.")
  .alias("rrelu")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, double lower, double upper, bool training, bool inplace) {
    return rrelu_of(input, lower, upper, training, inplace);
  })
  .samples({"f(3,4)", "f(3,4), 0.1, 0.3, True", "f(0,3), 0.1, 0.3, True"})
  .error("f(3), 0.5, 0.1", ErrorKind::Runtime, "should not be greater");

STRATA_OP(
  fractional_max_pool_core,
  "_fractional_max_pool(Tensor input, int[] kernel_size, int[] output_size, Tensor samples) -> (Tensor, Tensor)")
  .doc("The largest value of windows at the positions given by samples [N, C, dims], and its index within the plane.")
  .helper()
  .no_out()
  .no_grad_inputs({"samples"})
  .dtypes(kNumericTypes)
  .infer([](const args::fractional_max_pool_core& c) {
    const TensorImpl& x = c.input();
    const IntList out = c.output_size();
    STRATA_CHECK(out.size == c.kernel_size().size && out.size <= 3 && out.size <= size_t{x.ndim}, Runtime,
                 "fractional_max_pool: windows {} and sizes {} do not fit an input of shape {}",
                 to_string(c.kernel_size()), to_string(out), to_string(x.sizes()));
    int64_t planes = 1;
    for (size_t d = 0; d < size_t{x.ndim}; ++d) {
      if (d + out.size < size_t{x.ndim}) {
        planes *= x.shape[d];
        continue;
      }
      const size_t i = d + out.size - size_t{x.ndim};
      const int64_t kernel = c.kernel_size()[i];
      STRATA_CHECK(kernel > 0 && out[i] > 0 && out[i] <= x.shape[d] && kernel <= x.shape[d] - out[i] + 1, Runtime,
                   "fractional_max_pool: {} windows of {} do not fit an input of size {}", out[i], kernel, x.shape[d]);
    }
    STRATA_CHECK(c.samples().numel == planes * static_cast<int64_t>(out.size), Runtime,
                 "fractional_max_pool: expected {} samples for each of {} planes, got shape {}", out.size, planes,
                 to_string(c.samples().sizes()));
    int64_t shape[kMaxDims];
    std::copy_n(x.shape, x.ndim, shape);
    std::copy_n(out.data, out.size, shape + x.ndim - out.size);
    for (int o : {0, 1}) c.out(o)->set_shape(Shape(shape, x.ndim));
    c.out()->dtype = x.dtype;
    c.out(1)->dtype = DType::I64;
  })
  .kernel("reference", run_fractional)
  .cuda("windows", fractional_on_device)
  .saves_result({1})
  .no_grad_outputs({1})
  .grad([](const grads::fractional_max_pool_core& c, const Tensor& g) -> Grads {
    return {_plane_scatter(g, c.result(1), c.shape_of_input(), static_cast<int64_t>(c.kernel_size().size), true)};
  })
  .samples({"f(2,3,7,6), [2,3], [3,2], z(2,3,2)"});

STRATA_OP(fractional_max_pool2d_with_indices,
          "nn.functional.fractional_max_pool2d_with_indices(Tensor input, int[] kernel_size, int[]? output_size=None, "
          "float[]? output_ratio=None, *, Tensor? _random_samples=None) -> (Tensor, Tensor)")
  .doc(
    "The largest value of windows at random positions that cover [N, C, H, W] evenly, and its index within the plane.")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, IntList kernel_size, OptIntList output_size,
                std::optional<std::span<const double>> ratio, const Tensor& samples) {
    return fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, ratio, samples);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(2,3,7,6), 2, [3,4]", "f(3,7,6), [2,3], output_ratio=0.5"})
  .error("f(2,3,7,6), 2", ErrorKind::Value, "exactly one of")
  .error("f(2,3,7,6), 5, 4", ErrorKind::Runtime, "do not fit")
  .error("f(1,1,8,8), 9223372036854775807, output_ratio=0.5", ErrorKind::Runtime, "do not fit");

STRATA_OP(fractional_max_pool3d_with_indices,
          "nn.functional.fractional_max_pool3d_with_indices(Tensor input, int[] kernel_size, int[]? output_size=None, "
          "float[]? output_ratio=None, *, Tensor? _random_samples=None) -> (Tensor, Tensor)")
  .doc(
    "The largest value of windows at random positions that cover [N, C, D, H, W] evenly, and its index within the "
    "plane.")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, IntList kernel_size, OptIntList output_size,
                std::optional<std::span<const double>> ratio, const Tensor& samples) {
    return fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, ratio, samples);
  })
  .autocast_cpu(Autocast::Float32)
  .samples({"f(1,2,5,6,7), 2, [3,4,2]", "f(2,5,6,7), 2, output_ratio=0.5"})
  .error("f(2,3,7,6), 2", ErrorKind::Value, "exactly one of")
  .error("f(3,7), 2, 2", ErrorKind::Runtime, "expected a 4D or 5D input");

STRATA_OP(fractional_max_pool2d,
          "nn.functional.fractional_max_pool2d(Tensor input, int[] kernel_size, int[]? output_size=None, float[]? "
          "output_ratio=None, *, Tensor? _random_samples=None) -> Tensor")
  .doc("The largest value of windows at random positions that cover [N, C, H, W] evenly.")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, IntList kernel_size, OptIntList output_size,
                std::optional<std::span<const double>> ratio, const Tensor& samples) {
    return fractional("fractional_max_pool2d", 2, input, kernel_size, output_size, ratio, samples)[0];
  })
  .samples({"f(2,3,7,6), 2, [3,4]"})
  .error("f(2,3,7,6), 2", ErrorKind::Value, "exactly one of");

STRATA_OP(fractional_max_pool3d,
          "nn.functional.fractional_max_pool3d(Tensor input, int[] kernel_size, int[]? output_size=None, float[]? "
          "output_ratio=None, *, Tensor? _random_samples=None) -> Tensor")
  .doc("The largest value of windows at random positions that cover [N, C, D, H, W] evenly.")
  .no_method()
  .no_out()
  .draws()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& input, IntList kernel_size, OptIntList output_size,
                std::optional<std::span<const double>> ratio, const Tensor& samples) {
    return fractional("fractional_max_pool3d", 3, input, kernel_size, output_size, ratio, samples)[0];
  })
  .samples({"f(1,2,5,6,7), 2, [3,4,2]"})
  .error("f(1,2,5,6,7), 2", ErrorKind::Value, "exactly one of");

}  // namespace strata
