#include "cuda/custom/gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/compile.h"
#include "cuda/custom/gemm_call.h"
#include "cuda/custom/gemm_hopper_kernel_params.h"
#include "cuda/pointwise/pointwise.h"

namespace strata::gemm {

struct Kernel::State {
  Config config;
  std::vector<ExtraUse> extras;
  bool has_own_tile = false;         // the user has chosen the tile, the stages or the warps
  std::shared_ptr<State> as_halves;  // of float8: the product of factors that were converted to float16
  std::mutex mutex;
  std::map<std::string, cuda::KernelHandle> kernels;  // by device, layout and dtypes
};

namespace {

constexpr int64_t kMostBatches = 65535;
constexpr int kSharedGoal = 96 << 10;  // bytes for the stages, so that two blocks fit a multiprocessor

bool is_float8(const Config& c) { return c.dtype == DType::F8E4M3 || c.dtype == DType::F8E5M2; }

int stage_bytes(const Config& c) {
  const auto [m, n, k] = c.tile;
  const int size = static_cast<int>(size_of(c.dtype));
  return is_on_tensor_cores(c) ? (m + n) * k * size : (m + n + 8) * k * size;
}

void fill_in_and_check_tile(Config& c) {
  const bool tensor_cores = is_on_tensor_cores(c);
  const std::array<int, 3> defaults =
    tensor_cores ? std::array{128, 128, 64 / static_cast<int>(size_of(c.dtype))} : std::array{64, 64, 16};
  for (size_t i = 0; i < 3; ++i) c.tile[i] = c.tile[i] == 0 ? defaults[i] : c.tile[i];
  const auto [m, n, k] = c.tile;
  for (const int size : c.tile)
    STRATA_CHECK(size >= 16 && size <= 256 && size % 16 == 0, Value,
                 "gemm: the tile is {}x{}x{}; its sizes must be multiples of 16 from 16 to 256", m, n, k);
  STRATA_CHECK(size_of(c.dtype) > 1 || k % 32 == 0, Value,
               "gemm: the tile is {}x{}x{}; for {}, k must be a multiple of 32", m, n, k, name_of(c.dtype));
  if (tensor_cores) return;
  for (const int size : {m, n})
    STRATA_CHECK(size == 16 || size == 32 || size == 64 || size == 128, Value,
                 "gemm: the tile is {}x{}x{}; for {}, m and n must be 16, 32, 64 or 128", m, n, k, name_of(c.dtype));
}

void fill_in_and_check_warps(Config& c) {
  const auto [m, n, k] = c.tile;
  if (!is_on_tensor_cores(c)) {
    STRATA_CHECK(c.warps[0] == 0 && c.warps[1] == 0, Value,
                 "gemm: warps can be set for products on tensor cores only, not for {}", name_of(c.dtype));
    return;
  }
  const auto fewest = [](int size, int most) {  // parts of a size, multiples of 16 and at most `most` long
    for (int parts = 1;; ++parts)
      if (size % (16 * parts) == 0 && size / parts <= most) return parts;
  };
  if (c.warps[0] == 0) c.warps[0] = m >= 64 && m % 32 == 0 ? std::max(2, fewest(m, 64)) : fewest(m, 64);
  if (c.warps[1] == 0) c.warps[1] = fewest(n, 32);
  STRATA_CHECK(c.warps[0] > 0 && c.warps[1] > 0 && m % (16 * c.warps[0]) == 0 && n % (16 * c.warps[1]) == 0, Value,
               "gemm: {}x{} warps cannot divide a tile of {}x{}; each needs a multiple of 16 rows and columns",
               c.warps[0], c.warps[1], m, n);
  STRATA_CHECK(c.warps[0] * c.warps[1] <= 32, Value, "gemm: {}x{} warps are {} threads; a block has at most 1024",
               c.warps[0], c.warps[1], 32 * c.warps[0] * c.warps[1]);
  // 65536 registers of a multiprocessor hold the sums and about 64 other values of each thread.
  const int sums = m * n / (32 * c.warps[0] * c.warps[1]), most = std::min(255, 65536 / (32 * c.warps[0] * c.warps[1]));
  STRATA_CHECK(sums + 48 <= most, Value,
               "gemm: a tile of {}x{} with {}x{} warps has {} sums per thread, which do not fit its registers; use "
               "more warps or a smaller tile",
               m, n, c.warps[0], c.warps[1], sums);
}

uint32_t shared_bytes_of(const Config& c) {
  const int stages = c.stages * stage_bytes(c);
  const bool halves = size_of(*c.out_dtype) == 2 || (!c.second.empty() && size_of(*c.second_dtype) == 2);
  const int results = is_on_tensor_cores(c) && halves ? c.tile[0] * (c.tile[1] + 8) * 2 : 0;
  return static_cast<uint32_t>(std::max(stages, results));
}

void fill_in_and_check_stages(Config& c) {
  if (c.stages == 0)
    for (c.stages = 4; c.stages > 2 && c.stages * stage_bytes(c) > kSharedGoal;) --c.stages;
  STRATA_CHECK(c.stages >= 2 && c.stages <= 8, Value, "gemm: {} stages; expected 2 to 8", c.stages);
}

// The dtypes of factors and results, and what they allow.
void fill_in_and_check_dtypes(Config& c) {
  const DType t = c.dtype;
  STRATA_CHECK(
    t == DType::F16 || t == DType::BF16 || t == DType::F32 || t == DType::F64 || t == DType::I8 || is_float8(c), Type,
    "gemm: dtype must be float16, bfloat16, float32, float64, int8, float8_e4m3fn or float8_e5m2, got {}", name_of(t));
  STRATA_CHECK(!c.tf32 || t == DType::F32, Type, "gemm: tf32 is for float32, got {}", name_of(t));
  if (!c.out_dtype) c.out_dtype = t == DType::I8 ? DType::I32 : is_float8(c) ? DType::BF16 : t;
  if (!c.second_dtype) c.second_dtype = c.out_dtype;
  for (const DType made : {*c.out_dtype, *c.second_dtype}) {
    const bool is_integer = made == DType::I32 || made == DType::I8;
    const bool is_float = made == DType::F16 || made == DType::BF16 || made == DType::F32 || made == DType::F64;
    const bool is_small_float = made == DType::F8E4M3 || made == DType::F8E5M2;
    STRATA_CHECK(is_float || is_small_float || (is_integer && t == DType::I8), Type,
                 "gemm: out_dtype must be float16, bfloat16, float32, float64, float8_e4m3fn or float8_e5m2, or for "
                 "factors of int8 also int8 or int32, got {}",
                 name_of(made));
  }
}

void check_name(const std::string& name) {
  const auto is_part = [](char x) { return std::isalnum(static_cast<unsigned char>(x)) || x == '_'; };
  STRATA_CHECK(!name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
                 std::ranges::all_of(name, is_part) && !name.starts_with("strata"),
               Value, "gemm: '{}' is not a name for a kernel", name);
}

void check_fits(const Config& c, const cuda::Gpu& gpu) {
  const cuda::Properties& device = gpu.properties;
  STRATA_CHECK(device.major >= 8, NotImplemented,
               "{}: the kernel needs a GPU of compute capability 8.0 or newer; {} has {}.{}", c.name,
               to_string(gpu.device()), device.major, device.minor);
  const auto most = static_cast<uint32_t>(device.shared_per_block_optin);
  STRATA_CHECK(shared_bytes_of(c) <= most, Value,
               "{}: a tile of {}x{}x{} with {} stages needs {} bytes of shared memory, but {} allows {}; use fewer "
               "stages or a smaller tile",
               c.name, c.tile[0], c.tile[1], c.tile[2], c.stages, shared_bytes_of(c), to_string(gpu.device()), most);
}

void launch_tiles(const cuda::KernelHandle& kernel, const Config& c, const KernelParams& p) {
  const int64_t tiles = cuda::ceil_div(p.m, c.tile[0]) * cuda::ceil_div(p.n, c.tile[1]);
  STRATA_CHECK(tiles <= INT32_MAX, Runtime, "{}: the result of {}x{} has too many tiles", c.name, p.m, p.n);
  const auto threads = static_cast<uint32_t>(is_on_tensor_cores(c) ? 32 * c.warps[0] * c.warps[1] : 256);
  const cuda::LaunchConfig launch{
    {static_cast<uint32_t>(tiles), static_cast<uint32_t>(std::min(p.batches, kMostBatches))},
    {threads},
    shared_bytes_of(c)};
  kernel.launch(launch, std::array{cuda::Argument(cuda::Argument::Kind::Bytes, &p, sizeof p)});
}

void launch_on_hopper(const cuda::KernelHandle& kernel, cuda::Gpu& gpu, const Call& call, const cuda::GemmLayout& l) {
  gpu.activate();
  const KernelParams& p = call.p;
  const Config& c = call.c;
  const cuda::hopper::TileShape& shape = call.variant.hopper->shape;
  // TMA only copies, so factors in units of two bytes are 16-bit elements to it.
  const DType factors = is_in_units(c) ? DType::BF16 : c.dtype;
  const bool both = !c.second.empty();
  const bool tma_stores = p.wide_stores && (!both || p.second_wide);
  const cuda::HopperLaunch made = cuda::describe_hopper(gpu, factors, l, shape, tma_stores);
  HopperParams all{};
  static_assert(sizeof all.a == sizeof made.a);
  std::memcpy(&all.a, &made.a, sizeof all.a);
  std::memcpy(&all.b, &made.b, sizeof all.b);
  std::memcpy(&all.d, &made.d, sizeof all.d);
  if (both && tma_stores) {
    cuda::GemmLayout second = l;
    second.c = p.second.data;
    second.c_ld = p.m > 1 ? p.second.m : l.c_ld;
    for (int d = 0; d < cuda::GemmLayout::kBatchDims; ++d) {
      const int from = d - (cuda::GemmLayout::kBatchDims - p.batch_dims);
      second.c_b[d] = from < 0 ? 0 : p.second_b[from];
    }
    const cuda::HopperLaunch other = cuda::describe_hopper(gpu, factors, second, shape, true);
    std::memcpy(&all.second, &other.d, sizeof all.second);
  }
  all.gemm = made.args;
  all.user = p;
  kernel.launch({{made.blocks}, {cuda::hopper::kThreads}, made.shared_bytes},
                std::array{cuda::Argument(cuda::Argument::Kind::Bytes, &all, sizeof all)});
}

// The same kernel for factors of float16, to which float8 converts exactly.
Config of_halves(const Config& config) {
  Config c = config;
  c.dtype = DType::F16;
  return c;
}
}  // namespace

Kernel compile(const Config& config) {
  auto state = std::make_shared<Kernel::State>();
  Config& c = state->config;
  c = config;
  fill_in_and_check_dtypes(c);
  check_name(c.name);
  state->has_own_tile = c.tile != std::array{0, 0, 0} || c.warps != std::array{0, 0} || c.stages != 0;
  if (is_float8(c)) state->as_halves = compile(of_halves(c)).state_;
  fill_in_and_check_tile(c);
  fill_in_and_check_warps(c);
  fill_in_and_check_stages(c);
  state->extras = read_epilogue(c);
  STRATA_CHECK(state->extras.size() <= kMaxExtras, Value,
               "gemm: the epilogue \"{}\" uses {} tensors and numbers; at most {} are possible", c.epilogue,
               state->extras.size(), kMaxExtras);
  return Kernel(std::move(state));
}

const Config& Kernel::config() const { return state_->config; }
const std::vector<ExtraUse>& Kernel::extras() const { return state_->extras; }
uint32_t Kernel::shared_bytes() const { return shared_bytes_of(state_->config); }

std::vector<Tensor> Kernel::all(const Tensor& a, const Tensor& b, std::span<const Named> extras,
                                std::span<const Tensor> outs) const {
  State& s = *state_;
  const Config& c = s.config;
  Call call(c, s.extras, a, b, extras, outs);
  if (call.is_meta()) return call.outs;
  if (!outs.empty()) call.check_outputs(a, b);
  cuda::Gpu& gpu = cuda::Runtime::gpu(a.device());
  // Only Hopper's instructions multiply float8, and only with tiles of ours.
  const auto halves = [&] {
    const auto converted = [](const Tensor& t) {
      const Tensor out = make_tensor(t.shape(), DType::F16, t.device());
      if (t.numel()) cuda::copy(*out, *t);
      return out;
    };
    return Kernel(s.as_halves).all(converted(a), converted(b), extras, call.outs_without_amax());
  };
  if (is_float8(c) && (gpu.properties.major != 9 || s.has_own_tile)) return halves();
  call.prepare();
  if (call.is_empty()) return call.outs;
  cuda::GemmLayout layout;
  const bool on_hopper = !s.has_own_tile && call.lay_out_for_hopper(gpu, layout);
  if (!on_hopper && is_float8(c)) return halves();
  if (!on_hopper) {
    call.variant.hopper = nullptr;
    check_fits(c, gpu);
  }
  const auto kernel = [&] {
    const std::string key = call.key();
    const std::lock_guard lock(s.mutex);
    if (const auto found = s.kernels.find(key); found != s.kernels.end()) return found->second;
    cuda::CompileOptions options{.name = c.name, .options = c.options, .instances = {}, .for_this_gpu = on_hopper};
    if (on_hopper)
      options.options.insert(
        options.options.end(),
        {"--std=c++20", "--device-as-default-execution-space"});  // constexpr functions of the host
    const cuda::Module module = cuda::compile(kernel_source(c, s.extras, call.variant), a.device(), options);
    return s.kernels.emplace(key, module.function(c.name)).first->second;
  }();
  if (on_hopper) launch_on_hopper(kernel, gpu, call, layout);
  else launch_tiles(kernel, c, call.p);
  for (const Tensor& out : outs)
    if (out->storage) out->count_write();
  return call.outs;
}

Tensor Kernel::operator()(const Tensor& a, const Tensor& b, std::span<const Named> extras, Tensor out) const {
  if (!out) return all(a, b, extras)[0];
  STRATA_CHECK(config().second.empty(), Type, "{}: there are two results, but one output; use all()", config().name);
  return all(a, b, extras, std::array{std::move(out)})[0];
}

}  // namespace strata::gemm
