// OpRecord: everything about one op. Functions in both languages, docs, tests and gradients are derived from it.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "record/kernel.h"

namespace strata {

enum class ParamType : uint8_t {
  Tensor,
  Tensors,
  Scalar,
  Int,
  Float,
  Bool,
  Ints,
  Floats,
  Str,
  DType,
  Device,
  Generator
};
struct Param {
  std::string_view name;
  ParamType type;
  bool optional = false;  // accepts None
  bool keyword_only = false, has_default = false;
  bool optional_items = false;  // of Tensor?[]: an element may be None
  char memory = 0;              // the letter of Tensor(a): a result with the same letter may share its memory
};

struct Formula;         // of a pointwise op: see record/formula.h
struct ComplexFormula;  // the same for complex numbers

// The kernel behind OpRecord::cuda_on_host. Defined in dispatch/on_host.cpp.
STRATA_API void run_on_host(const Call&);

constexpr uint32_t kMaxInputs = 6;  // differentiable tensor parameters are among the first six
constexpr uint32_t kMaxOutputs = 5;

// What autocast does to the arguments of an op. Only tensors on the device type of the scope are changed, and of these
// only floating ones other than float64.
enum class Autocast : uint8_t {
  None,           // nothing; the ops inside a composite have their own policies
  Lower,          // casts to the dtype of the scope
  Float32,        // casts to float32
  Float32Result,  // computes a float32 result: sets the op's dtype argument, if it is None
  Promote,        // casts to the widest dtype of the inputs
  Refuse          // raises: the op is not safe in a 16-bit dtype
};
STRATA_API const char* name_of(Autocast policy);  // "lower", "float32"

// Gradients by parameter index; `list` for the op's Tensor[] parameter, if it has one.
struct Grads {
  Tensor t[kMaxInputs];
  std::vector<Tensor> list;
  Grads() = default;
  Grads(std::initializer_list<Tensor> l) {
    uint32_t i = 0;
    for (const Tensor& g : l) t[i++] = g;
  }
};

class GradContext;  // the tape node for a gradient function; see autograd/node.h

// Where results are stored: fixed outputs (outs) or a list of tensors (list).
struct Results {
  Tensor* outs;
  std::vector<Tensor>* list;
  void put(Tensor t) { outs[0] = std::move(t); }
  void put(std::vector<Tensor> l) {
    if (list) *list = std::move(l);
    else
      for (size_t i = 0; i < l.size(); ++i) outs[i] = std::move(l[i]);
  }
  template <size_t n> void put(std::array<Tensor, n> l) {
    for (size_t i = 0; i < n; ++i) outs[i] = std::move(l[i]);
  }
  template <class... T> void put(std::tuple<T...> l) {
    size_t i = 0;
    std::apply([&](auto&&... t) { ((outs[i++] = std::move(t)), ...); }, l);
  }
};

struct ErrorSample {
  const char* args;  // in the language of samples; see dispatch/samples.h
  ErrorKind kind;
  const char* message;  // part of the expected message
};

namespace detail {
// A rule, kernel or gradient of a definition: a function, or a lambda whose first parameter is a generated view of the
// arguments (strata/args/*.h) in place of `Whole`, a Call, Args or GradContext.
template <class F> struct FirstOf;
template <class F, class R, class First, class... Rest> struct FirstOf<R (F::*)(First, Rest...) const> {
  using type = std::remove_cvref_t<First>;
  static constexpr bool kAlone = sizeof...(Rest) == 0;
};
template <class F> constexpr bool kTakesWorkspace = !FirstOf<decltype(&F::operator())>::kAlone;
template <class R, class Whole, class... Rest>
constexpr bool kTakesWorkspace<R (*)(Whole, Rest...)> = sizeof...(Rest) == 1;
template <class Pointer> struct AsPointer;
template <class R, class Whole, class... Rest> struct AsPointer<R (*)(Whole, Rest...)> {
  using Pointer = R (*)(Whole, Rest...);
  template <class F> static Pointer from(F f) {
    if constexpr (std::is_convertible_v<F, Pointer>) {
      return f;
    } else {
      using View = typename FirstOf<decltype(&F::operator())>::type;
      return [](Whole whole, Rest... rest) -> R { return F{}(View(whole), rest...); };
    }
  }
};
}  // namespace detail

struct STRATA_API OpRecord {
  using Infer = void (*)(const Call&);  // sets dtype, shape and strides of outs (new objects), throws on misuse
  using Compose = void (*)(const Args&, Results&);
  using Grad = Grads (*)(const GradContext&, const Tensor& grad);

  std::string name;      // "add", "linalg.det"
  std::string overload;  // "dim" in "max.dim(…)"
  const char* schema = nullptr;
  const char* text = "";
  std::vector<Param> params;
  Args defaults;
  uint32_t required = 0;    // parameters up to the last one without a default
  uint32_t positional = 0;  // parameters before the '*'
  uint32_t outputs = 1;
  bool returns_list = false;   // -> Tensor[]
  uint16_t written = 0;        // mask of Tensor(a!) parameters: the op changes their memory
  uint8_t writes_if = 0;       // of Tensor(a!:training): the bool parameter that enables the write; 0: always
  uint16_t needed = 0;         // mask of Tensor and Tensor[] parameters that are required
  bool takes_tensors = false;  // has Tensor or Tensor[] parameters, required or not
  uint8_t recorded_param = 0;  // a bool or int parameter: if it is None, dispatch sets it, see keeps_for_grad
  std::string shared;          // for each output the letter of the parameters whose memory it may share, ' ' for none
  std::vector<std::string> output_names;

  Infer infer_fn = nullptr;
  Compose view_fn = nullptr;       // allocates nothing, shares the memory of input 0
  Compose composite_fn = nullptr;  // written with other ops, which the tape records
  Compose complex_fn = nullptr;    // replaces the kernels and the gradient if an argument is complex; also a composite
  Grad grad_fn = nullptr;
  Grad graph_grad_fn = nullptr;  // a differentiable version; null: grad_fn consists of differentiable ops
  uint32_t saved_inputs = 0, saved_outputs = 0;  // masks
  uint32_t constant_inputs = 0;                  // mask of inputs that carry no gradient
  uint32_t integer_outputs = 0;                  // mask of outputs that carry no gradient (indices, masks)
  uint32_t saved_for_first = 0,
           saved_for_second = 0;  // of saved_inputs: those that only the gradient of input 0 or 1 needs
  bool broadcasts = false;        // the engine sums gradients to the inputs' shapes
  bool updates_input = false;     // in place, a kernel gets input 0 itself as its output and writes only what changes
  bool part = false;              // a view of some elements, each once, whose positions depend on shapes only
  bool has_inplace = false, has_out = true;
  bool method = true;                // becomes a Tensor method if its first parameter is a tensor
  bool numbers = false;              // Tensor parameters accept plain numbers without creating a tensor (pointwise)
  bool random = false;               // draws from a generator: tests compare statistics, not values
  bool internal = false;             // a gradient helper: not part of Python's public names
  bool crosses = false;              // its tensors may be on different devices: copies
  bool by_parts = false;             // linear: kernels get the real and the imaginary parts of complex tensors, in turn
  bool complex_kernels = false;      // its device kernels take complex tensors as they are
  bool ordered_uint64 = false;       // compares elements: kernels get uint64 as int64 in the same order
  DTypeSet accepts = kAllTypes;      // dtypes that the op supports, and the samples are run with
  const char* dtype_hint = nullptr;  // suggestion for other dtypes
  const Formula* const* formulas = nullptr;         // of a pointwise op
  const ComplexFormula* complex_formula = nullptr;  // of a pointwise op that accepts complex numbers
  int (*variant)(const Args&) = nullptr;            // chooses one of several formulas; null: there is only one
  std::array<Kernels, kBackends> lists;             // the kernels of each back end; empty: not supported there
  std::vector<const char*> aliases;                 // further Python names, e.g. "nn.functional.relu"
  // What autocast does on each back end: PyTorch's lists for CPU and CUDA differ.
  std::array<Autocast, kBackends> autocast_policy = {};
  std::vector<const char*> sample_texts;
  std::vector<ErrorSample> error_samples;

  // Whether tuning has measured kernels of this op. Relaxed: a late reader uses the list's order.
  bool is_tuned() const { return std::atomic_ref<bool>(tuned_).load(std::memory_order_relaxed); }
  void set_tuned(bool is) const { std::atomic_ref<bool>(tuned_).store(is, std::memory_order_relaxed); }

  // The builder: see ops/*.cpp for definitions.
  OpRecord& define(const char* op_schema);
  OpRecord& doc(const char* s) { return set(text, s); }
  template <class F> OpRecord& infer(F f) { return set(infer_fn, detail::AsPointer<Infer>::from(f)); }
  Kernels& kernels(Backend b) { return lists[static_cast<size_t>(b)]; }
  const Kernels& kernels(Backend b) const { return lists[static_cast<size_t>(b)]; }
  template <class F, class W = Kernel::When> OpRecord& kernel(const char* kernel_name, F run, W when = nullptr) {
    return add_plain(Backend::Cpu, kernel_name, run, when);
  }
  // The same for devices cuda and vgpu, in their own order. If `run` has a second parameter, Workspace&, it takes its
  // memory from that (see Kernel).
  template <class F, class W = Kernel::When> OpRecord& cuda(const char* kernel_name, F run, W when = nullptr) {
    return add_plain(Backend::Cuda, kernel_name, run, when);
  }
  // A kernel that plans before it runs.
  OpRecord& planned(Backend b, const char* kernel_name, Kernel::Prepare prepare,
                    void (*run)(const Call&, const Plan&)) {
    return add(b, {.name = kernel_name, .prepare = prepare, .run_plan = run});
  }
  // Kernels shared by several ops.
  OpRecord& with(void (*add_kernels)(OpRecord&)) {
    add_kernels(*this);
    return *this;
  }
  // For the kernel added last: the origin of its code, and its numeric properties.
  OpRecord& from(Source source) { return set(last_added().source, source); }
  OpRecord& numerics(const Numerics& facts) { return set(last_added().numerics, facts); }
  // Devices copy the inputs to the host, run the CPU kernel and copy the results back. The name ends in _on_host, so
  // that explain() and traces show it.
  OpRecord& cuda_on_host(const char* kernel_name) { return cuda(kernel_name, run_on_host); }
  OpRecord& crosses_devices() { return set(crosses, true); }
  // composite and view take a lambda whose parameters are the schema's, typed: [](const Tensor& input, int64_t dim) { … }
  template <class F> OpRecord& composite(F);
  template <class F> OpRecord& view(F);
  template <class F> OpRecord& grad(F f) { return set(grad_fn, detail::AsPointer<Grad>::from(f)); }
  // For a gradient that is one fused op: the differentiable formula, used when the gradient itself is differentiated.
  template <class F> OpRecord& grad_for_graph(F f) { return set(graph_grad_fn, detail::AsPointer<Grad>::from(f)); }
  using Names = std::initializer_list<std::string_view>;  // of parameters
  OpRecord& saves(Names inputs) { return set(saved_inputs, saved_inputs | mask_of(inputs)); }
  OpRecord& saves_each_for_the_other() {
    saved_inputs |= 3;
    saved_for_first = 2;
    saved_for_second = 1;
    return *this;
  }
  OpRecord& saves_for_second(Names inputs) {  // they are not saved if input 1 needs no gradient
    saved_for_second |= mask_of(inputs);
    return set(saved_inputs, saved_inputs | saved_for_second);
  }
  OpRecord& saves_result(std::initializer_list<int> which = {0}) {
    for (int i : which) saved_outputs |= 1u << i;
    return *this;
  }
  // Inputs that never have a gradient, e.g. running statistics and class weights.
  OpRecord& no_grad_inputs(Names which) { return set(constant_inputs, constant_inputs | mask_of(which)); }
  OpRecord& no_grad_outputs(std::initializer_list<int> which) {
    for (int i : which) integer_outputs |= 1u << i;
    return *this;
  }
  // This parameter tells the op what its gradient will need. If it is None, dispatch sets a bool to whether the call is
  // recorded, and an int to the mask of the tensor parameters that require a gradient. So an op never reads the gradient mode
  // itself, and a captured call means the same later.
  OpRecord& keeps_for_grad(std::string_view param) { return set(recorded_param, place_of(param)); }
  OpRecord& inplace() { return set(has_inplace, true); }
  OpRecord& updates() { return inplace().set(updates_input, true); }  // inplace(), without a temporary
  OpRecord& shows_part() { return set(part, true); }
  OpRecord& no_out() { return set(has_out, false); }
  OpRecord& no_method() { return set(method, false); }
  OpRecord& helper() { return no_method().set(internal, true); }
  OpRecord& takes_numbers() { return set(numbers, true); }  // composites whose tensors may be plain numbers
  OpRecord& draws() { return set(random, true); }
  OpRecord& alias(const char* other_name) {
    aliases.push_back(other_name);
    return *this;
  }
  OpRecord& nn() { return alias_nn(); }  // also as nn.functional.<name>
  OpRecord& autocast(Autocast policy) { return autocast_cpu(policy).autocast_cuda(policy); }
  OpRecord& autocast_cpu(Autocast policy) { return set(autocast_policy[static_cast<size_t>(Backend::Cpu)], policy); }
  OpRecord& autocast_cuda(Autocast policy) { return set(autocast_policy[static_cast<size_t>(Backend::Cuda)], policy); }
  // A pointwise op that computes with uint32 does so with uint64 too.
  OpRecord& dtypes(DTypeSet types, const char* hint = nullptr) {
    if (formulas && types.has(DType::U32)) types = types | DTypeSet{DType::U64};
    return set(accepts, types).set(dtype_hint, hint);
  }
  OpRecord& add_dtypes(DTypeSet types) { return set(accepts, accepts | types); }
  OpRecord& remove_dtypes(DTypeSet types) { return set(accepts, accepts - types); }
  // uint64, for kernels that compute integers as int64_t: the results have the same bits (sums, products), or elements
  // are compared.
  OpRecord& computes_uint64() { return add_dtypes({DType::U64}); }
  OpRecord& orders_uint64() { return computes_uint64().set(ordered_uint64, true); }
  OpRecord& samples(std::initializer_list<const char*> texts) {
    sample_texts.insert(sample_texts.end(), texts);
    return *this;
  }
  OpRecord& error(const char* args, ErrorKind kind, const char* message) {
    error_samples.push_back({args, kind, message});
    return *this;
  }
  // Shape by broadcasting, dtype by promotion, and the kernels, all from one functor; or from one of several, which the
  // arguments choose: .pointwise<fn::Gelu, fn::GeluTanh>(is_tanh). Defined in ops/pointwise/pointwise.h.
  template <template <class> class... F> OpRecord& pointwise(int (*choose)(const Args&) = nullptr);
  // After pointwise() and dtypes(): the functor for complex numbers.
  template <template <class> class F> OpRecord& complex();
  template <template <class> class F>
  OpRecord& complex_from_real();  // for an op that makes complex numbers of real ones
  // The op for complex tensors: by other ops, as in composite(); or by its own kernels, for each part of the numbers.
  template <class F> OpRecord& complex_composite(F);
  OpRecord& handles_complex() { return set(complex_kernels, true); }
  OpRecord& complex_by_parts() { return add_dtypes(kComplexTypes).set(by_parts, true); }

 private:
  template <class T> OpRecord& set(T& field, std::type_identity_t<T> value) {
    field = value;
    return *this;
  }
  template <class F, class W> OpRecord& add_plain(Backend b, const char* kernel_name, F run, W when) {
    Kernel kernel{.name = kernel_name, .when = detail::AsPointer<Kernel::When>::from(when)};
    if constexpr (detail::kTakesWorkspace<F>)
      kernel.run_in = detail::AsPointer<void (*)(const Call&, Workspace&)>::from(run);
    else kernel.run = detail::AsPointer<void (*)(const Call&)>::from(run);
    return add(b, kernel);
  }
  uint8_t place_of(std::string_view param) const;
  uint32_t mask_of(Names names) const;
  OpRecord& add(Backend b, const Kernel& kernel) {
    kernels(b).push_back(kernel);
    return set(last_, b);
  }
  Kernel& last_added() { return kernels(last_).back(); }
  Backend last_ = Backend::Cpu;
  mutable bool tuned_ = false;
  void read_schema();  // parses the schema; see record/schema.cpp
  void read_params(std::string_view text);
  void read_results(std::string_view text);
  OpRecord& alias_nn();
};

// How an op is called: returning its results, in place (add_), or into given tensors (out=).
enum class Form : uint8_t { Plain, InPlace, Out };
// The schema of a form, including what it writes: "add_(Tensor(a!) input, Tensor other, *, Scalar alpha=1) ->
// Tensor(a!)".
STRATA_API std::string schema_of(const OpRecord& op, Form form);

STRATA_API const std::vector<OpRecord*>& all_ops();  // in order of definition
STRATA_API const OpRecord& find_op(std::string_view name,
                                   std::string_view overload = {});  // throws Internal if there is none

// The pipeline of every op, from either language: trace, infer, choose, run, record. Defined in dispatch/call.cpp.
STRATA_API Tensor call(const OpRecord& op, const Args& args);                    // ops with one output
STRATA_API void call_into(const OpRecord& op, const Args& args, Tensor* outs);   // op.outputs results
STRATA_API std::vector<Tensor> call_list(const OpRecord& op, const Args& args);  // ops that return a list
STRATA_API Tensor call_inplace(const OpRecord& op, const Args& args);            // result goes into args[0]
STRATA_API void call_out(const OpRecord& op, const Args& args, Tensor* outs);    // results go into the given tensors
template <size_t n> std::array<Tensor, n> call_array(const OpRecord& op, const Args& args) {
  std::array<Tensor, n> outs;
  call_into(op, args, outs.data());
  return outs;
}

// The record of a definition. It is never destroyed: daemon threads compute until the process has ended.
union STRATA_API LastingRecord {
  OpRecord record;
  LastingRecord() : record() {}
  ~LastingRecord() {}
  operator const OpRecord&() const { return record; }
  operator OpRecord&() { return record; }
  OpRecord* operator&() { return &record; }
};

// The kernels that were considered for a call, and why they were skipped.
struct Explanation {
  struct Line {
    const OpRecord* op;
    const Kernel* kernel;
    std::string reason;    // empty: chosen
    std::string variant;   // of a plan
    size_t workspace = 0;  // bytes
    double time_us = 0;    // as measured by tuning; 0: not measured
    bool behind = false;   // it comes after the chosen one
  };
  std::vector<Line> lines;
  const Line& chosen() const {  // of the last call
    const auto found = std::find_if(lines.rbegin(), lines.rend(), [](const Line& line) { return line.reason.empty(); });
    STRATA_ASSERT(found != lines.rend());
    return *found;
  }
  Line& add(const OpRecord& op, const Kernel& kernel) {
    Line& line = lines.emplace_back();
    line.op = &op;
    line.kernel = &kernel;
    return line;
  }
};
// "chosen", or the reason, with the plan's details and its time.
STRATA_API std::string verdict(const Explanation::Line& line);

// Modes that are rarely on. The pipeline tests all of them at once.
struct RareModes {
  bool inference_mode = false;
  bool anomaly_mode = false;
  uint8_t autocast = 0;  // mask of the device types that autocast is on for; see dispatch/autocast.h
  uint8_t observed = 0;  // an Observer sees the calls of this thread: its `inside_composites` (dispatch/observer.h)
  bool any_rare_mode() const { return std::bit_cast<uint32_t>(*this) != 0; }
};
struct ThreadState : RareModes {
  bool grad_mode = true;
  bool reference_only = false;  // tests: run the last kernel of each list
  // The default device of new tensors; inside a composite or a gradient, the device of its tensors.
  Device default_device;
  const OpRecord* op = nullptr;  // whose kernel runs on a device, for messages
  Explanation* explain = nullptr;
  bool tuning = false;  // time the kernels of a call, and keep the fastest for its shapes; see dispatch/tuning.h
};
STRATA_API STRATA_THREAD_LOCAL_DECL extern thread_local constinit ThreadState thread_state;

// While it exists, new tensors are placed on the device of these tensors, if there are any. For composites and
// gradients.
class STRATA_API OnDeviceOf {
 public:
  explicit OnDeviceOf(const Args& args);
  explicit OnDeviceOf(Device d) : before_(thread_state.default_device) { enter(d); }
  ~OnDeviceOf() { thread_state.default_device = before_; }
  OnDeviceOf(const OnDeviceOf&) = delete;
  OnDeviceOf& operator=(const OnDeviceOf&) = delete;

 private:
  static void enter(Device d) { thread_state.default_device = d; }
  Device before_;
};

// --- unpacking Args into typed parameters -------------------------------------------------------------------------

namespace detail {
template <class T> struct Unpack;
template <> struct Unpack<Tensor> {
  static Tensor get(const Value& v) {
    return v.tag == Tag::Tensor ? Tensor(Ref<TensorImpl>::share(v.tensor)) : Tensor();
  }
};
template <> struct Unpack<TensorList> {
  static TensorList get(const Value& v) { return v.tensor_list(); }
};
template <> struct Unpack<Operand> {
  static Operand get(const Value& v) { return Operand(v); }
};
template <> struct Unpack<Scalar> {
  static Scalar get(const Value& v) { return v.scalar(); }
};
template <> struct Unpack<int64_t> {
  static int64_t get(const Value& v) { return v.integer(); }
};
template <> struct Unpack<double> {
  static double get(const Value& v) { return v.number(); }
};
template <> struct Unpack<bool> {
  static bool get(const Value& v) { return v.boolean(); }
};
template <> struct Unpack<IntList> {
  static IntList get(const Value& v) { return v.int_list(); }
};
template <> struct Unpack<OptIntList> {
  static OptIntList get(const Value& v) { return v ? OptIntList(v.int_list()) : OptIntList(); }
};
template <> struct Unpack<std::span<const double>> {
  static std::span<const double> get(const Value& v) { return v.float_list(); }
};
template <> struct Unpack<std::string_view> {
  static std::string_view get(const Value& v) { return v.string(); }
};
template <> struct Unpack<DType> {
  static DType get(const Value& v) { return v.dtype(); }
};
template <> struct Unpack<Device> {
  static Device get(const Value& v) { return v.device(); }
};
template <> struct Unpack<Generator*> {
  static Generator* get(const Value& v) { return v.tag == Tag::Generator ? v.generator : nullptr; }
};
template <class T> struct Unpack<std::optional<T>> {
  static std::optional<T> get(const Value& v) { return v ? std::optional<T>(Unpack<T>::get(v)) : std::nullopt; }
};

template <class M> struct Signature;
template <class C, class R, class... P> struct Signature<R (C::*)(P...) const> {
  template <class F, size_t... i> static R apply(const Args& args, std::index_sequence<i...>) {
    return F{}(Unpack<std::remove_cvref_t<P>>::get(args[i])...);
  }
  template <class F> static R apply(const Args& args) { return apply<F>(args, std::index_sequence_for<P...>()); }
  static constexpr size_t kCount = sizeof...(P);
};
template <class F> void compose(const Args& args, Results& results) {
  results.put(Signature<decltype(&F::operator())>::template apply<F>(args));
}
}  // namespace detail

template <class F> OpRecord& OpRecord::composite(F) {
  STRATA_ASSERT(detail::Signature<decltype(&F::operator())>::kCount == params.size());
  return set(composite_fn, detail::compose<F>);
}
template <class F> OpRecord& OpRecord::complex_composite(F) {
  STRATA_ASSERT(detail::Signature<decltype(&F::operator())>::kCount == params.size());
  return add_dtypes(kComplexTypes).set(complex_fn, detail::compose<F>);
}
template <class F> OpRecord& OpRecord::view(F) {
  STRATA_ASSERT(detail::Signature<decltype(&F::operator())>::kCount == params.size());
  has_out = false;
  return set(view_fn, detail::compose<F>);
}

// Defines the record op_<id> from its schema: STRATA_OP(add, "add(Tensor input, Tensor other, *, Scalar alpha=1) -> Tensor").
// The id is the name with '.' and the overload joined by '_': max_dim for "max.dim", linalg_det for "linalg.det".
#define STRATA_OP(id, schema)       \
  STRATA_API LastingRecord op_##id; \
  [[maybe_unused]] static OpRecord& defined_##id = op_##id.record.define(schema)

}  // namespace strata
