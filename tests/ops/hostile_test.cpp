// Every op of the registry, called from C++ with hostile arguments: samples in which some values are replaced by undefined tensors, other
// shapes, dtypes and layouts, extreme numbers, lists of another length. Each call returns or throws strata::Error; nothing else.
// STRATA_ATTACK_SEED and STRATA_ATTACK_CALLS choose other calls, and more of them.
#include "strata/strata.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <random>

#include "dispatch/samples.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

constexpr int64_t kIntegers[] = {0,         1,         -1,        2,         3,         7,
                                 -2,        64,        255,       -128,      1 << 16,   1LL << 31,
                                 1LL << 32, 1LL << 40, 1LL << 62, INT64_MAX, INT64_MIN, -(1LL << 40)};
constexpr double kNumbers[] = {0.0, -0.0, 0.5, -1.5, 1e-320, 1e308, INFINITY, -INFINITY, NAN, 9.3e18};
const std::vector<int64_t> kShapes[] = {{},        {0},          {1},          {3},
                                        {2, 3},    {0, 3},       {3, 0},       {1, 1},
                                        {2, 3, 4}, {1, 2, 5, 5}, {2, 3, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}};
constexpr DType kTypes[] = {DType::F32, DType::F64, DType::F16, DType::BF16,
                            DType::I64, DType::I32, DType::U8,  DType::Bool};

// Draws hostile values and keeps alive what they point to.
class Hostile {
 public:
  explicit Hostile(uint64_t seed) : random_(seed) {}

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  template <class T, size_t n> const T& pick(const T (&list)[n]) { return list[below(n)]; }

  Tensor tensor() {
    const std::vector<int64_t>& shape = pick(kShapes);
    const DType type = pick(kTypes);
    Tensor t = is_floating(type) ? to(randn(shape), type) : to(randint(-3, below(2) ? 4 : 1LL << 33, shape), type);
    switch (below(5)) {
      case 0: return t.dim() > 1 ? transpose(t, 0, -1) : t;
      case 1: return t.dim() && t.dim() < kMaxDims ? expand(unsqueeze(t, 0), with_front(shape, 3)) : t;
      case 2: return type == DType::F32 ? t.set_requires_grad() : t;
      case 3: return t.dim() && t.size(0) > 1 ? narrow(t, 0, 1, t.size(0) - 1) : t;
      default: return t;
    }
  }

  Value instead_of(const Value& v) {
    switch (v.tag) {
      case Tag::Tensor: return below(4) ? Value(kept(tensor())) : Value();
      case Tag::Int: return pick(kIntegers);
      case Tag::Float: return pick(kNumbers);
      case Tag::Bool: return !v.boolean();
      case Tag::Ints: return changed_list(v.int_list());
      case Tag::Tensors: return changed_list(v.tensor_list());
      case Tag::Str: return Value(below(2) ? "" : "nonsense");
      case Tag::DType: return pick(kTypes);
      case Tag::None: return below(2) ? Value(kept(tensor())) : Value(pick(kIntegers));
      default: return Value();
    }
  }
  void forget() {
    tensors_.clear();
    ints_.clear();
    lists_.clear();
  }

 private:
  static std::vector<int64_t> with_front(std::vector<int64_t> shape, int64_t size) {
    shape.insert(shape.begin(), size);
    return shape;
  }
  const Tensor& kept(Tensor t) { return tensors_.emplace_back(std::move(t)); }

  Value changed_list(IntList old) {
    std::vector<int64_t>& list = ints_.emplace_back(old.data, old.data + old.size);
    if (list.empty() || below(3) == 0) list.push_back(pick(kIntegers));
    else if (below(4) == 0) list.pop_back();
    else list[below(list.size())] = pick(kIntegers);
    return IntList(Shape(list.data(), list.size()));
  }
  Value changed_list(TensorList old) {
    std::vector<Tensor>& list = lists_.emplace_back(old.begin(), old.end());
    if (list.empty() || below(3) == 0) list.push_back(tensor());
    else list[below(list.size())] = below(2) ? tensor() : Tensor();
    return TensorList(std::span<const Tensor>(list));
  }

  std::mt19937_64 random_;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<Tensor>> lists_;
};

// What a parameter's type allows: C++ signatures are typed, so a number is never passed for a list.
bool fits(const Param& p, const Value& v) {
  switch (v.tag) {
    case Tag::None: return true;
    case Tag::Tensor: return p.type == ParamType::Tensor;
    case Tag::Tensors: return p.type == ParamType::Tensors;
    case Tag::Int: return p.type == ParamType::Int || p.type == ParamType::Scalar || p.type == ParamType::Float;
    case Tag::Float: return p.type == ParamType::Float || p.type == ParamType::Scalar;
    case Tag::Complex: return p.type == ParamType::Scalar;
    case Tag::Bool: return p.type == ParamType::Bool || p.type == ParamType::Scalar;
    case Tag::Ints: return p.type == ParamType::Ints;
    case Tag::Floats: return p.type == ParamType::Floats;
    case Tag::Str: return p.type == ParamType::Str;
    case Tag::DType: return p.type == ParamType::DType;
    case Tag::Device: return p.type == ParamType::Device;
    case Tag::Generator: return p.type == ParamType::Generator;
  }
  return false;
}

std::vector<Tensor> run(const OpRecord& op, const Args& args, size_t form) {
  if (form == 0 && op.has_inplace) return {call_inplace(op, args)};
  if (op.returns_list) return call_list(op, args);
  std::vector<Tensor> outs(op.outputs);
  call_into(op, args, outs.data());
  return outs;
}

// How the call ended, if neither successfully nor with a strata::Error.
std::string problem_of(const OpRecord& op, const Args& args, size_t form) {
  try {
    for (const Tensor& t : run(op, args, form))
      if (t && t.requires_grad() && t.numel() > 0 && t.numel() < 10'000) sum(t).backward();
  } catch (const Error&) { return {}; } catch (const std::exception& e) {
    return fmt::format("{} threw {}", op.schema, e.what());
  }
  return {};
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(Hostile, OpsRefuseWithATypedError) {
  set_memory_limit(size_t{1} << 30);
  Hostile hostile(number_from_environment("STRATA_ATTACK_SEED", 1));
  const uint64_t calls = number_from_environment("STRATA_ATTACK_CALLS", 20'000);
  const auto& ops = all_ops();
  const bool verbose = std::getenv("STRATA_ATTACK_VERBOSE");
  for (uint64_t n = 0; n < calls; ++n) {
    const OpRecord& op = *ops[n % ops.size()];
    if (op.sample_texts.empty()) continue;
    const char* text = op.sample_texts[hostile.below(op.sample_texts.size())];
    Sample sample(op, text, DType::F32, n);
    Args args = sample.args;
    for (size_t changes = 1 + hostile.below(2); changes > 0 && args.size; --changes) {
      const auto place = static_cast<uint32_t>(hostile.below(args.size));
      const Value other = hostile.instead_of(args[place]);
      if (fits(op.params[place], other)) args[place] = other;
    }
    if (verbose) fmt::print(stderr, "{} {} ({})\n", n, op.schema, text);  // the last line names a call that crashes
    EXPECT_EQ(problem_of(op, args, hostile.below(6)), "") << "call " << n;
    hostile.forget();
  }
  set_memory_limit(0);
}

}  // namespace
}  // namespace strata
