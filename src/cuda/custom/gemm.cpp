#include "cuda/custom/gemm.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda/common/tensors.h"
#include "cuda/custom/compile.h"
#include "cuda/custom/gemm_hopper_kernel_params.h"
#include "cuda/custom/gemm_kernel_params.h"
#include "cuda/custom/gemm_source.h"
#include "cuda/custom/operands.h"
#include "cuda/runtime/stream.h"

namespace strata::gemm {

struct Kernel::State {
  Config config;
  std::vector<ExtraUse> extras;
  bool has_own_tile = false;  // the user has chosen the tile, the stages or the warps
  std::mutex mutex;
  std::map<std::string, cuda::KernelHandle> kernels;  // by device, layout and dtypes
};

namespace {

constexpr int64_t kMostBatches = 65535;
constexpr int kSharedGoal = 96 << 10;  // bytes for the stages, so that two blocks fit a multiprocessor

bool is_small(const Config& c) { return size_of(c.dtype) == 2; }

int stage_bytes(const Config& c) {
  const auto [m, n, k] = c.tile;
  return is_small(c) ? (m + n) * k * 2 : (m + n + 8) * k * static_cast<int>(size_of(c.dtype));
}

void fill_in_and_check_tile(Config& c) {
  const std::array<int, 3> defaults = is_small(c) ? std::array{128, 128, 32} : std::array{64, 64, 16};
  for (size_t i = 0; i < 3; ++i) c.tile[i] = c.tile[i] == 0 ? defaults[i] : c.tile[i];
  const auto [m, n, k] = c.tile;
  for (const int size : c.tile)
    STRATA_CHECK(size >= 16 && size <= 256 && size % 16 == 0, Value,
                 "gemm: the tile is {}x{}x{}; its sizes must be multiples of 16 from 16 to 256", m, n, k);
  if (is_small(c)) return;
  for (const int size : {m, n})
    STRATA_CHECK(size == 16 || size == 32 || size == 64 || size == 128, Value,
                 "gemm: the tile is {}x{}x{}; for {}, m and n must be 16, 32, 64 or 128", m, n, k, name_of(c.dtype));
}

void fill_in_and_check_warps(Config& c) {
  const auto [m, n, k] = c.tile;
  if (!is_small(c)) {
    STRATA_CHECK(c.warps[0] == 0 && c.warps[1] == 0, Value, "gemm: warps can be set for float16 and bfloat16 only");
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
  const int results = is_small(c) && size_of(*c.out_dtype) == 2 ? c.tile[0] * (c.tile[1] + 8) * 2 : 0;
  return static_cast<uint32_t>(std::max(stages, results));
}

void fill_in_and_check_stages(Config& c) {
  if (c.stages == 0)
    for (c.stages = 4; c.stages > 2 && c.stages * stage_bytes(c) > kSharedGoal;) --c.stages;
  STRATA_CHECK(c.stages >= 2 && c.stages <= 8, Value, "gemm: {} stages; expected 2 to 8", c.stages);
}

void check_name(const std::string& name) {
  const auto is_part = [](char x) { return std::isalnum(static_cast<unsigned char>(x)) || x == '_'; };
  STRATA_CHECK(!name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
                 std::ranges::all_of(name, is_part) && !name.starts_with("strata"),
               Value, "gemm: '{}' is not a name for a kernel", name);
}

// --- one call --------------------------------------------------------------------------------------------------------

// The strides of t in the dimensions of the batch, which has those of a result before its last two.
void batch_strides(const TensorImpl& t, int own_dims, const TensorImpl& out, int64_t (&to)[Product::kMaxBatch]) {
  const int batch = out.ndim - 2, leading = t.ndim - own_dims;
  for (int d = 0; d < batch; ++d) {
    const int from = d - (batch - leading);
    to[d] = from < 0 || t.shape[from] == 1 ? 0 : t.strides[from];
  }
}

struct Call {
  const Config& c;
  const std::vector<ExtraUse>& uses;
  const TensorImpl &a, &b;
  Tensor out;
  KernelParams p{};
  Variant variant;
  std::vector<const TensorImpl*> by_element, others;  // tensors of the epilogue; by_element: [m, n] is read for [m, n]

  Call(const Config& config, const std::vector<ExtraUse>& extras, const Tensor& left, const Tensor& right,
       std::span<const Named> named, Tensor given)
      : c(config), uses(extras), a(left.checked()), b(right.checked()), out(std::move(given)) {
    check_factors();
    set_shape();
    for (const ExtraUse& use : uses) add_extra(use, named);
    for (const Named& x : named)
      STRATA_CHECK(std::ranges::find(uses, x.name, &ExtraUse::name) != uses.end(), Type,
                   "{}: the epilogue \"{}\" has no '{}'", c.name, c.epilogue, x.name);
    set_params();
  }

  void check_device(const TensorImpl& t, const char* what) const {
    STRATA_CHECK(
      t.device.type == DeviceType::Cuda || t.device.type == DeviceType::Vgpu || t.device.type == DeviceType::Meta,
      Runtime,
      "{}: {} is on {}, but the kernel needs tensors on a cuda or vgpu device; move it with .to(), or compute with "
      "ops, "
      "as in relu(a @ b + bias)",
      c.name, what, to_string(t.device));
    STRATA_CHECK(t.device == a.device, Runtime, "{}: {} is on {} and the first factor on {}", c.name, what,
                 to_string(t.device), to_string(a.device));
  }

  void check_factors() const {
    for (const TensorImpl* t : {&a, &b}) {
      check_device(*t, t == &a ? "the first factor" : "the second factor");
      STRATA_CHECK(t->dtype == c.dtype, Type, "{}: expected factors of {}, got {}; convert with .to()", c.name,
                   name_of(c.dtype), name_of(t->dtype));
      STRATA_CHECK(t->ndim >= 2, Runtime, "{}: factors need two dimensions or more, got shape {}", c.name,
                   to_string(t->sizes()));
      STRATA_CHECK(t->ndim - 2 <= Product::kMaxBatch, Runtime, "{}: at most {} batch dimensions are possible, got {}",
                   c.name, Product::kMaxBatch, t->ndim - 2);
      for (int d = 0; d < t->ndim; ++d)
        STRATA_CHECK(t->shape[d] <= INT32_MAX / 2, Runtime, "{}: a size of {} is too large", c.name,
                     to_string(t->sizes()));
    }
    STRATA_CHECK(a.shape[a.ndim - 1] == b.shape[b.ndim - 2], Runtime,
                 "{}: shapes {} and {} cannot be multiplied: the inner sizes {} and {} must be equal", c.name,
                 to_string(a.sizes()), to_string(b.sizes()), a.shape[a.ndim - 1], b.shape[b.ndim - 2]);
  }

  void set_shape() {
    const int batch = std::max(a.ndim, b.ndim) - 2;
    std::vector<int64_t> shape;
    for (int d = 0; d < batch; ++d) {
      const int x = d - (batch - (a.ndim - 2)), y = d - (batch - (b.ndim - 2));
      const int64_t left = x < 0 ? 1 : a.shape[x], right = y < 0 ? 1 : b.shape[y];
      STRATA_CHECK(left == right || left == 1 || right == 1, Runtime,
                   "{}: the batch sizes {} and {} at dimension {} do not broadcast (shapes {} and {})", c.name, left,
                   right, d, to_string(a.sizes()), to_string(b.sizes()));
      shape.push_back(left == 1 ? right : left);
    }
    shape.push_back(a.shape[a.ndim - 2]);
    shape.push_back(b.shape[b.ndim - 1]);
    const Shape sizes(shape.data(), shape.size());
    if (!out) {
      out = make_tensor(sizes, *c.out_dtype, a.device);
      return;
    }
    check_device(*out, "the output");
    STRATA_CHECK(out.dtype() == *c.out_dtype, Type, "{}: the output is {}, but the result is {}", c.name,
                 name_of(out.dtype()), name_of(*c.out_dtype));
    STRATA_CHECK(std::ranges::equal(out->sizes(), sizes), Runtime, "{}: the output has shape {}, but the result has {}",
                 c.name, to_string(out->sizes()), to_string(sizes));
  }

  void add_extra(const ExtraUse& use, std::span<const Named> named) {
    STRATA_CHECK(std::ranges::count(named, use.name, &Named::name) == 1, Type,
                 "{}: the epilogue \"{}\" needs '{}' once; pass it by name", c.name, c.epilogue, use.name);
    const Value& v = std::ranges::find(named, use.name, &Named::name)->value.value;
    Extra& x = p.extras[variant.extras.size()];
    const bool is_tensor = v.tag == Tag::Tensor;
    if (use.kind == ExtraUse::Kind::Number) {
      const bool is_on_host = is_tensor && v.tensor->device.type == DeviceType::Cpu && v.tensor->numel == 1;
      if (!is_tensor || is_on_host) {
        x.value = is_on_host ? Tensor(Ref<TensorImpl>::share(v.tensor)).item().to_double() : v.number();
        variant.extras.push_back(DType::F64);
        variant.numbers.push_back(true);
        return;
      }
    }
    STRATA_CHECK(is_tensor, Type, "{}: '{}' has indices in the epilogue, so it must be a tensor, got a number", c.name,
                 use.name);
    add_tensor(use, *v.tensor, x);
    variant.extras.push_back(v.tensor->dtype);
    variant.numbers.push_back(false);
    const bool is_by_element = use.kind == ExtraUse::Kind::Matrix && use.by_row;
    (is_by_element ? by_element : others).push_back(v.tensor);
  }

  void add_tensor(const ExtraUse& use, const TensorImpl& t, Extra& x) const {
    check_device(t, fmt::format("'{}'", use.name).c_str());
    const int own = static_cast<int>(use.kind);  // dimensions that are indexed
    const int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
    STRATA_CHECK(t.ndim >= own, Runtime, "{}: '{}' has {} indices in the epilogue, but shape {}", c.name, use.name, own,
                 to_string(t.sizes()));
    const auto set_axis = [&](int i, int64_t want, const char* index) {
      const int d = t.ndim - own + i;
      STRATA_CHECK(want < 0 || t.shape[d] == want || t.shape[d] == 1, Runtime,
                   "{}: '{}' has shape {}, but index {} of the epilogue goes to {}", c.name, use.name,
                   to_string(t.sizes()), index, want);
      x.size[i] = t.shape[d];
      x.stride[i] = want >= 0 && t.shape[d] == 1 ? 0 : t.strides[d];
    };
    if (own == 1) set_axis(0, use.by_row ? n : use.by_column ? m : -1, use.by_row ? "n" : "m");
    if (own == 2) {
      set_axis(0, use.by_row ? m : -1, "m");
      set_axis(1, use.by_row ? n : -1, "n");
    }
    x.data = cuda::address(t);
    if (own == 0 && t.numel == 1) return;  // of any number of dimensions, for the whole batch
    const int leading = t.ndim - own, batch = out->ndim - 2;
    bool fits = leading <= batch;
    for (int d = 0; fits && d < leading; ++d) fits = t.shape[d] == 1 || t.shape[d] == out->shape[batch - leading + d];
    STRATA_CHECK(fits, Runtime, "{}: the batch of '{}', of shape {}, does not broadcast to that of the result, {}",
                 c.name, use.name, to_string(t.sizes()), to_string(out->sizes()));
    batch_strides(t, own, *out, x.batch);
  }

  // Bytes of the widest copies with which a factor can be read; 0 if it must be read element by element.
  int vector_of(const TensorImpl& t, int64_t dense_stride, int64_t ld, int64_t rows, const int64_t* batch) const {
    if (!is_small(c)) return 0;
    if (dense_stride != 1) return 0;
    uint64_t all = cuda::address(t) | (rows > 1 ? static_cast<uint64_t>(ld) * 2 : 0);
    for (int d = 0; d < p.batch_dims; ++d) all |= static_cast<uint64_t>(batch[d]) * 2;
    return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 0;
  }

  void set_params() {
    const TensorImpl& o = *out;
    p.m = o.shape[o.ndim - 2];
    p.n = o.shape[o.ndim - 1];
    p.k = a.shape[a.ndim - 1];
    p.batch_dims = o.ndim - 2;
    p.batches = 1;
    for (int d = 0; d < p.batch_dims; ++d) {
      p.batch[d] = o.shape[d];
      p.batches *= o.shape[d];
    }
    // The stride of a dimension of size 1 is arbitrary: one that counts as dense.
    const auto stride = [](const TensorImpl& t, int from_end) {
      const int d = t.ndim - from_end;
      return t.shape[d] == 1 ? 1 : t.strides[d];
    };
    p.a_m = stride(a, 2);
    p.a_k = stride(a, 1);
    p.b_k = stride(b, 2);
    p.b_n = stride(b, 1);
    p.c_m = o.strides[o.ndim - 2];
    p.c_n = stride(o, 1);
    batch_strides(a, 2, o, p.a_b);
    batch_strides(b, 2, o, p.b_b);
    batch_strides(o, 2, o, p.c_b);
    p.a = cuda::address(a);
    p.b = cuda::address(b);
    p.c = cuda::address(o);
    variant.a_along_k = p.a_k == 1 && (p.a_m != 1 || p.m == 1);
    variant.b_along_k = p.b_k == 1 && (p.b_n != 1 || p.n == 1);
    variant.a_vector =
      variant.a_along_k ? vector_of(a, p.a_k, p.a_m, p.m, p.a_b) : vector_of(a, p.a_m, p.a_k, p.k, p.a_b);
    variant.b_vector =
      variant.b_along_k ? vector_of(b, p.b_k, p.b_n, p.n, p.b_b) : vector_of(b, p.b_n, p.b_k, p.k, p.b_b);
    uint64_t all = p.c | (p.m > 1 ? static_cast<uint64_t>(p.c_m) * 2 : 0);
    for (int d = 0; d < p.batch_dims; ++d) all |= static_cast<uint64_t>(p.c_b[d]) * 2;
    p.wide_stores = size_of(o.dtype) == 2 && p.c_n == 1 && all % 16 == 0;
  }

  // Describes the product for the kernel for Hopper and chooses its tiles. False if that kernel cannot compute it.
  bool lay_out_for_hopper(const cuda::Gpu& gpu, cuda::GemmLayout& l) {
    const bool has_std =
      std::ranges::any_of(c.options, [](const std::string& o) { return o.find("-std") == 0 || o.find("--std") == 0; });
    if (gpu.properties.major != 9 || !is_small(c) || has_std) return false;
    // Four warps per scheduler cannot hide the loads of an epilogue that reads tensors: gemm_template.cuh takes a sixth of
    // the time there.
    if (!uses.empty()) return false;
    if (variant.a_vector != 16 || variant.b_vector != 16 || p.k == 0 || p.batch_dims > cuda::GemmLayout::kBatchDims)
      return false;
    // A single row has any stride; one that TMA accepts.
    const auto ld = [](int64_t stride, int64_t rows, int64_t columns) {
      return rows > 1 ? stride : cuda::ceil_div(columns, 8) * 8;
    };
    l = {};
    l.m = p.m;
    l.n = p.n;
    l.k = p.k;
    l.a = {variant.a_along_k, variant.a_along_k ? ld(p.a_m, p.m, p.k) : ld(p.a_k, p.k, p.m), p.a};
    l.b = {variant.b_along_k, variant.b_along_k ? ld(p.b_n, p.n, p.k) : ld(p.b_k, p.k, p.n), p.b};
    if (l.a.ld < (l.a.along_k ? p.k : p.m) || l.b.ld < (l.b.along_k ? p.k : p.n)) return false;  // expanded rows
    l.c = p.c;
    l.c_ld = ld(p.c_m, p.m, p.n);
    l.addend = cuda::Addend::None;
    l.alpha = 1;
    for (int d = 0; d < cuda::GemmLayout::kBatchDims; ++d) {
      const int from = d - (cuda::GemmLayout::kBatchDims - p.batch_dims);
      l.batch[d] = from < 0 ? 1 : p.batch[from];
      l.a_b[d] = from < 0 ? 0 : p.a_b[from];
      l.b_b[d] = from < 0 ? 0 : p.b_b[from];
      l.c_b[d] = from < 0 ? 0 : p.c_b[from];
    }
    const cuda::HopperChoice choice = cuda::choose_hopper_tiles(l, gpu.properties.multiprocessors);
    variant.hopper = &cuda::kHopperTiles[choice.tiles];
    return cuda::fits_hopper(l, variant.hopper->shape);
  }

  std::string key() const {
    std::string text = fmt::format("{} {} {} {} {} {}", to_string(a.device), variant.a_along_k, variant.b_along_k,
                                   variant.a_vector, variant.b_vector, variant.hopper ? variant.hopper->name : "");
    for (size_t i = 0; i < uses.size(); ++i)
      text += variant.numbers[i] ? " number" : fmt::format(" {}", name_of(variant.extras[i]));
    return text;
  }
};

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
  const auto threads = static_cast<uint32_t>(is_small(c) ? 32 * c.warps[0] * c.warps[1] : 256);
  const cuda::LaunchConfig launch{
    {static_cast<uint32_t>(tiles), static_cast<uint32_t>(std::min(p.batches, kMostBatches))},
    {threads},
    shared_bytes_of(c)};
  kernel.launch(launch, std::array{cuda::Argument(cuda::Argument::Kind::Bytes, &p, sizeof p)});
}

void launch_on_hopper(const cuda::KernelHandle& kernel, cuda::Gpu& gpu, const Config& c, const Variant& v,
                      const cuda::GemmLayout& l, const KernelParams& p) {
  gpu.activate();
  const cuda::HopperLaunch made = cuda::describe_hopper(gpu, c.dtype, l, v.hopper->shape, p.wide_stores);
  HopperParams all{};
  static_assert(sizeof all.a == sizeof made.a);
  std::memcpy(&all.a, &made.a, sizeof all.a);
  std::memcpy(&all.b, &made.b, sizeof all.b);
  std::memcpy(&all.d, &made.d, sizeof all.d);
  all.gemm = made.args;
  all.user = p;
  kernel.launch({{made.blocks}, {cuda::hopper::kThreads}, made.shared_bytes},
                std::array{cuda::Argument(cuda::Argument::Kind::Bytes, &all, sizeof all)});
}
}  // namespace

Kernel compile(const Config& config) {
  auto state = std::make_shared<Kernel::State>();
  Config& c = state->config;
  c = config;
  STRATA_CHECK(c.dtype == DType::F16 || c.dtype == DType::BF16 || c.dtype == DType::F32 || c.dtype == DType::F64, Type,
               "gemm: dtype must be float16, bfloat16, float32 or float64, got {}", name_of(c.dtype));
  if (!c.out_dtype) c.out_dtype = c.dtype;
  const DType made = *c.out_dtype;
  STRATA_CHECK(made == DType::F16 || made == DType::BF16 || made == DType::F32 || made == DType::F64, Type,
               "gemm: out_dtype must be float16, bfloat16, float32 or float64, got {}", name_of(made));
  check_name(c.name);
  state->has_own_tile = c.tile != std::array{0, 0, 0} || c.warps != std::array{0, 0} || c.stages != 0;
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

Tensor Kernel::operator()(const Tensor& a, const Tensor& b, std::span<const Named> extras, Tensor out) const {
  State& s = *state_;
  const Config& c = s.config;
  const bool is_given = static_cast<bool>(out);
  Call call(c, s.extras, a, b, extras, std::move(out));
  if (call.a.device.type == DeviceType::Meta) return call.out;
  if (is_given) {
    call.others.insert(call.others.end(), {&call.a, &call.b});
    cuda::check_output_memory(c.name, "out", *call.out, call.by_element);
    cuda::check_output_memory(c.name, "out", *call.out, call.others, false);
  }
  const KernelParams& p = call.p;
  if (p.m == 0 || p.n == 0 || p.batches == 0) return call.out;
  cuda::Gpu& gpu = cuda::Runtime::gpu(call.a.device);
  cuda::GemmLayout layout;
  const bool on_hopper = !s.has_own_tile && call.lay_out_for_hopper(gpu, layout);
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
    const cuda::Module module = cuda::compile(kernel_source(c, s.extras, call.variant), call.a.device, options);
    return s.kernels.emplace(key, module.function(c.name)).first->second;
  }();
  if (on_hopper) launch_on_hopper(kernel, gpu, c, call.variant, layout, p);
  else launch_tiles(kernel, c, p);
  if (is_given && call.out->storage) call.out->count_write();
  return call.out;
}

}  // namespace strata::gemm
