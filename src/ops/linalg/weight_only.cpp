// Products with weights of 8 or 4 bits and scales: linear layers of quantized networks, whose activations stay floats.
#include "strata/args/linalg/weight_only.h"
#include "autograd/autograd.h"
#include "cpu/linalg/weight_only.h"
#include "cuda/linalg/weight_only.h"
#include "ops/transfer.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr int64_t kFewRowsCpu = 32, kFewRowsDevice = 16;  // more rows: the weights are converted to floats once

// --- checks ----------------------------------------------------------------------------------------------------------

void check_weights(const char* op, const TensorImpl& x, const TensorImpl& weight, const TensorImpl& scales,
                   const TensorImpl* zeros, int bits) {
  const DType stored = bits == 8 ? DType::I8 : DType::U8;
  STRATA_CHECK(x.ndim == 2 && weight.ndim == 2, Runtime, "{}: expected two matrices, got shapes {} and {}", op,
               to_string(x.sizes()), to_string(weight.sizes()));
  STRATA_CHECK(kFloatingTypes.has(x.dtype), NotImplemented, "\"{}\" not implemented for '{}'", op, name_of(x.dtype));
  STRATA_CHECK(weight.dtype == stored, Runtime, "{}: the weight must be {}{}, got {}", op, name_of(stored),
               bits == 4 ? " (two weights in a byte; see pack_int4)" : "", name_of(weight.dtype));
  const int64_t k = x.shape[1], have = weight.shape[1] * (bits == 8 ? 1 : 2);
  STRATA_CHECK(k == have, Runtime, "{}: input of shape {} has {} columns, but the weight of shape {} has {} per row",
               op, to_string(x.sizes()), k, to_string(weight.sizes()), have);
  const auto check_groups = [&](const char* name, const TensorImpl& t) {
    const bool fits = (t.ndim == 1 || t.ndim == 2) && t.shape[0] == weight.shape[0];
    STRATA_CHECK(fits, Runtime, "{}: {} must have shape [{}] or [{}, groups], got {}", op, name, weight.shape[0],
                 weight.shape[0], to_string(t.sizes()));
    STRATA_CHECK(kFloatingTypes.has(t.dtype), Runtime,
                 "{}: {} must be floating-point numbers of 16 bits or more, got {}", op, name, name_of(t.dtype));
    const int64_t groups = t.ndim == 2 ? t.shape[1] : 1;
    STRATA_CHECK(groups > 0 && k % groups == 0, Runtime,
                 "{}: {} has {} groups, which must divide the {} weights of a row evenly", op, name, groups, k);
  };
  check_groups("scales", scales);
  if (!zeros) return;
  check_groups("zeros", *zeros);
  STRATA_CHECK(zeros->same_shape(scales), Runtime, "{}: zeros must have the shape of scales, {}, got {}", op,
               to_string(scales.sizes()), to_string(zeros->sizes()));
}

void set_result(const Call& c, const TensorImpl& x, const TensorImpl& weight) {
  c.out()->dtype = x.dtype;
  c.out()->set_shape(Shape(std::array{x.shape[0], weight.shape[0]}));
}

// --- the same by other ops -------------------------------------------------------------------------------------------

// q as numbers of a dtype, [n, k].
Tensor quantized_values(const Tensor& weight, int bits, DType dtype) {
  return bits == 8 ? to(weight, dtype) : sub(to(unpack_int4(weight), dtype), 8);
}

// [n, k] as [n, groups, k / groups], and scales as [n, groups, 1].
Tensor in_groups(const Tensor& t, int64_t groups) { return reshape(t, {t.size(0), groups, t.size(1) / groups}); }
Tensor per_group(const Tensor& scales, int64_t groups) { return reshape(scales, {scales.size(0), groups, 1}); }

Tensor dequantized(const Tensor& weight, const Tensor& scales, const Tensor& zeros, int bits, DType dtype) {
  const DType wide = dtype == DType::F64 ? dtype : DType::F32;
  const int64_t groups = scales.dim() == 2 ? scales.size(1) : 1;
  Tensor w = mul(in_groups(quantized_values(weight, bits, wide), groups), to(per_group(scales, groups), wide));
  if (zeros) w = add(w, to(per_group(zeros, groups), wide));
  return to(reshape(w, {weight.size(0), w.size(1) * w.size(2)}), dtype);
}

// --- kernels ---------------------------------------------------------------------------------------------------------

WeightProduct int8_product(const Call& c) {
  const args::_weight_int8pack_mm a(c);
  return {a.input(), a.mat2(), a.scales(), nullptr, *c.out(), 8};
}
WeightProduct int4_product(const Call& c) {
  const args::_weight_int4_mm a(c);
  return {a.input(), a.weight(), a.scales(), a.zeros(), *c.out(), 4};
}
const char* strided_rows(const WeightProduct& w) {
  return w.weight.strides[1] == 1 || w.weight.shape[1] == 1 ? nullptr : "rows of the weight are strided";
}

template <auto describe> void add_weight_kernels(OpRecord& op) {
  const auto by_floats = [](const Call& c) {
    const WeightProduct w = describe(c);
    const auto shared = [](const TensorImpl* t) { return t ? Tensor(alias(*t)) : Tensor(); };
    const Tensor weight = dequantized(shared(&w.weight), shared(&w.scales), shared(w.zeros), w.bits, w.x.dtype);
    copy_values(*c.out(), *mm(shared(&w.x), t(weight)));
  };
  op.kernel(
    "simd", [](const Call& c) { cpu::weight_product(describe(c)); },
    [](const Call& c) -> const char* {
      const WeightProduct w = describe(c);
      if (w.x.dtype == DType::F64) return "for float32 and 16 bits";
      return w.rows() > kFewRowsCpu ? "for at most 32 rows" : strided_rows(w);
    });
  op.kernel("dequantized", by_floats, [](const Call& c) -> const char* {
    return describe(c).rows() > kFewRowsCpu ? nullptr : "for more than 32 rows";
  });
  op.kernel("reference", [](const Call& c) { cpu::weight_product_reference(describe(c)); });
  op.cuda(
    "tensor_cores", [](const Call& c) { cuda::run_weights_tensor_cores(describe(c)); },
    [](const Call& c) -> const char* {
      const WeightProduct w = describe(c);
      if (w.out.numel == 0) return "the result is empty";
      if (const char* reason = strided_rows(w)) return reason;
      return cuda::weights_reject_tensor_cores(w);
    });
  op.cuda(
    "rows", [](const Call& c) { cuda::run_weights_rows(describe(c)); },
    [](const Call& c) -> const char* {
      const WeightProduct w = describe(c);
      if (w.out.numel == 0) return "the result is empty";
      return w.rows() > kFewRowsDevice ? "for at most 16 rows" : strided_rows(w);
    });
  op.cuda("dequantized", by_floats);
}

// --- gradients -------------------------------------------------------------------------------------------------------

// Of input, scales and zeros; the weights are integers.
struct WeightGrads {
  Tensor input, scales, zeros;
};
WeightGrads weight_grads(const Tensor& g, const Tensor& x, const Tensor& weight, const Tensor& scales,
                         const Tensor& zeros, int bits, bool needs_input, bool needs_scales, bool needs_zeros) {
  WeightGrads out;
  if (needs_input) out.input = mm(g, dequantized(weight, scales, zeros, bits, g.dtype()));
  if (!needs_scales && !needs_zeros) return out;
  const int64_t groups = scales.dim() == 2 ? scales.size(1) : 1;
  const Tensor of_weight = mm(t(g), x);
  const auto summed = [&](const Tensor& values) {
    return reshape(sum(in_groups(values, groups), {2}), scales.shape());
  };
  if (needs_scales) out.scales = summed(mul(of_weight, quantized_values(weight, bits, g.dtype())));
  if (needs_zeros) out.zeros = summed(of_weight);
  return out;
}

Tensor with_bias(const Tensor& product, const Tensor& input, int64_t columns, const Tensor& bias) {
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  shape.back() = columns;
  const Tensor out = reshape(product, shape);
  return bias ? add(out, bias) : out;
}
Tensor as_matrix(const char* op, const Tensor& input) {
  STRATA_CHECK(input.dim() >= 1, Runtime, "{}: input must have at least 1 dimension", op);
  return reshape(input, {checked_numel(input.shape().first(input.shape().size() - 1)), input.size(-1)});
}
}  // namespace

STRATA_OP(_weight_int8pack_mm, "_weight_int8pack_mm(Tensor input, Tensor mat2, Tensor scales) -> Tensor")
  .doc(
    "input[m, k] times the transpose of an int8 matrix mat2[n, k] with scales: one for each row, [n], or for each "
    "group "
    "of neighbours in a row, [n, groups]. Sums are in float.")
  .no_method()
  .dtypes(kFloatingTypes)
  .infer([](const args::_weight_int8pack_mm& c) {
    check_weights("_weight_int8pack_mm", c.input(), c.mat2(), c.scales(), nullptr, 8);
    set_result(c, c.input(), c.mat2());
  })
  .saves({"input", "mat2", "scales"})
  .grad([](const grads::_weight_int8pack_mm& c, const Tensor& g) -> Grads {
    const WeightGrads all =
      weight_grads(g, c.input(), c.mat2(), c.scales(), {}, 8, c.needs_input(), c.needs_scales(), false);
    grads::_weight_int8pack_mm::Result out;
    out.input = all.input;
    out.scales = all.scales;
    return out;
  })
  .with(add_weight_kernels<int8_product>)
  .samples({"f(3,8), q8(5,8), f(5)", "f(3,8), q8(5,8), f(5,2)", "f(1,64), q8(7,64), f(7,2)", "f(40,6), q8(3,6), f(3)",
            "f(0,4), q8(3,4), f(3)", "f(2,0), q8(3,0), f(3)", "f(2,4), q8(0,4), f(0)"})
  .error("f(3,8), q8(5,7), f(5)", ErrorKind::Runtime, "has 7 per row")
  .error("f(3,8), q4(5,8), f(5)", ErrorKind::Runtime, "the weight must be int8")
  .error("f(3,8), q8(5,8), f(4)", ErrorKind::Runtime, "scales must have shape [5]")
  .error("f(3,8), q8(5,8), f(5,3)", ErrorKind::Runtime, "must divide the 8 weights")
  .error("f(8), q8(5,8), f(5)", ErrorKind::Runtime, "expected two matrices");

STRATA_OP(_weight_int4_mm, "_weight_int4_mm(Tensor input, Tensor weight, Tensor scales, Tensor? zeros=None) -> Tensor")
  .doc(
    "input[m, k] times the transpose of a matrix of four-bit weights, packed by pack_int4: (q - 8) * scales + zeros "
    "for "
    "each row, [n], or each group of neighbours in a row, [n, groups].")
  .no_method()
  .dtypes(kFloatingTypes)
  .infer([](const args::_weight_int4_mm& c) {
    check_weights("_weight_int4_mm", c.input(), c.weight(), c.scales(), c.zeros(), 4);
    set_result(c, c.input(), c.weight());
  })
  .saves({"input", "weight", "scales", "zeros"})
  .grad([](const grads::_weight_int4_mm& c, const Tensor& g) -> Grads {
    const WeightGrads all = weight_grads(g, c.input(), c.weight(), c.scales(), c.zeros(), 4, c.needs_input(),
                                         c.needs_scales(), c.needs_zeros());
    grads::_weight_int4_mm::Result out;
    out.input = all.input;
    out.scales = all.scales;
    out.zeros = all.zeros;
    return out;
  })
  .with(add_weight_kernels<int4_product>)
  .samples({"f(3,8), q4(5,4), f(5)", "f(3,8), q4(5,4), f(5,2), f(5,2)", "f(1,64), q4(7,32), f(7,2), f(7,2)",
            "f(40,6), q4(3,3), f(3,2)", "f(0,4), q4(3,2), f(3)", "f(2,0), q4(3,0), f(3)", "f(2,4), q4(0,2), f(0)"})
  .error("f(3,8), q4(5,8), f(5)", ErrorKind::Runtime, "has 16 per row")
  .error("f(3,8), q8(5,4), f(5)", ErrorKind::Runtime, "the weight must be uint8")
  .error("f(3,8), q4(5,4), f(5,2), f(5)", ErrorKind::Runtime, "zeros must have the shape of scales");

STRATA_OP(pack_int4, "pack_int4(Tensor input) -> Tensor")
  .doc("Integers from 0 to 15, two in a byte of uint8: the element with the even index is in the upper four bits.")
  .no_method()
  .dtypes(kIntegerTypes)
  .composite([](const Tensor& input) {
    STRATA_CHECK(is_integral(input.dtype()) && input.dtype() != DType::Bool, Runtime,
                 "pack_int4: expected integers, got {}", name_of(input.dtype()));
    STRATA_CHECK(input.dim() >= 1 && input.size(-1) % 2 == 0, Runtime,
                 "pack_int4: the last dimension must have an even size, got shape {}", to_string(input.shape()));
    if (!input.is_meta() && input.numel() > 0) {
      const int64_t least = to(amin(input), DType::I64).item<int64_t>(),
                    most = to(amax(input), DType::I64).item<int64_t>();
      STRATA_CHECK(least >= 0 && most <= 15, Value, "pack_int4: values must be from 0 to 15, found {} to {}", least,
                   most);
    }
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
    shape.back() /= 2;
    shape.push_back(2);
    const Tensor pairs = reshape(to(input, DType::U8), shape);
    return add(mul(select(pairs, -1, 0), 16), select(pairs, -1, 1));
  })
  .samples({"i16(3,4)", "i16(0,2)", "i16(2,3,6)"})
  .error("i16(3,3)", ErrorKind::Runtime, "even size")
  .error("i40(8,8)", ErrorKind::Value, "from 0 to 15");

STRATA_OP(unpack_int4, "unpack_int4(Tensor input) -> Tensor")
  .doc("The integers from 0 to 15 that pack_int4 has packed, in uint8.")
  .no_method()
  .dtypes({DType::U8})
  .composite([](const Tensor& input) {
    STRATA_CHECK(input.dtype() == DType::U8 && input.dim() >= 1, Runtime,
                 "unpack_int4: expected uint8 with one dimension or more, got {} of shape {}", name_of(input.dtype()),
                 to_string(input.shape()));
    std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
    shape.back() *= 2;
    const Tensor pairs = stack({bitwise_right_shift(input, 4), bitwise_and(input, 15)}, -1);
    return reshape(pairs, shape);
  })
  .samples({"q4(3,4)", "q4(0,2)", "q4(5)"})
  .error("q8(3,4)", ErrorKind::Runtime, "expected uint8");

STRATA_OP(quantize_int8, "quantize_int8(Tensor weight, int group_size=0) -> (Tensor, Tensor)")
  .doc(
    "Rounds a matrix to int8, with scales: (q, scales) for nn.functional.linear_int8. One scale for each row, or for "
    "each "
    "group_size neighbours in a row.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& weight, int64_t group_size) {
    STRATA_CHECK(weight.dim() == 2 && is_floating(weight.dtype()), Runtime,
                 "quantize_int8: expected a matrix of floating-point numbers, got {} of shape {}",
                 name_of(weight.dtype()), to_string(weight.shape()));
    const int64_t k = weight.size(1), size = group_size ? group_size : std::max<int64_t>(1, k);
    STRATA_CHECK(size > 0 && k % size == 0, Runtime, "quantize_int8: group_size {} does not divide the {} columns",
                 size, k);
    const int64_t groups = k / size;
    if (groups == 0) return std::tuple{to(weight, DType::I8), ones({weight.size(0)}, weight.dtype())};
    const Tensor w = in_groups(to(detach(weight), DType::F32), groups);
    const Tensor scales = to(clamp(div(amax(abs(w), {2}, true), 127), 1e-12), weight.dtype());
    const Tensor q = clamp(round(div(w, to(scales, DType::F32))), -127, 127);
    const Tensor flat = reshape(q, {weight.size(0), k});
    return std::tuple{to(flat, DType::I8), group_size ? squeeze(scales, 2) : reshape(scales, {weight.size(0)})};
  })
  .samples({"f(3,8)", "f(3,8), 4", "f(0,4)", "f(2,0)"})
  .error("f(3,8), 3", ErrorKind::Runtime, "does not divide")
  .error("f(8)", ErrorKind::Runtime, "expected a matrix");

STRATA_OP(quantize_int4, "quantize_int4(Tensor weight, int group_size=128) -> (Tensor, Tensor, Tensor)")
  .doc(
    "Rounds a matrix to four bits, with a scale and a zero for each group_size neighbours in a row: (packed, scales, "
    "zeros) "
    "for nn.functional.linear_int4.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& weight, int64_t group_size) {
    STRATA_CHECK(weight.dim() == 2 && is_floating(weight.dtype()), Runtime,
                 "quantize_int4: expected a matrix of floating-point numbers, got {} of shape {}",
                 name_of(weight.dtype()), to_string(weight.shape()));
    const int64_t n = weight.size(0), k = weight.size(1);
    STRATA_CHECK(group_size > 0 && k > 0 && k % group_size == 0 && k % 2 == 0, Runtime,
                 "quantize_int4: group_size {} must divide the {} columns, of which there must be an even number",
                 group_size, k);
    const Tensor w = in_groups(to(detach(weight), DType::F32), k / group_size);
    const Tensor least = amin(w, {2}, true), most = amax(w, {2}, true);
    const Tensor scales = to(clamp(div(sub(most, least), 15), 1e-12), weight.dtype());
    const Tensor wide = to(scales, DType::F32), zeros = to(add(least, mul(wide, 8)), weight.dtype());
    const Tensor q = clamp(add(round(div(sub(w, to(zeros, DType::F32)), wide)), 8), 0, 15);
    return std::tuple{pack_int4(to(reshape(q, {n, k}), DType::U8)), squeeze(scales, 2), squeeze(zeros, 2)};
  })
  .samples({"f(3,8), 4", "f(2,256)"})
  .error("f(3,8)", ErrorKind::Runtime, "must divide the 8 columns")
  .error("f(8), 4", ErrorKind::Runtime, "expected a matrix");

STRATA_OP(linear_int8,
          "nn.functional.linear_int8(Tensor input, Tensor weight, Tensor scales, Tensor? bias=None) -> Tensor")
  .doc("linear() with an int8 weight [out_features, in_features] and its scales; see quantize_int8.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& scales, const Tensor& bias) {
    const Tensor product = _weight_int8pack_mm(as_matrix("linear_int8", input), weight, scales);
    return with_bias(product, input, weight.size(0), bias);
  })
  .samples({"f(2,3,8), q8(5,8), f(5)", "f(8), q8(5,8), f(5,2), f(5)", "f(0,8), q8(5,8), f(5), f(5)"})
  .error("f(3,8), q8(5,6), f(5)", ErrorKind::Runtime, "has 6 per row");

STRATA_OP(
  linear_int4,
  "nn.functional.linear_int4(Tensor input, Tensor weight, Tensor scales, Tensor? zeros=None, Tensor? bias=None) -> "
  "Tensor")
  .doc(
    "linear() with a weight of four bits, packed in uint8 [out_features, in_features / 2], and its scales and zeros; "
    "see quantize_int4.")
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& weight, const Tensor& scales, const Tensor& zeros,
                const Tensor& bias) {
    const Tensor product = _weight_int4_mm(as_matrix("linear_int4", input), weight, scales, zeros);
    return with_bias(product, input, weight.size(0), bias);
  })
  .samples({"f(2,3,8), q4(5,4), f(5)", "f(8), q4(5,4), f(5,2), f(5,2), f(5)", "f(0,8), q4(5,4), f(5), None, f(5)"})
  .error("f(3,8), q4(5,3), f(5)", ErrorKind::Runtime, "has 6 per row");

STRATA_OP(_convert_weight_to_int4pack, "_convert_weight_to_int4pack(Tensor input, int innerKTiles) -> Tensor")
  .doc("The weights of pack_int4 in the shape that _weight_int4pack_mm takes. The order of the bytes stays the same.")
  .no_method()
  .dtypes({DType::U8})
  .composite([](const Tensor& input, int64_t innerKTiles) {
    STRATA_CHECK(input.dim() == 2 && input.dtype() == DType::U8, Runtime,
                 "_convert_weight_to_int4pack: expected a uint8 matrix [n, k / 2], got {} of shape {}",
                 name_of(input.dtype()), to_string(input.shape()));
    STRATA_CHECK(innerKTiles == 2 || innerKTiles == 4 || innerKTiles == 8, Runtime,
                 "_convert_weight_to_int4pack: innerKTiles must be 2, 4 or 8, got {}", innerKTiles);
    const int64_t n = input.size(0), k = input.size(1) * 2;
    STRATA_CHECK(n % 8 == 0 && k % (16 * innerKTiles) == 0, Runtime,
                 "_convert_weight_to_int4pack: n must be a multiple of 8 and k of {}, got {} and {}", 16 * innerKTiles,
                 n, k);
    const Tensor words = view(clone(contiguous(input)), DType::I32);
    return reshape(words, {n / 8, k / (16 * innerKTiles), 32, innerKTiles / 2});
  })
  .samples({"q4(8,16), 2", "q4(16,64), 8"})
  .error("q4(7,16), 2", ErrorKind::Runtime, "n must be a multiple of 8")
  .error("q4(8,16), 3", ErrorKind::Runtime, "innerKTiles must be 2, 4 or 8");

STRATA_OP(_weight_int4pack_mm,
          "_weight_int4pack_mm(Tensor input, Tensor mat2, int qGroupSize, Tensor qScaleAndZeros) -> Tensor")
  .doc(
    "input[m, k] times the transpose of weights of _convert_weight_to_int4pack, (q - 8) * scale + zero, where "
    "qScaleAndZeros[k / qGroupSize, n, 2] has both.")
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input, const Tensor& mat2, int64_t qGroupSize, const Tensor& qScaleAndZeros) {
    STRATA_CHECK(mat2.dim() == 4 && mat2.dtype() == DType::I32 && mat2.size(2) == 32, Runtime,
                 "_weight_int4pack_mm: mat2 must come from _convert_weight_to_int4pack, got {} of shape {}",
                 name_of(mat2.dtype()), to_string(mat2.shape()));
    const int64_t n = mat2.size(0) * 8, k = mat2.size(1) * mat2.size(3) * 32;
    STRATA_CHECK(qGroupSize == 32 || qGroupSize == 64 || qGroupSize == 128 || qGroupSize == 256, Runtime,
                 "_weight_int4pack_mm: qGroupSize must be 32, 64, 128 or 256, got {}", qGroupSize);
    const Tensor& both = qScaleAndZeros;
    STRATA_CHECK(both.dim() == 3 && k % qGroupSize == 0 && both.size(0) == k / qGroupSize && both.size(1) == n &&
                   both.size(2) == 2,
                 Runtime, "_weight_int4pack_mm: qScaleAndZeros must have shape [{}, {}, 2], got {}", k / qGroupSize, n,
                 to_string(both.shape()));
    const Tensor weight = reshape(view(contiguous(mat2), DType::U8), {n, k / 2});
    return _weight_int4_mm(input, weight, t(select(both, 2, 0)), t(select(both, 2, 1)));
  })
  .samples({"f(3,64), q32(1,2,32,1), 32, f(2,8,2)"})
  .error("f(3,8), i5(1,1,32,1), 64, f(1,8,2)", ErrorKind::Runtime, "must come from _convert_weight_to_int4pack");

}  // namespace strata
