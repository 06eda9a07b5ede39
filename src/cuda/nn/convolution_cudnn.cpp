// cuDNN's backend interface: tensors and a convolution make a graph of one operation. Heuristics list engines for it,
// best first; the first deterministic one of sufficient precision becomes an execution plan, which is cached.
#include "cuda/nn/convolution_cudnn.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/trace.h"
#include "cuda/common/tensors.h"
#include "cuda/libs/cudnn.h"
#include "cuda/libs/prepared.h"
#include "cuda/nn/convolution_order.h"
#include "cuda/nn/convolution_product.h"
#include "cuda/nn/convolution_relu.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/runtime/device_times.h"
#include "cuda/runtime/stream.h"
#include "record/precision.h"

namespace strata::cuda {
namespace {

using namespace cudnn;  // NOLINT: names as in its documentation

constexpr int64_t kMostConfigs = 64;                  // of engines that are tried, per mode of the heuristics
constexpr int64_t kMostWorkspace = int64_t{8} << 30;  // an engine that needs more is passed over
constexpr int64_t kLeastCopied = int64_t{8} << 20;    // bytes for which our copies are faster than cuDNN's
enum TensorId : int64_t { kBigId = 1, kWeightId, kSmallId, kOtherId, kBiasId, kFirstVirtualId };

// The key of the cache. All fields have 8 bytes, so that there is no padding. Convolutions of one dimension have a
// second one of size 1 in front.
struct Geometry {
  int64_t device, dtype, mode, tf32;
  Order order;
  int64_t dims;  // spatial: 2 or 3
  int64_t big[5], weight[5], small[5];
  int64_t stride[3], padding[3], dilation[3];
  int64_t alignment[5];  // of big, weight and small in bytes, at most 16; of `other` and the bias, if they are fused
  int64_t relu, has_other, has_bias;  // fused with the convolution
};

void check(const Functions& f, Status status, const char* what) {
  if (status) fail(ErrorKind::Runtime, fmt::format("cuDNN: {} failed with {}", what, f.status_name(status)));
}

class Descriptor {
 public:
  Descriptor(const Functions& f, DescriptorType type) : f_(&f) {
    check(f, f.descriptor_create(type, &handle_), "making a descriptor");
  }
  Descriptor(Descriptor&& o) noexcept : f_(o.f_), handle_(std::exchange(o.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(f_, o.f_);
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_) f_->descriptor_destroy(handle_);
  }
  BackendDescriptor handle() const { return handle_; }

  void set(int attribute, AttributeType type, const void* values, int64_t count = 1) {
    check(*f_, f_->descriptor_set(handle_, attribute, type, count, values), "describing a convolution");
  }
  void set(int attribute, const Descriptor& other) { set(attribute, kTypeDescriptor, &other.handle_); }
  void set(int attribute, int64_t value) { set(attribute, kTypeInt64, &value); }
  // The number of values read; -1 if cuDNN refuses.
  int64_t get(int attribute, AttributeType type, void* values, int64_t room) const {
    int64_t count = 0;
    return f_->descriptor_get(handle_, attribute, type, room, &count, values) ? -1 : count;
  }
  // Not success if cuDNN does not support what is described.
  [[nodiscard]] Status finish() { return f_->descriptor_finalize(handle_); }

 private:
  const Functions* f_;
  BackendDescriptor handle_ = nullptr;
};

DataType data_type(DType t) { return t == DType::F16 ? kHalf : t == DType::BF16 ? kBfloat16 : kFloat; }

// A tensor in memory, or a virtual one between two operations, in float.
Descriptor tensor(const Functions& f, const Geometry& g, const int64_t (&shape)[5], int64_t id) {
  Descriptor t(f, kDescTensor);
  const auto ndim = static_cast<int>(g.dims) + 2;
  const bool is_virtual = id >= kFirstVirtualId;
  int64_t strides[5];
  set_dense_strides(g.order, ndim, shape, strides);
  const DataType type = is_virtual ? kFloat : data_type(static_cast<DType>(g.dtype));
  t.set(kTensorDataType, kTypeDataType, &type);
  t.set(kTensorDimensions, kTypeInt64, shape, ndim);
  t.set(kTensorStrides, kTypeInt64, strides, ndim);
  t.set(kTensorId, id);
  t.set(kTensorAlignment, is_virtual ? int64_t{16} : g.alignment[id - kBigId]);
  if (is_virtual) t.set(kTensorIsVirtual, kTypeBoolean, &is_virtual);
  check(f, t.finish(), "describing a tensor");
  return t;
}

// What an execution plan is made of. The plan refers to the other descriptors.
struct Prepared {
  std::vector<Descriptor> parts;
  Descriptor plan;
  size_t workspace;
};

// Whether an engine is deterministic and as precise as sums in the compute type.
bool is_precise(const Descriptor& engine, DType dtype, bool tf32) {
  int notes[kNotes];
  const int64_t count = engine.get(kEngineNumericalNotes, kTypeNumericalNote, notes, kNotes);
  if (count < 0) return false;
  const auto has = [&](NumericalNote note) { return std::find(notes, notes + count, note) != notes + count; };
  if (has(kNoteNondeterministic) || has(kNoteReducedReduction) || has(kNoteFft)) return false;
  if (dtype == DType::F32)
    return (tf32 || !has(kNoteTensorCore)) && !has(kNoteDownConverts) && !has(kNoteWinograd6x6) &&
           !has(kNoteWinograd13x13);
  return !has(kNoteWinograd);
}

// The first usable engine of the heuristics as a plan; null if there is none.
std::shared_ptr<Prepared> plan_of(const Functions& f, Handle handle, const Geometry& g, std::vector<Descriptor> parts,
                                  HeuristicMode mode) {
  Descriptor heuristic(f, kDescHeuristic);
  heuristic.set(kHeuristicGraph, parts.back());
  heuristic.set(kHeuristicMode, kTypeHeuristicMode, &mode);
  if (heuristic.finish()) return nullptr;
  std::vector<Descriptor> configs;
  std::vector<BackendDescriptor> handles;
  const int64_t room = std::min(heuristic.get(kHeuristicResults, kTypeDescriptor, nullptr, 0), kMostConfigs);
  for (int64_t i = 0; i < room; ++i) handles.push_back(configs.emplace_back(f, kDescEngineConfig).handle());
  const int64_t count = room > 0 ? heuristic.get(kHeuristicResults, kTypeDescriptor, handles.data(), room) : 0;
  for (int64_t i = 0; i < std::min(count, room); ++i) {
    Descriptor& config = configs[static_cast<size_t>(i)];
    const Descriptor engine(f, kDescEngine);
    BackendDescriptor found = engine.handle();
    if (config.get(kConfigEngine, kTypeDescriptor, &found, 1) != 1 ||
        !is_precise(engine, static_cast<DType>(g.dtype), g.tf32 != 0))
      continue;
    Descriptor plan(f, kDescPlan);
    plan.set(kPlanHandle, kTypeHandle, &handle);
    plan.set(kPlanConfig, config);
    int64_t workspace = 0;
    if (plan.finish() || plan.get(kPlanWorkspace, kTypeInt64, &workspace, 1) != 1 || workspace > kMostWorkspace)
      continue;
    parts.push_back(std::move(config));
    return std::make_shared<Prepared>(Prepared{std::move(parts), std::move(plan), static_cast<size_t>(workspace)});
  }
  return nullptr;
}

// Tensors, the convolution, its operation and the graph, the last of which is at the end; empty if cuDNN does not
// support the operation.
std::vector<Descriptor> graph_of(const Functions& f, Handle handle, const Geometry& g) {
  const auto mode = static_cast<ConvMode>(g.mode);
  std::vector<Descriptor> parts;
  parts.reserve(24);  // references stay valid
  parts.push_back(tensor(f, g, g.big, kBigId));
  parts.push_back(tensor(f, g, g.weight, kWeightId));
  parts.push_back(tensor(f, g, g.small, kSmallId));

  Descriptor convolution(f, kDescConvolution);
  const DataType compute = kFloat;
  const ConvolutionMode correlation = kCrossCorrelation;
  convolution.set(kConvolutionComputeType, kTypeDataType, &compute);
  convolution.set(kConvolutionMode, kTypeConvolutionMode, &correlation);
  convolution.set(kConvolutionSpatialDims, g.dims);
  convolution.set(kConvolutionStrides, kTypeInt64, g.stride, g.dims);
  convolution.set(kConvolutionDilations, kTypeInt64, g.dilation, g.dims);
  convolution.set(kConvolutionPrePaddings, kTypeInt64, g.padding, g.dims);
  convolution.set(kConvolutionPostPaddings, kTypeInt64, g.padding, g.dims);
  if (convolution.finish()) return {};
  parts.push_back(std::move(convolution));

  constexpr DescriptorType kOperations[] = {kDescForward, kDescBackwardData, kDescBackwardFilter};
  constexpr Attribute kFirst[] = {kForwardAlpha, kBackwardDataAlpha, kBackwardFilterAlpha};
  const auto index = static_cast<size_t>(mode);
  Descriptor operation(f, kOperations[index]);
  int attribute = kFirst[index];
  for (const float scale : {1.0F, 0.0F}) operation.set(attribute++, kTypeFloat, &scale);  // alpha and beta
  // What is done with the sums: bias, `other`, ReLU. Each operation writes a virtual tensor, the last one the result.
  std::vector<BackendDescriptor> operations;
  int64_t virtual_id = kFirstVirtualId;
  size_t sums = 2;
  if (g.relu) {
    sums = parts.size();
    parts.push_back(tensor(f, g, g.small, virtual_id++));
  }
  for (const size_t part : {size_t{3}, size_t{1}, size_t{0}, sums}) operation.set(attribute++, parts[part]);
  if (operation.finish()) return {};
  operations.push_back(operation.handle());
  parts.push_back(std::move(operation));
  const auto apply = [&](PointwiseMode how, const Descriptor* b, bool is_last) {
    Descriptor pointwise(f, kDescPointwise), step(f, kDescPointwiseOperation);
    pointwise.set(kPointwiseModeOf, kTypePointwiseMode, &how);
    pointwise.set(kPointwiseComputeType, kTypeDataType, &compute);
    if (pointwise.finish()) return false;
    size_t to = 2;
    if (!is_last) {
      to = parts.size();
      parts.push_back(tensor(f, g, g.small, virtual_id++));
    }
    step.set(kOperationPointwise, pointwise);
    step.set(kOperationX, parts[sums]);
    if (b) step.set(kOperationB, *b);
    step.set(kOperationY, parts[to]);
    if (step.finish()) return false;
    sums = to;
    operations.push_back(step.handle());
    parts.push_back(std::move(pointwise));
    parts.push_back(std::move(step));
    return true;
  };
  if (g.relu) {
    const int64_t bias_shape[5] = {1, g.small[1], 1, 1, 1};
    for (const auto& [there, id] : {std::pair{g.has_other, kOtherId}, std::pair{g.has_bias, kBiasId}}) {
      if (!there) continue;
      const size_t added = parts.size();
      parts.push_back(id == kOtherId ? tensor(f, g, g.small, id) : tensor(f, g, bias_shape, id));
      if (!apply(kPointwiseAdd, &parts[added], false)) return {};
    }
    if (!apply(kPointwiseRelu, nullptr, true)) return {};
  }

  Descriptor graph(f, kDescGraph);
  graph.set(kGraphHandle, kTypeHandle, &handle);
  graph.set(kGraphOperations, kTypeDescriptor, operations.data(), static_cast<int64_t>(operations.size()));
  if (graph.finish()) return {};
  parts.push_back(std::move(graph));
  return parts;
}

std::shared_ptr<Prepared> prepare(const Functions& f, Handle handle, const Geometry& g) {
  for (const HeuristicMode mode : {kHeuristicA, kHeuristicFallback}) {
    std::vector<Descriptor> parts = graph_of(f, handle, g);
    if (parts.empty()) return nullptr;
    if (std::shared_ptr<Prepared> made = plan_of(f, handle, g, std::move(parts), mode)) return made;
  }
  return nullptr;
}

// A handle belongs to a device, and has one stream at a time.
struct Session {
  std::mutex lock;
  Handle handle = nullptr;
};

class Store {
 public:
  static Store& get() {
    static auto* store = new Store;
    return *store;
  }
  // Null if cuDNN has no suitable engine.
  std::shared_ptr<Prepared> find(const Functions& f, const Geometry& g) {
    return kept_.find(g, [&] {
      Session& s = session(f, g.device);
      const std::lock_guard hold(s.lock);
      return prepare(f, s.handle, g);
    });
  }
  Session& session(const Functions& f, int64_t device) {
    const std::lock_guard hold(lock_);
    Session& s = sessions_[device];
    if (!s.handle) check(f, f.create(&s.handle), "starting it");
    return s;
  }

 private:
  std::mutex lock_;
  std::map<int64_t, Session> sessions_;
  PreparedCalls<Geometry, Prepared> kept_;
};

int64_t alignment(const Tensor& t, Order order) {
  return is_dense(*t, order) ? int64_t{1} << std::countr_zero(address(*t) | 16) : 16;
}

Geometry describe(const ConvCall& v, Order order, bool tf32) {
  const ConvShape& s = v.shape;
  const int64_t more = s.dims == 1;  // dimensions put in front
  Geometry g{};
  g.device = written(v).device.index;
  g.dtype = static_cast<int64_t>(v.big.dtype());
  g.mode = static_cast<int64_t>(v.mode);
  g.tf32 = tf32;
  g.order = order;
  g.dims = s.dims + more;
  const auto put = [&](int64_t(&to)[5], int64_t first, int64_t channels, const int64_t* sizes) {
    to[0] = first;
    to[1] = channels;
    to[2] = 1;
    std::copy_n(sizes, s.dims, to + 2 + more);
  };
  put(g.big, s.n, s.c, s.in);
  put(g.weight, s.o, s.c / s.groups, s.kernel);
  put(g.small, s.n, s.o, s.out);
  g.stride[0] = 1;
  g.dilation[0] = 1;
  std::copy_n(s.stride, s.dims, g.stride + more);
  std::copy_n(s.padding, s.dims, g.padding + more);
  std::copy_n(s.dilation, s.dims, g.dilation + more);
  g.alignment[0] = alignment(v.big, order);
  g.alignment[1] = alignment(v.weight, order);
  g.alignment[2] = alignment(v.small, order);
  return g;
}

// cuDNN computes the size of small itself.
bool sizes_agree(const ConvShape& s) {
  for (int d = 0; d < s.dims; ++d)
    if ((s.in[d] + 2 * s.padding[d] - s.dilation[d] * (s.kernel[d] - 1) - 1) / s.stride[d] + 1 != s.out[d])
      return false;
  return true;
}

// Without tensor cores, the first deterministic engine takes from a fifth of to 19 times the time of our own kernels
// (bench/results/convolution.md). It is used for the shapes where it was faster.
const char* objection_to_floats(const ConvCall& v) {
  constexpr int64_t kLeastForward = 32, kLeastWeight = 128;  // channels
  const ConvShape& s = v.shape;
  const bool faster = v.mode == ConvMode::Forward  ? s.c >= kLeastForward
                      : v.mode == ConvMode::Weight ? std::min(s.c, s.o) >= kLeastWeight
                                                   : false;
  return faster && !is_pointwise(s) ? nullptr : "other kernels are faster for this convolution of float32";
}

const char* objection(const ConvCall& v, bool tf32) {
  if (written(v).device.type != DeviceType::Cuda) return "cuDNN runs on device cuda";
  const DType dtype = v.big.dtype();
  if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16)
    return "cuDNN is used for float32, float16 and bfloat16";
  if (sums_nothing(v)) return "a tensor is empty";
  if (std::max({v.big.numel(), v.small.numel(), v.weight.numel()}) > INT32_MAX)
    return "a tensor has more than 2^31 elements";
  if (!sizes_agree(v.shape)) return "cuDNN would compute another size of the smaller side";
  if (v.bias && v.mode != ConvMode::Forward) return "a transposed convolution with bias";
  if (dtype == DType::F32 && v.shape.groups == 1 && !tf32)
    if (const char* reason = objection_to_floats(v)) return reason;
  return functions() ? nullptr : "cuDNN is not installed";
}

// Whether the tensor is in channels-last order, or a transposing copy to it reads and writes 16-byte vectors.
bool transposes_in_vectors(const TensorImpl& t) {
  if (is_dense(t, Order::ChannelsLast)) return true;
  return t.numel / (t.shape[0] * t.shape[1]) % 8 == 0 && address(t) % 16 == 0;
}

struct CudnnPlan {
  Geometry geometry;
  size_t workspace;  // of cuDNN alone
};

const char* plan_in(const ConvCall& v, Order order, bool tf32, Plan& plan) {
  Runtime::gpu(written(v).device).activate();
  const Geometry geometry = describe(v, order, tf32);
  const std::shared_ptr<Prepared> prepared = Store::get().find(*functions(), geometry);
  if (!prepared) return "cuDNN has no deterministic kernel for this convolution";
  Workspace space(plan);
  for (const Tensor* t : {&v.big, &v.weight, &v.small}) in_order(*t, order, space);
  space.take(Shape(std::array{static_cast<int64_t>(prepared->workspace)}), DType::U8);
  plan.keep(CudnnPlan{geometry, prepared->workspace});
  plan.variant = order == Order::ChannelsLast ? "channels last" : "channels first";
  return nullptr;
}

const char* plan_in_order_of_result(const ConvCall& v, bool tf32, Plan& plan) {
  if (const char* reason = objection(v, tf32)) return reason;
  const bool first = is_dense(written(v), Order::ChannelsFirst), last = is_dense(written(v), Order::ChannelsLast);
  if (!first && !last) return "the result is dense neither in channels-first nor in channels-last order";
  const bool to_last =
    last && (!first || bytes_out_of_order(v, Order::ChannelsLast) <= bytes_out_of_order(v, Order::ChannelsFirst));
  return plan_in(v, to_last ? Order::ChannelsLast : Order::ChannelsFirst, tf32, plan);
}
}  // namespace

const char* plan_convolution_cudnn(const ConvCall& v, Plan& plan) { return plan_in_order_of_result(v, false, plan); }

const char* plan_convolution_cudnn_tf32(const ConvCall& v, Plan& plan) {
  if (v.big.dtype() != DType::F32) return "for float32";
  if (!allow_tf32_convolutions()) return "TF32 is off: see backends.cudnn.allow_tf32";
  return plan_in_order_of_result(v, true, plan);
}

const char* plan_convolution_cudnn_channels_last(const ConvCall& v, Plan& plan) {
  if (const char* reason = objection(v, false)) return reason;
  const DType dtype = v.big.dtype();
  if (dtype != DType::F16 && dtype != DType::BF16) return "for float16 and bfloat16";
  if (is_dense(*v.big, Order::ChannelsLast) && is_dense(*v.small, Order::ChannelsLast))
    return "the tensors are in channels-last order already";
  if (v.shape.groups != 1) return "for one group";
  if (is_pointwise(v.shape)) return "a product in channels-first order needs no copies";
  if (bytes_out_of_order(v, Order::ChannelsLast) < kLeastCopied) return "small: one launch takes less time than copies";
  if (!transposes_in_vectors(*v.big) || !transposes_in_vectors(*v.small))
    return "copies of planes whose size 8 does not divide are slow";
  return plan_in(v, Order::ChannelsLast, false, plan);
}

namespace {
// Runs a prepared plan with these addresses of the tensors.
void execute(const Functions& f, const Geometry& g, const Prepared& prepared, const Stream& stream,
             std::span<const int64_t> ids, std::span<void* const> pointers, void* workspace) {
  Descriptor pack(f, kDescVariantPack);
  pack.set(kPackPointers, kTypeVoidPointer, pointers.data(), static_cast<int64_t>(pointers.size()));
  pack.set(kPackIds, kTypeInt64, ids.data(), static_cast<int64_t>(ids.size()));
  pack.set(kPackWorkspace, kTypeVoidPointer, &workspace);
  check(f, pack.finish(), "describing the addresses");
  const tracing::Span span(tracing::Layer::Runtime, "cudnnBackendExecute");
  const DeviceTime time(span, stream.gpu(), stream.handle(), "cudnnBackendExecute");
  Session& session = Store::get().session(f, g.device);
  const std::lock_guard hold(session.lock);
  check(f, f.set_stream(session.handle, stream.handle()), "choosing a stream");
  check(f, f.execute(session.handle, prepared.plan.handle(), pack.handle()), "a convolution");
}

Geometry describe_fused(const ConvReluCall& call) {
  const ConvCall& v = call.convolution;
  Geometry g = describe(v, Order::ChannelsLast, false);
  g.relu = 1;
  g.has_other = static_cast<bool>(call.other);
  g.has_bias = static_cast<bool>(v.bias);
  const auto alignment_of = [](const Tensor& t) {
    return t ? int64_t{1} << std::countr_zero(address(*t) | 16) : int64_t{16};
  };
  g.alignment[3] = alignment_of(call.other);
  g.alignment[4] = alignment_of(v.bias);
  return g;
}
}  // namespace

const char* plan_convolution_relu_cudnn(const ConvReluCall& call, Plan& plan) {
  const ConvCall& v = call.convolution;
  if (const char* reason = objection(v, false)) return reason;
  if (v.big.dtype() == DType::F32) return "for float16 and bfloat16";
  if (v.shape.dims == 3) return "for one and two dimensions";
  for (const Tensor* t : {&v.big, &v.small, &call.other})
    if (*t && !is_dense(**t, Order::ChannelsLast)) return "the tensors are not in channels-last order";
  if (v.bias && !v.bias->contiguous) return "the bias is not dense";
  Runtime::gpu(v.small.device()).activate();
  const Geometry geometry = describe_fused(call);
  const std::shared_ptr<Prepared> prepared = Store::get().find(*functions(), geometry);
  if (!prepared) return "cuDNN has no deterministic kernel for this convolution with ReLU";
  Workspace space(plan);
  in_order(v.weight, Order::ChannelsLast, space);
  space.take(static_cast<int64_t>(prepared->workspace), DType::U8);
  plan.keep(CudnnPlan{geometry, prepared->workspace});
  return nullptr;
}

void run_convolution_relu_cudnn(const ConvReluCall& call, const Call& c, const Plan& plan) {
  const auto p = plan.get<CudnnPlan>();
  const ConvCall& v = call.convolution;
  const Functions& f = *functions();
  const Stream stream = stream_of(v.small.device());
  stream.gpu().activate();
  const std::shared_ptr<Prepared> prepared = Store::get().find(f, p.geometry);
  Workspace space(c);
  const Tensor weight = in_order(v.weight, Order::ChannelsLast, space);
  if (weight.get() != v.weight.get()) copy(*weight, *v.weight);
  const Tensor memory = space.take(static_cast<int64_t>(p.workspace), DType::U8);
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  const auto name = [&](int64_t id, const Tensor& t) {
    if (!t) return;
    ids.push_back(id);
    pointers.push_back(t->data);
  };
  name(kBigId, v.big);
  name(kWeightId, weight);
  name(kSmallId, v.small);
  name(kOtherId, call.other);
  name(kBiasId, v.bias);
  execute(f, p.geometry, *prepared, stream, ids, pointers, p.workspace ? memory->data : nullptr);
}

void run_convolution_cudnn(const ConvCall& v, const Call& c, const Plan& plan) {
  const auto p = plan.get<CudnnPlan>();
  const Functions& f = *functions();
  const TensorImpl& out = written(v);
  const Stream stream = stream_of(out.device);
  stream.gpu().activate();
  const std::shared_ptr<Prepared> prepared = Store::get().find(f, p.geometry);
  Workspace space(c);
  const Tensor* given[] = {&v.big, &v.weight, &v.small};
  Tensor used[3];
  void* pointers[3];
  for (size_t i = 0; i < 3; ++i) {
    used[i] = in_order(*given[i], p.geometry.order, space);
    if (used[i].get() != given[i]->get() && given[i]->get() != &out) copy(*used[i], **given[i]);
    pointers[i] = used[i]->data;
  }
  const Tensor memory = space.take(Shape(std::array{static_cast<int64_t>(p.workspace)}), DType::U8);
  const int64_t ids[] = {kBigId, kWeightId, kSmallId};
  execute(f, p.geometry, *prepared, stream, ids, pointers, p.workspace ? memory->data : nullptr);
  for (size_t i = 0; i < 3; ++i)
    if (given[i]->get() == &out && used[i].get() != &out) copy(out, *used[i]);
  if (v.bias) add_bias(out, *v.bias);
}

}  // namespace strata::cuda
