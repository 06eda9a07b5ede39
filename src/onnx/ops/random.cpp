// Random numbers. With a seed they are the same in every run; without one they come from the device's generator.
#include <bit>

#include "onnx/ops/common.h"
#include "tensor/generator.h"

namespace strata::onnx {
namespace {

// A generator with the seed of the node, if it has one.
std::optional<Generator> seeded(const NodeCall& c) {
  if (!c.has("seed")) return std::nullopt;
  return std::optional<Generator>(std::in_place, std::bit_cast<uint64_t>(c.number("seed")));
}
Tensor drawn(const NodeCall& c, const Ints& shape, DType dtype, Device device, bool normal) {
  std::optional<Generator> own = seeded(c);
  Generator* g = own ? &*own : nullptr;
  const TensorOptions options = TensorOptions(DType::F32).device(own ? Device() : device);
  const double a = normal ? c.number("mean", 0) : c.number("low", 0),
               b = normal ? c.number("scale", 1) : c.number("high", 1);
  const Tensor x = normal ? randn(shape, g, options) : rand(shape, g, options);
  return moved(cast(add(mul(x, normal ? b : b - a), a), dtype), device);
}
template <bool normal> Values random_of(NodeCall& c) {
  const DType dtype = storage_dtype(c.type("dtype", ElementType::Float));
  return one(drawn(c, c.ints("shape"), dtype, c.network().device(), normal));
}
template <bool normal> Values random_like(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const ElementType own = element_type(x.dtype());
  return one(drawn(c, sizes_of(x), storage_dtype(c.type("dtype", own)), x.device(), normal));
}
Values bernoulli_of(NodeCall& c) {
  const Tensor p = c.tensor(0);
  std::optional<Generator> own = seeded(c);
  const Tensor x = own ? moved(bernoulli(moved(p, {}), &*own), p.device()) : bernoulli(p);
  return one(cast(x, storage_dtype(c.type("dtype", element_type(p.dtype())))));
}
Values multinomial_of(NodeCall& c) {
  const Tensor p = softmax(c.tensor(0), 1);
  std::optional<Generator> own = seeded(c);
  const int64_t n = c.integer("sample_size", 1);
  const Tensor x = own ? moved(multinomial(moved(p, {}), n, true, &*own), p.device()) : multinomial(p, n, true);
  return one(cast(x, storage_dtype(c.type("dtype", ElementType::Int32))));
}

const OpEntry kRandom[] = {
  {"RandomNormal", 1, 0, 0, nullptr, random_of<true>},
  {"RandomUniform", 1, 0, 0, nullptr, random_of<false>},
  {"RandomNormalLike", 1, 1, 1, nullptr, random_like<true>},
  {"RandomUniformLike", 1, 1, 1, nullptr, random_like<false>},
  {"Bernoulli", 15, 1, 1, nullptr, bernoulli_of},
  {"Multinomial", 7, 1, 1, nullptr, multinomial_of},
};
}  // namespace

OpTable random_ops() { return kRandom; }

}  // namespace strata::onnx
