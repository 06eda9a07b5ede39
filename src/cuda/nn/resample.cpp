#include "cuda/nn/resample.h"

#include <algorithm>
#include <bit>

#include "cuda/common/axes.h"
#include "cuda/common/tensors.h"
#include "cuda/common/upload.h"
#include "cuda/nn/resample_params.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

constexpr int64_t kResampleThreads = 256;
constexpr int64_t kChannels = 16;  // per thread of grid_sample

bool wide(const TensorImpl& t) { return t.dtype == DType::F64; }

void check_size(const char* op, int64_t elements) {
  STRATA_CHECK(elements <= INT32_MAX, NotImplemented,
               "{}: planes of more than {} elements are not supported on devices", op, INT32_MAX);
}

// Splits into launches of fewer than 2^31 threads, with whole planes of `size` elements.
template <class P>
void by_planes(const Function& kernel, P p, int64_t planes, int64_t size, const char* op, Device device) {
  if (planes * size == 0) return;
  check_size(op, size);
  const int64_t step = INT32_MAX / size;
  for (int64_t first = 0; first < planes; first += step) {
    p.first = first;
    p.count = static_cast<uint32_t>(std::min(step, planes - first) * size);
    stream_of(device).launch(kernel, {blocks_for(p.count, kResampleThreads)}, {kResampleThreads}, 0, p);
  }
}

GridParams grid_params(const GridSizes& s, const TensorImpl& x, const TensorImpl& grid) {
  GridParams p{};
  p.x = address(x);
  p.grid = address(grid);
  p.dims = s.dims;
  p.mode = s.mode;
  p.padding = s.padding;
  p.corners = s.align_corners;
  p.n = s.n;
  p.c = s.c;
  p.out = s.out;
  int64_t plane = 1;
  for (int d = 0; d < 3; ++d) {
    const int64_t size = d < 3 - s.dims ? 1 : s.in[d - (3 - s.dims)];
    plane *= size;
    p.in[d] = static_cast<int32_t>(size);
  }
  check_size("grid_sample", plane);
  return p;
}

WindowParams window_params(const WindowSizes& s, const TensorImpl& image, const TensorImpl& columns) {
  WindowParams p{};
  p.image = address(image);
  p.columns = address(columns);
  p.type = static_cast<int32_t>(image.dtype);
  for (int d = 0; d < 2; ++d) {
    check_size("unfold", (s.in[d] + 2 * s.padding[d]) * s.stride[d]);
    check_size("unfold", s.kernel[d] * s.dilation[d]);
    p.in[d] = static_cast<int32_t>(s.in[d]);
    p.out[d] = static_cast<int32_t>(s.out[d]);
    p.kernel[d] = static_cast<int32_t>(s.kernel[d]);
    p.stride[d] = static_cast<int32_t>(s.stride[d]);
    p.padding[d] = static_cast<int32_t>(s.padding[d]);
    p.dilation[d] = static_cast<int32_t>(s.dilation[d]);
  }
  return p;
}
}  // namespace

void mix_along(const Mixture& m, int64_t outer, int64_t inner, const TensorImpl& x, const TensorImpl& y,
               Workspace& workspace) {
  static const Function kernels[] = {
    {"resample", "resample_f32"}, {"resample", "resample_f64"}, {"resample", "resample_u8"}};
  const bool bytes = y.dtype == DType::U8;
  if (y.numel == 0) return;
  check_size("interpolate", m.out * inner);
  const Tensor begin = upload(m.begin, workspace), index = upload(m.index, workspace);
  const auto uploaded = [&]<class T>(T) { return upload(std::vector<T>(m.weight.begin(), m.weight.end()), workspace); };
  const Tensor weight = bytes ? uploaded(int32_t()) : wide(y) ? uploaded(double()) : uploaded(float());
  if (workspace.planning()) return;
  ResampleParams p{};
  p.x = address(x);
  p.y = address(y);
  p.begin = address(*begin);
  p.index = address(*index);
  p.weight = address(*weight);
  p.in = m.in;
  p.precision = m.precision;
  p.out = divisor(static_cast<uint32_t>(m.out));
  p.inner = divisor(static_cast<uint32_t>(inner));
  by_planes(kernels[bytes ? 2 : wide(y)], p, outer, m.out * inner, "interpolate", y.device);
}

void take_nearest(const Nearest& n, const TensorImpl& x, const TensorImpl& y, Workspace& workspace) {
  static const Function kernels[] = {
    {"resample", "nearest_1"}, {"resample", "nearest_2"}, {"resample", "nearest_4"}, {"resample", "nearest_8"}};
  if (y.numel == 0) return;
  NearestParams p{};
  p.x = address(x);
  p.y = address(y);
  const auto width = static_cast<int64_t>(n.index[2].size()), threads = ceil_div(width, kNearestItems);
  std::vector<int32_t> index(n.index[2]);
  index.resize(static_cast<size_t>(threads * kNearestItems));
  for (int d = 0; d < 2; ++d) index.insert(index.end(), n.index[d].begin(), n.index[d].end());
  const Tensor list = upload(index, workspace);
  if (workspace.planning()) return;
  p.index[2] = address(*list);
  p.index[0] = p.index[2] + static_cast<uint64_t>(threads * kNearestItems) * 4;
  p.index[1] = p.index[0] + n.index[0].size() * 4;
  check_size("interpolate", n.in[0] * n.in[1] * n.in[2]);
  std::copy_n(n.in, 3, p.in);
  p.width = static_cast<int32_t>(width);
  p.vectors = width % kNearestItems == 0 && p.y % (kNearestItems * size_of(y.dtype)) == 0;
  int64_t size = threads;
  for (int d = 0; d < 2; ++d) {
    p.out[d] = divisor(static_cast<uint32_t>(n.index[d].size()));
    size *= static_cast<int64_t>(n.index[d].size());
  }
  p.row = divisor(static_cast<uint32_t>(threads));
  by_planes(kernels[std::countr_zero(size_of(y.dtype))], p, n.planes, size, "interpolate", y.device);
}

void grid_sample(const GridSizes& s, const TensorImpl& x, const TensorImpl& grid, const TensorImpl& y) {
  static const Function kernels[] = {{"grid_sample", "grid_sample_f32"}, {"grid_sample", "grid_sample_f64"}};
  if (y.numel == 0) return;
  GridParams p = grid_params(s, x, grid);
  p.y = address(y);
  stream_of(y.device).launch(kernels[wide(y)], {blocks_for(s.n * s.out, kResampleThreads), blocks_for(s.c, kChannels)},
                             {kResampleThreads}, 0, p);
}

void grid_sample_backward(const GridSizes& s, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid,
                          const TensorImpl& grad_x, const TensorImpl& grad_grid) {
  static const Function of_grid[] = {{"grid_sample", "grad_of_grid_f32"}, {"grid_sample", "grad_of_grid_f64"}};
  static const Function of_image[] = {{"grid_sample", "grad_of_image_f32"}, {"grid_sample", "grad_of_image_f64"}};
  fill(grad_x, 0);
  if (grad_grid.numel == 0) return;
  GridParams p = grid_params(s, x, grid);
  p.grad = address(grad);
  p.grad_x = address(grad_x);
  p.grad_grid = address(grad_grid);
  const Stream stream = stream_of(x.device);
  stream.launch(of_grid[wide(x)], {blocks_for(s.n * s.out, kResampleThreads)}, {kResampleThreads}, 0, p);
  if (x.numel)
    stream.launch(of_image[wide(x)], {blocks_for(s.n * s.c, kResampleThreads / 32)}, {kResampleThreads}, 0, p);
}

void unfold(const WindowSizes& s, const TensorImpl& image, const TensorImpl& columns) {
  static const Function kernels[] = {
    {"resample", "unfold_f32"}, {"resample", "unfold_f64"}, {"resample", "unfold_i64"}};
  WindowParams p = window_params(s, image, columns);
  const int64_t sizes[] = {s.kernel[0], s.kernel[1], s.out[0], s.out[1]};
  for (int d = 0; d < 4; ++d) p.size[d] = divisor(static_cast<uint32_t>(sizes[d]));
  by_planes(kernels[kernel_index(image.dtype)], p, s.planes, sizes[0] * sizes[1] * sizes[2] * sizes[3], "unfold",
            image.device);
}

void fold(const WindowSizes& s, const TensorImpl& columns, const TensorImpl& image) {
  static const Function kernels[] = {{"resample", "fold_f32"}, {"resample", "fold_f64"}, {"resample", "fold_i64"}};
  WindowParams p = window_params(s, image, columns);
  for (int d = 0; d < 2; ++d) p.size[d + 2] = divisor(static_cast<uint32_t>(s.in[d]));
  by_planes(kernels[kernel_index(image.dtype)], p, s.planes, s.in[0] * s.in[1], "fold", image.device);
}

}  // namespace strata::cuda
