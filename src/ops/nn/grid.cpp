// Spatial transformers: affine_grid and grid_sample.
#include "strata/args/nn/grid.h"
#include "autograd/autograd.h"
#include "base/checked.h"
#include "cpu/nn/grid_sample.h"
#include "cpu/staging.h"
#include "cuda/nn/resample.h"
#include "ops/device_inputs.h"
#include "ops/transfer.h"

namespace strata {
namespace {

// V: the view of _grid_sample or of its gradient.
template <class V> cpu::GridSample shape_of(const V& a) {
  const TensorImpl &x = a.input(), &grid = a.grid();
  STRATA_CHECK(x.ndim == 4 || x.ndim == 5, Runtime, "grid_sample: expected a 4D or 5D input [N, C, ...], got shape {}",
               to_string(x.sizes()));
  cpu::GridSample s;
  s.dims = x.ndim - 2;
  STRATA_CHECK(grid.ndim == x.ndim && grid.shape[0] == x.shape[0] && grid.shape[grid.ndim - 1] == s.dims, Runtime,
               "grid_sample: expected a grid of shape [{}, ..., {}] of {} dimensions, got {}", x.shape[0], s.dims,
               int{x.ndim}, to_string(grid.sizes()));
  STRATA_CHECK(x.dtype == grid.dtype && kFloatingTypes.has(x.dtype), Runtime,
               "grid_sample: expected input and grid to have the same floating-point dtype, but got {} and {}",
               name_of(x.dtype), name_of(grid.dtype));
  for (int d = 2; d < x.ndim; ++d)
    STRATA_CHECK(x.shape[d] > 0, Runtime,
                 "grid_sample: expected input to have non-empty spatial dimensions, got shape {}",
                 to_string(x.sizes()));
  s.n = x.shape[0];
  s.c = x.shape[1];
  s.out = 1;
  for (int d = 0; d < s.dims; ++d) {
    s.in[d] = x.shape[d + 2];
    s.out *= grid.shape[d + 1];
  }
  const auto mode = a.mode(), padding = a.padding_mode();
  STRATA_CHECK(mode == "bilinear" || mode == "nearest" || mode == "bicubic", Value,
               "grid_sample: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{}'", mode);
  STRATA_CHECK(padding == "zeros" || padding == "border" || padding == "reflection", Value,
               "grid_sample: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{}'", padding);
  STRATA_CHECK(mode != "bicubic" || s.dims == 2, Runtime,
               "grid_sample: bicubic interpolation only supports 4D input, got shape {}", to_string(x.sizes()));
  using G = cpu::GridSample;
  s.mode = mode == "bilinear" ? G::Mode::Linear : mode == "nearest" ? G::Mode::Nearest : G::Mode::Cubic;
  s.padding = padding == "zeros"    ? G::Padding::Zeros
              : padding == "border" ? G::Padding::Border
                                    : G::Padding::Reflection;
  s.align_corners = a.align_corners();
  return s;
}

// The loops are already plain; the reference runs them in double.
template <class T> void run_sample(const Call& c) {
  const args::grid_sample_core a(c);
  const auto s = shape_of(a);
  const cpu::In<T> x(a.input()), grid(a.grid());
  const cpu::Out<T> out(c.out());
  cpu::grid_sample<T>(s, x, grid, out);
  out.finish();
}
template <class T> void run_grid_backward(const Call& c) {
  const args::grid_sample_backward a(c);
  const auto s = shape_of(a);
  const cpu::In<T> grad(a.grad()), x(a.input()), grid(a.grid());
  const cpu::Out<T> gx(c.outs[0]), ggrid(c.outs[1]);
  cpu::grid_sample_backward<T>(s, grad, x, grid, gx, ggrid);
  gx.finish();
  ggrid.finish();
}

cuda::GridSizes device_sizes(const cpu::GridSample& s) {
  return {.dims = s.dims,
          .n = s.n,
          .c = s.c,
          .in = {s.in[0], s.in[1], s.in[2]},
          .out = s.out,
          .mode = static_cast<int>(s.mode),
          .padding = static_cast<int>(s.padding),
          .align_corners = s.align_corners};
}
void sample_on_device(const Call& c, Workspace& workspace) {
  const args::grid_sample_core a(c);
  const DType type = compute_type(c.out().dtype());
  const Tensor x = dense(a.share_input(), type, workspace), grid = dense(a.share_grid(), type, workspace);
  const cuda::DenseOut out(*c.out(), type, workspace);
  if (workspace.planning()) return;
  cuda::grid_sample(device_sizes(shape_of(a)), *x, *grid, *out);
  out.finish();
}
void grid_backward_on_device(const Call& c, Workspace& workspace) {
  const args::grid_sample_backward a(c);
  const DType type = compute_type(c.outs[0].dtype());
  const Tensor grad = dense(a.share_grad(), type, workspace), x = dense(a.share_input(), type, workspace),
               grid = dense(a.share_grid(), type, workspace);
  const cuda::DenseOut grad_x(*c.outs[0], type, workspace), grad_grid(*c.outs[1], type, workspace);
  if (workspace.planning()) return;
  cuda::grid_sample_backward(device_sizes(shape_of(a)), *grad, *x, *grid, *grad_x, *grad_grid);
  grad_x.finish();
  grad_grid.finish();
}
}  // namespace

STRATA_OP(grid_sample_core,
          "_grid_sample(Tensor input, Tensor grid, str mode, str padding_mode, bool align_corners) -> Tensor")
  .doc("Samples the input at the positions in grid; called by grid_sample.")
  .helper()
  .dtypes(kFloatingTypes)
  .infer([](const args::grid_sample_core& c) {
    const TensorImpl &x = c.input(), &grid = c.grid();
    shape_of(c);
    int64_t shape[kMaxDims] = {x.shape[0], x.shape[1]};
    std::copy_n(grid.shape + 1, x.ndim - 2, shape + 2);
    c.out()->dtype = x.dtype;
    c.out()->set_shape(Shape(shape, x.ndim));
  })
  .kernel("places", [](const Call& c) { cpu::dispatch_float(c.out().dtype(), [&]<class T>() { run_sample<T>(c); }); })
  .kernel("reference", run_sample<double>)
  .cuda("places", sample_on_device)
  .saves({"input", "grid"})
  .grad([](const grads::grid_sample_core& c, const Tensor& g) -> Grads {
    const auto both = _grid_sample_backward(g, c.input(), c.grid(), c.mode(), c.padding_mode(), c.align_corners());
    return {both[0], both[1]};
  })
  .samples({"f(1,2,4,5), u(1,3,2,2), 'bilinear', 'zeros', False"});

STRATA_OP(grid_sample_backward,
          "_grid_sample_backward(Tensor grad, Tensor input, Tensor grid, str mode, str padding_mode, bool "
          "align_corners) -> (Tensor, Tensor)")
  .doc("Gradients of _grid_sample: of input and grid.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer([](const args::grid_sample_backward& c) {
    const auto s = shape_of(c);
    STRATA_CHECK(c.grad().numel == s.n * s.c * s.out, Runtime,
                 "grid_sample: the gradient has shape {}, expected {} elements", to_string(c.grad().sizes()),
                 s.n * s.c * s.out);
    const TensorImpl* like[] = {&c.input(), &c.grid()};
    for (size_t o : {0u, 1u}) {
      c.out(o)->dtype = like[o]->dtype;
      c.out(o)->set_shape(like[o]->sizes());
    }
  })
  .kernel("places",
          [](const Call& c) { cpu::dispatch_float(c.out().dtype(), [&]<class T>() { run_grid_backward<T>(c); }); })
  .kernel("reference", run_grid_backward<double>)
  .cuda("places", grid_backward_on_device)
  .samples({"f(1,2,3,2), f(1,2,4,5), u(1,3,2,2), 'bilinear', 'zeros', False"});

STRATA_OP(grid_sample,
          "nn.functional.grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? "
          "align_corners=None) -> Tensor")
  .doc("Samples [N, C, H, W] (or with depth) at the positions in grid, where -1 and 1 are the borders.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& grid, std::string_view mode, std::string_view padding,
                std::optional<bool> align) { return _grid_sample(input, grid, mode, padding, align.value_or(false)); })
  .autocast_cuda(Autocast::Promote)
  .autocast_cpu(Autocast::Float32)
  .samples({"f(1,2,4,5), u(1,3,2,2)", "f(2,1,4,5), f(2,3,2,2), padding_mode='border', align_corners=True",
            "f(1,2,4,5), f(1,3,2,2), padding_mode='reflection'", "f(1,2,3,4,5), u(1,2,3,2,3)",
            "f(1,2,4,5), u(1,3,2,2), mode='bicubic'"})
  .error("f(1,2,4,5), u(1,3,2,3)", ErrorKind::Runtime, "expected a grid of shape")
  .error("f(1,2,4,5), u(1,3,2,2), mode='x'", ErrorKind::Value, "expected mode");

STRATA_OP(grid_sampler_2d,
          "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> "
          "Tensor")
  .doc(
    "nn.functional.grid_sample of images, with numbers for its modes: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 "
    "border, 2 reflection.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding, bool align) {
    constexpr const char *kModes[] = {"bilinear", "nearest", "bicubic"},
                         *kPaddings[] = {"zeros", "border", "reflection"};
    STRATA_CHECK(input.dim() == 4, Runtime, "grid_sampler_2d: expected a 4-D input, got shape {}",
                 to_string(input.shape()));
    STRATA_CHECK(mode >= 0 && mode < 3 && padding >= 0 && padding < 3, Value,
                 "grid_sampler_2d: expected modes between 0 and 2, got {} and {}", mode, padding);
    return _grid_sample(input, grid, kModes[mode], kPaddings[padding], align);
  })
  .autocast_cuda(Autocast::Promote)
  .samples({"f(1,2,4,5), u(1,3,2,2), 0, 0, False", "f(1,2,4,5), f(1,3,2,2), 2, 2, True"})
  .error("f(1,2,3,4,5), u(1,2,3,2,3), 0, 0, False", ErrorKind::Runtime, "expected a 4-D input")
  .error("f(1,2,4,5), u(1,3,2,2), 3, 0, False", ErrorKind::Value, "between 0 and 2");

STRATA_OP(affine_grid, "nn.functional.affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor")
  .doc("The positions to which theta [N, 2, 3] (or [N, 3, 4]) maps a regular grid of the given image size.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& theta, IntList size, std::optional<bool> align) {
    STRATA_CHECK(is_floating(theta.dtype()), Value, "affine_grid: expected theta to have floating point type, got {}",
                 name_of(theta.dtype()));
    STRATA_CHECK(size.size == 4 || size.size == 5, NotImplemented,
                 "affine_grid: only supports 4D and 5D sizes for 2D and 3D transforms, got {}", to_string(size));
    const int64_t dims = static_cast<int64_t>(size.size) - 2;
    STRATA_CHECK(theta.dim() == 3 && theta.size(0) == size[0] && theta.size(1) == dims && theta.size(2) == dims + 1,
                 Value, "affine_grid: expected a batch of {} affine matrices of shape {}x{} for size {}, got {}",
                 size[0], dims, dims + 1, to_string(size), to_string(theta.shape()));
    int64_t places = 1;
    for (size_t d = 2; d < size.size; ++d) {
      STRATA_CHECK(size[d] > 0, Value, "affine_grid: expected non-zero, positive output size, got {}", to_string(size));
      places = (Checked(places) * size[d]).get();
    }
    const int64_t shape[] = {places, dims + 1};
    const Tensor base = make_tensor(shape, DType::F64, staging_device(theta));  // x, y(, z), 1 of every position
    for (int64_t p = 0; p < places && !theta.is_meta(); ++p) {
      double* row = base.data<double>() + p * (dims + 1);
      int64_t rest = p;
      for (int64_t d = 0; d < dims; ++d) {
        const int64_t n = size[static_cast<size_t>(dims + 1 - d)], i = rest % n;
        rest /= n;
        const double step = static_cast<double>(n);
        row[d] = align.value_or(false) ? (n > 1 ? -1 + 2 * static_cast<double>(i) / (step - 1) : 0)
                                       : (2 * static_cast<double>(i) + 1) / step - 1;
      }
      row[dims] = 1;
    }
    std::vector<int64_t> out{size[0]};
    for (size_t d = 2; d < size.size; ++d) out.push_back(size[d]);
    out.push_back(dims);
    return reshape(matmul(to(placed(base), theta.dtype()), transpose(theta, 1, 2)), out);
  })
  .samples({"f(2,2,3), [2,1,3,4]", "f(1,3,4), [1,1,2,3,2], True"})
  .error("f(2,2,3), [3,1,3,4]", ErrorKind::Value, "expected a batch of 3");

}  // namespace strata
