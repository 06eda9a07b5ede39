#include "cuda/linalg/gemm_bytes.h"

#include <array>

#include "cuda/common/tensors.h"
#include "cuda/linalg/gemm_bytes_params.h"
#include "cuda/linalg/hopper_launch.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::cuda {
namespace {

using hopper::KFormat;

constexpr int64_t kPitch = 128;  // rows of copies are whole lines of the cache

// Rows of k bytes, `rows` of them. Pairs of bytes are read, so k must be even, or a zero follows each row.
Factor lay_out_rows(const TensorImpl& t, int row_dim, const Stream* stream, Workspace& space) {
  const int64_t rows = t.shape[row_dim], k = t.shape[1 - row_dim];
  const int64_t step = rows == 1 ? ceil_div(k, 16) * 16 : t.strides[row_dim];
  const bool dense = t.strides[1 - row_dim] == 1 && (step >= k || rows == 1);
  if (dense && k % 2 == 0 && step % 16 == 0 && address(t) % 16 == 0) return {true, step / 2, address(t)};
  const int64_t pitch = ceil_div(k, kPitch) * kPitch;
  const Tensor copied = space.take(Shape(std::array{rows, pitch}), t.dtype);
  if (!stream) return {true, pitch / 2, 0};
  if (k % 2) fill(*copied, Scalar(int64_t{0}));
  const Tensor to = alias(*copied);
  to->shape[row_dim] = rows;
  to->strides[row_dim] = pitch;
  to->shape[1 - row_dim] = k;
  to->strides[1 - row_dim] = 1;
  to->numel = rows * k;
  to->update_contiguous();
  copy(*to, t);
  return {true, pitch / 2, address(*copied)};
}

// The format, and the tile shapes that are compiled for it.
struct Format {
  KFormat format;
  uint32_t tiles;
};
Format format_of(const ByteProduct& p) {
  constexpr uint32_t kAll = 1u << kHugeTiles | 1u << kLargeTiles | 1u << kMediumTiles | 1u << kFlatTiles;
  constexpr uint32_t kSome = 1u << kLargeTiles | 1u << kMediumTiles;
  if (p.a.dtype == DType::I8) return {KFormat::S8, kAll};
  if (p.a.dtype == DType::F8E5M2) return {KFormat::E5M2TimesE4M3, kSome};
  if (p.b.dtype == DType::F8E5M2) return {KFormat::E4M3TimesE5M2, kSome};
  return {KFormat::E4M3, kAll};
}

const Function& kernel_of(KFormat format, size_t tiles) {
  static const Function integers[] = {{"gemm_bytes_s8", "huge_s8"},
                                      {"gemm_bytes_s8", "large_s8"},
                                      {"gemm_bytes_s8", "medium_s8"},
                                      {"gemm_bytes_s8", "flat_s8"}};
  static const Function plain[] = {{"gemm_bytes_f8", "huge_e4m3"},
                                   {"gemm_bytes_f8", "large_e4m3"},
                                   {"gemm_bytes_f8", "medium_e4m3"},
                                   {"gemm_bytes_f8", "flat_e4m3"}};
  static const Function mixed[2][2] = {{{"gemm_bytes_f8", "large_e4m3_e5m2"}, {"gemm_bytes_f8", "medium_e4m3_e5m2"}},
                                       {{"gemm_bytes_f8", "large_e5m2_e4m3"}, {"gemm_bytes_f8", "medium_e5m2_e4m3"}}};
  const size_t place = tiles == kHugeTiles ? 0 : tiles == kLargeTiles ? 1 : tiles == kMediumTiles ? 2 : 3;
  if (format == KFormat::S8) return integers[place];
  if (format == KFormat::E4M3) return plain[place];
  return mixed[format == KFormat::E5M2TimesE4M3][place - 1];
}
}  // namespace

const char* lay_out_bytes(const ByteProduct& p, Workspace& space, const Stream* stream, GemmLayout& out) {
  const TensorImpl& d = *p.d;
  const int64_t m = p.a.shape[0], k = p.a.shape[1], n = p.b.shape[1];
  if (m == 0 || n == 0) return "the result is empty";
  if (k == 0) return "the sums are empty";
  if ((n > 1 && d.strides[1] != 1) || (m > 1 && d.strides[0] < n)) return "the rows of the result are not dense";
  out = GemmLayout{};
  out.m = m;
  out.n = n;
  out.k = ceil_div(k, 2);
  out.a = lay_out_rows(p.a, 0, stream, space);
  out.b = lay_out_rows(p.b, 1, stream, space);
  out.c = address(d);
  out.c_ld = m == 1 ? ceil_div(n, 8) * 8 : d.strides[0];
  out.addend = Addend::None;
  out.batch[0] = out.batch[1] = 1;
  out.alpha = 1;
  return nullptr;
}

const char* plan_bytes_hopper(const ByteProduct& p, Plan& plan) {
  const Properties& device = Runtime::gpu(p.d.device()).properties;
  if (device.major != 9) return "for GPUs of compute capability 9.0 (Hopper)";
  if (p.a.dtype != DType::I8 && !p.fast)
    return "sums of float8 products are less exact in its tensor cores: see use_fast_accum";
  if (p.a.dtype == DType::F8E5M2 && p.b.dtype == DType::F8E5M2) return "two factors of float8_e5m2";
  GemmLayout l;
  Workspace space(plan);
  if (const char* reason = lay_out_bytes(p, space, nullptr, l)) return reason;
  const HopperChoice choice = choose_hopper_tiles(l, device.multiprocessors, format_of(p).tiles);
  if (!fits_hopper(l, kHopperTiles[choice.tiles].shape)) return "a size is too large for 32 bits";
  plan.keep(choice);
  plan.variant = kHopperTiles[choice.tiles].name;
  return nullptr;
}

const char* plan_bytes_hopper_ahead(const ByteProduct& p, Plan& plan) {
  if (const char* reason = plan_bytes_hopper(p, plan)) return reason;
  constexpr int64_t kLaunchBoundNs = 12000;  // cuBLASLt takes longer to launch
  const int64_t m = p.a.shape[0], n = p.b.shape[1], k = p.a.shape[1];
  if (plan.get<HopperChoice>().time_ns <= kLaunchBoundNs && (m > 64 || m <= hopper::kFlat.load_m)) return nullptr;
  constexpr double kLarge = 1e12;  // multiplications and additions
  const bool integers = p.a.dtype == DType::I8;
  return integers && 2. * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >= kLarge
           ? nullptr
           : "cuBLASLt is faster for this shape";
}

void run_bytes_hopper(const ByteProduct& p, const Call& call, const Plan& plan) {
  const size_t tiles = plan.get<HopperChoice>().tiles;
  const TensorImpl& d = *p.d;
  const Stream stream = stream_of(d.device);
  Gpu& gpu = stream.gpu();
  gpu.activate();
  GemmLayout l;
  Workspace space(call);
  lay_out_bytes(p, space, &stream, l);
  const bool wide = size_of(d.dtype) == 4;
  const HopperLaunch launch = describe_hopper(gpu, DType::BF16, l, kHopperTiles[tiles].shape, !wide);
  hopper::ByteArgs args{};
  args.gemm = launch.args;
  args.scale_a = address(p.scale_a);
  args.scale_b = address(p.scale_b);
  args.bias = address(p.bias);
  args.by_rows = p.by_rows;
  args.bias_type = tag(p.bias);
  args.d_type = tag(d);
  args.pairs = l.c % 8 == 0 && l.c_ld % 2 == 0;
  stream.launch(kernel_of(format_of(p).format, tiles), {launch.blocks}, {hopper::kThreads}, launch.shared_bytes,
                launch.a, launch.b, launch.d, args);
}

}  // namespace strata::cuda
