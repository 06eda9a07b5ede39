// Convolutions of 16-bit floats with sums in float on tensor cores, as implicit matrix products: tiles are gathered by
// asynchronous copies of 16 bytes, which are eight channels of one position; positions in the padding become zeros.
//   gather  to[(n, q), channel]  = sum over (tap, channel) of from * weight: a convolution, or the gradient of its input.
//           With a stride, the latter consists of a phase for each remainder of a position, with its own taps.
//   weight  to[o, (tap, channel)] = sum over (n, q) of small * from, in parts that a second launch sums
// k counts channels in pieces of eight, tap after tap. Bound: the tensor cores.
#pragma once
#include "cuda/common/index.cuh"
#include "cuda/linalg/mma_tile.cuh"
#include "cuda/nn/convolution_mma_params.h"

namespace strata::cuda::mma {

constexpr int kPieces = kMmaDepth / 8;  // of k in a tile

__device__ __forceinline__ int pieces_of(int channels) { return (channels + 7) / 8; }
// Bytes of the eight channels from `first` on that exist.
__device__ __forceinline__ int bytes_of(int channels, int first) { return min(max(channels - first, 0), 8) * 2; }

// The dimensions of one phase.
struct ConvDims {
  const ConvMmaDim *d0, *d1, *d2;
  __device__ __forceinline__ ConvDims(const ConvMmaParams& p, int phase)
      : d0(&p.dims[0][phase / (p.phases[2] * p.phases[1])]),
        d1(&p.dims[1][phase / p.phases[2] % p.phases[1]]),
        d2(&p.dims[2][phase % p.phases[2]]) {}
  __device__ __forceinline__ int rows(int images) const { return images * d0->count * d1->count * d2->count; }
  __device__ __forceinline__ int taps() const { return d0->taps * d1->taps * d2->taps; }
};

// An image and a number along each dimension.
struct ConvRow {
  int image, q0, q1, q2;
  __device__ __forceinline__ ConvRow(const ConvDims& d, int row) {
    uint32_t rest = uint32_t(row);
    q2 = int(split_off(rest, d.d2->divisor));
    q1 = int(split_off(rest, d.d1->divisor));
    q0 = int(split_off(rest, d.d0->divisor));
    image = int(rest);
  }
};

// Where the windows of one result begin, in `from`.
struct Corner {
  int image, x0, x1, x2;
  __device__ __forceinline__ Corner(const ConvMmaParams& p, const ConvDims& d, int row) {
    const ConvRow r(d, row);
    image = r.image;
    x0 = r.q0 * p.stride[0] + d.d0->shift_first;
    x1 = r.q1 * p.stride[1] + d.d1->shift_first;
    x2 = r.q2 * p.stride[2] + d.d2->shift_first;
  }
  // The first channel of the position at this distance; null if it is outside.
  __device__ __forceinline__ const uint16_t* at(const ConvMmaParams& p, int by0, int by1, int by2) const {
    const int y0 = x0 + by0, y1 = x1 + by1, y2 = x2 + by2;
    if (unsigned(y0) >= unsigned(p.from_size[0]) || unsigned(y1) >= unsigned(p.from_size[1]) ||
        unsigned(y2) >= unsigned(p.from_size[2]))
      return nullptr;
    const int position = ((image * p.from_size[0] + y0) * p.from_size[1] + y1) * p.from_size[2] + y2;
    return reinterpret_cast<const uint16_t*>(p.from) + int64_t(position) * p.from_pitch;
  }
};

// A piece of k: a tap and eight channels.
struct TapWalk {
  int piece, t0, t1, t2;
  __device__ __forceinline__ TapWalk() : piece(0), t0(0), t1(0), t2(0) {}
  // Goes on by some pieces. Whether this led to another tap.
  __device__ __forceinline__ bool advance(const ConvDims& d, int pieces_per_tap, int by) {
    piece += by;
    if (piece < pieces_per_tap) return false;
    do {
      piece -= pieces_per_tap;
      if (++t2 < d.d2->taps) continue;
      t2 = 0;
      if (++t1 < d.d1->taps) continue;
      t1 = 0;
      ++t0;
    } while (piece >= pieces_per_tap);
    return true;
  }
  __device__ __forceinline__ bool ended(const ConvDims& d) const { return t0 >= d.d0->taps; }
  // Its offset in the weight.
  __device__ __forceinline__ int64_t weight(const ConvMmaParams& p, const ConvDims& d) const {
    const int k0 = d.d0->tap_first + t0 * d.d0->tap_step, k1 = d.d1->tap_first + t1 * d.d1->tap_step,
              k2 = d.d2->tap_first + t2 * d.d2->tap_step;
    return int64_t((k0 * p.kernel[1] + k1) * p.kernel[2] + k2) * p.other_tap;
  }
};

// kForward: channels of `from` are the dense dimension of the weight, otherwise those of `to`.
template <bool kBf16, bool kForward, int kSize> struct ConvGather : TileProduct<kBf16, true, kForward, kSize> {
  using Base = TileProduct<kBf16, true, kForward, kSize>;
  using Base::kPitch;
  using Base::kThreads;
  using Base::thread;
  const ConvMmaParams& p;
  const ConvDims d;

  __device__ __forceinline__ explicit ConvGather(const ConvMmaParams& params) : p(params), d(params, blockIdx.y) {}

  __device__ __forceinline__ void write_out(char* memory, int m0, int n0, int rows_left) {
    auto* rows = reinterpret_cast<uint16_t*>(memory);
    const auto* bias = reinterpret_cast<const uint16_t*>(p.bias);
    const auto added = [&](int n) { return bias && n < p.to_channels ? unpack<kBf16>(bias[n]) : 0.0f; };
    this->each_pair([&](int m, int n, float low, float high) {
      *reinterpret_cast<uint32_t*>(rows + m * kPitch + n) = pack<kBf16>(low + added(n0 + n), high + added(n0 + n + 1));
    });
    __syncthreads();
#pragma unroll 2
    for (int piece = thread; piece < kSize * kSize / 8; piece += kThreads) {
      const int m = piece / (kSize / 8), n = piece % (kSize / 8) * 8;
      if (m >= rows_left) break;
      const ConvRow r(d, m0 + m);
      const int y0 = r.q0 * p.out_step[0] + d.d0->out_first, y1 = r.q1 * p.out_step[1] + d.d1->out_first,
                y2 = r.q2 * p.out_step[2] + d.d2->out_first;
      const int position = ((r.image * p.to_size[0] + y0) * p.to_size[1] + y1) * p.to_size[2] + y2;
      const int64_t at = int64_t(position) * p.to_channels + n0 + n;
      uint16_t* eight = rows + m * kPitch + n;
      if (p.relu) {
        const auto* added = reinterpret_cast<const uint16_t*>(p.added);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          float v = unpack<kBf16>(eight[e]);
          if (added && n0 + n + e < p.to_channels) v += unpack<kBf16>(added[at + e]);
          eight[e] = uint16_t(pack<kBf16>(v < 0 ? 0 : v, 0.f));  // NaN stays NaN
        }
      }
      store_eight(reinterpret_cast<uint16_t*>(p.to) + at, eight, p.aligned, p.to_channels - n0 - n);
    }
  }

  __device__ __forceinline__ void run(char* memory) {
    const int rows = d.rows(p.images), tiles_m = (rows + kSize - 1) / kSize,
              tiles_n = (p.to_channels + kSize - 1) / kSize;
    if (int(blockIdx.x) >= tiles_m * tiles_n) return;  // phases differ in size
    const TilePlace place(blockIdx.x, tiles_m, tiles_n);
    const int m0 = place.row * kSize, n0 = place.column * kSize;
    const int per_tap = pieces_of(p.from_channels), pieces = per_tap * d.taps();
    const auto* weight = reinterpret_cast<const uint16_t*>(p.other);

    // A thread copies the same piece of k of two rows of a.
    const int row = thread / kPieces, column = thread % kPieces;
    constexpr int kRowStep = kThreads / kPieces;
    const Corner corner[2] = {{p, d, min(m0 + row, rows - 1)}, {p, d, min(m0 + row + kRowStep, rows - 1)}};
    const bool real[2] = {m0 + row < rows, m0 + row + kRowStep < rows};
    TapWalk walk;
    walk.advance(d, per_tap, column);
    const uint16_t *source[2], *tap_weight = nullptr;
    const auto enter_tap = [&] {
#pragma unroll
      for (int i = 0; i < 2; ++i)
        source[i] = real[i] && !walk.ended(d) ? corner[i].at(p, walk.t0 * d.d0->shift_step, walk.t1 * d.d1->shift_step,
                                                             walk.t2 * d.d2->shift_step)
                                              : nullptr;
      if constexpr (kForward) tap_weight = walk.ended(d) ? nullptr : weight + walk.weight(p, d);
    };
    enter_tap();
    const auto load_a = [&](uint32_t tile, int) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int bytes = source[i] ? bytes_of(p.from_channels, walk.piece * 8) : 0;
        copy_async(tile + Base::TileA::offset(row + i * kRowStep, column * 8),
                   bytes ? source[i] + walk.piece * 8 : weight, bytes);
      }
      if constexpr (!kForward)
        if (walk.advance(d, per_tap, kPieces)) enter_tap();
    };

    if constexpr (kForward) {
      const auto load_b = [&](uint32_t tile, int) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int o = n0 + row + i * kRowStep;
          const int bytes = tap_weight && o < p.to_channels ? bytes_of(p.from_channels, walk.piece * 8) : 0;
          copy_async(tile + Base::TileB::offset(row + i * kRowStep, column * 8),
                     bytes ? tap_weight + o * p.other_row + walk.piece * 8 : weight, bytes);
        }
        if (walk.advance(d, per_tap, kPieces)) enter_tap();
      };
      this->accumulate(memory, (pieces + kPieces - 1) / kPieces, load_a, load_b);
    } else {
      // A thread copies two rows of k, each within a piece of its own.
      constexpr int kAcross = kSize / 8, kDown = kThreads / kAcross;
      const int k = thread / kAcross, n = thread % kAcross * 8, bytes = bytes_of(p.to_channels, n0 + n);
      TapWalk walks[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) walks[i].advance(d, per_tap, (k + i * kDown) / 8);
      const auto load_b = [&](uint32_t tile, int) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int o = walks[i].piece * 8 + k % 8;
          const bool there = bytes && o < p.from_channels && !walks[i].ended(d);
          copy_async(tile + Base::TileB::offset(n, k + i * kDown),
                     there ? weight + o * p.other_row + walks[i].weight(p, d) + n0 + n : weight, there ? bytes : 0);
          walks[i].advance(d, per_tap, kPieces);
        }
      };
      this->accumulate(memory, (pieces + kPieces - 1) / kPieces, load_a, load_b);
    }
    write_out(memory, m0, n0, rows - m0);
  }
};

template <bool kBf16, int kSize> struct ConvWeight : TileProduct<kBf16, false, false, kSize> {
  using Base = TileProduct<kBf16, false, false, kSize>;
  using Base::kThreads;
  using Base::thread;
  const ConvMmaParams& p;
  const ConvDims d;

  __device__ __forceinline__ explicit ConvWeight(const ConvMmaParams& params) : p(params), d(params, 0) {}

  __device__ __forceinline__ void run(char* memory) {
    const int per_tap = pieces_of(p.from_channels), taps = d.taps(), columns = per_tap * taps * 8;
    const TilePlace place(blockIdx.x, (p.to_channels + kSize - 1) / kSize, (columns + kSize - 1) / kSize);
    const int m0 = place.row * kSize, n0 = place.column * kSize;
    const int begin = blockIdx.y * p.depth, end = min(begin + p.depth, p.positions);

    // A thread copies the same eight channels of two positions, of both factors.
    constexpr int kAcross = kSize / 8, kDown = kThreads / kAcross;
    const int k = thread / kAcross, across = thread % kAcross * 8;
    const int a_bytes = bytes_of(p.to_channels, m0 + across);
    const auto* small = reinterpret_cast<const uint16_t*>(p.other);
    const int piece = (n0 + across) / 8, tap = piece / per_tap, channel = piece % per_tap * 8;
    const int b_bytes = tap < taps ? bytes_of(p.from_channels, channel) : 0;
    const int by2 = tap % d.d2->taps * d.d2->shift_step, by1 = tap / d.d2->taps % d.d1->taps * d.d1->shift_step,
              by0 = tap / d.d2->taps / d.d1->taps * d.d0->shift_step;
    const auto load_a = [&](uint32_t tile, int step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = begin + step * kMmaDepth + k + i * kDown, bytes = at < end ? a_bytes : 0;
        copy_async(tile + Base::TileA::offset(across, k + i * kDown),
                   bytes ? small + at * p.other_row + m0 + across : small, bytes);
      }
    };
    const auto load_b = [&](uint32_t tile, int step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = begin + step * kMmaDepth + k + i * kDown;
        const uint16_t* source = at < end && b_bytes ? Corner(p, d, at).at(p, by0, by1, by2) : nullptr;
        copy_async(tile + Base::TileB::offset(across, k + i * kDown), source ? source + channel : small,
                   source ? b_bytes : 0);
      }
    };
    this->accumulate(memory, (end - begin + kMmaDepth - 1) / kMmaDepth, load_a, load_b);

    float* part = reinterpret_cast<float*>(p.to) + int64_t(blockIdx.y) * p.to_channels * taps * p.from_channels;
    this->each_pair([&](int m, int n, float low, float high) {
      const int at = (n0 + n) / 8, c = at % per_tap * 8 + n % 8, t = at / per_tap;
      if (m0 + m >= p.to_channels || t >= taps || c >= p.from_channels) return;
      float* to = part + (int64_t(m0 + m) * taps + t) * p.from_channels + c;
      to[0] = low;
      if (c + 1 < p.from_channels) to[1] = high;
    });
  }
};

#define STRATA_CONV_MMA(name, size, ...)                                                                             \
  extern "C" __global__ void __launch_bounds__(mma_threads(size), size == kMmaLarge ? 2 : 4) name(ConvMmaParams p) { \
    extern __shared__ __align__(128) char memory[];                                                                  \
    __VA_ARGS__(p).run(memory);                                                                                      \
  }
#define STRATA_CONV_MMAS(bf16)                                                 \
  STRATA_CONV_MMA(forward_large, kMmaLarge, ConvGather<bf16, true, kMmaLarge>) \
  STRATA_CONV_MMA(forward_small, kMmaSmall, ConvGather<bf16, true, kMmaSmall>) \
  STRATA_CONV_MMA(data_large, kMmaLarge, ConvGather<bf16, false, kMmaLarge>)   \
  STRATA_CONV_MMA(data_small, kMmaSmall, ConvGather<bf16, false, kMmaSmall>)   \
  STRATA_CONV_MMA(weight_large, kMmaLarge, ConvWeight<bf16, kMmaLarge>)        \
  STRATA_CONV_MMA(weight_small, kMmaSmall, ConvWeight<bf16, kMmaSmall>)

}  // namespace strata::cuda::mma
