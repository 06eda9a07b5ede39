// Complex numbers: their parts, conjugates, moduli and angles. Most functions also accept real tensors, for which they are
// trivial.
#include "strata/args/pointwise/complex.h"
#include "device/functors/arithmetic.h"
#include "device/functors/complex.h"
#include "device/functors/unary_math.h"
#include "ops/complex_parts.h"
#include "ops/pointwise/pointwise.h"

namespace strata {
namespace {

constexpr DTypeSet kRealAndComplex = kAllTypes | kComplexTypes;

void need_complex(const Tensor& t, const char* op) {
  STRATA_CHECK(is_complex(t.dtype()), Type, "{} is not implemented for tensors with non-complex dtypes, got {}", op,
               name_of(t.dtype()));
}
// The shape and dtype rule of complex() and polar(): two real tensors of one dtype.
void infer_from_parts(const Call& c) {
  const TensorImpl &a = c.args.tensor(0), &b = c.args.tensor(1);
  for (const TensorImpl* t : {&a, &b})
    STRATA_CHECK(t->dtype == DType::F32 || t->dtype == DType::F64, Runtime,
                 "{}: expected both inputs to be float32 or float64 tensors, but got {} and {}", c.op.name,
                 name_of(a.dtype), name_of(b.dtype));
  STRATA_CHECK(a.dtype == b.dtype, Runtime, "{}: expected inputs of the same dtype, but got {} and {}", c.op.name,
               name_of(a.dtype), name_of(b.dtype));
  infer_pointwise(c);
  c.out()->dtype = complex_type(a.dtype);
}
}  // namespace

STRATA_OP(conj_physical, "conj_physical(Tensor input) -> Tensor")
  .doc("The conjugate of each element, as a new tensor.")
  .pointwise<fn::Copy>()
  .grad([](G, const Tensor& g) -> Grads { return {conjugated(g)}; })
  .inplace()
  .complex<fn::ComplexConj>()
  .samples({"f(3,4)", "f()", "f(0,2)"});

STRATA_OP(conj, "conj(Tensor(a) input) -> Tensor(a)")
  .doc(
    "The conjugate of each element; a real tensor itself. The result of a complex tensor is a new one: there is no "
    "lazy "
    "conjugation.\n\n>>> strata.conj(strata.tensor([1 + 2j]))\ntensor([1.-2.j])")
  .no_out()
  .dtypes(kRealAndComplex)
  .composite([](const Tensor& input) { return is_complex(input.dtype()) ? conj_physical(input) : input; })
  .samples({"f(3)", "i5(3)"});

STRATA_OP(resolve_conj, "resolve_conj(Tensor(a) input) -> Tensor(a)")
  .doc("The tensor itself: conj() computes its result at once.")
  .alias("resolve_neg")
  .no_out()
  .dtypes(kStorageTypes)
  .composite([](const Tensor& input) { return input; })
  .samples({"f(3)", "i5(3)"});

STRATA_OP(part, "_part(Tensor(a) input, bool imaginary) -> Tensor(a)")
  .doc("A view of the real or the imaginary parts of a complex tensor.")
  .view([](const Tensor& input, bool imaginary) {
    need_complex(input, "_part");
    return part_of(*input, imaginary);
  })
  .grad([](const grads::part& c, const Tensor& g) -> Grads {
    return {c.imaginary() ? complex(zeros_like(g), g) : g};  // the engine makes g complex
  })
  .dtypes(kComplexTypes)
  .helper()
  .samples({"f(3,4), False", "f(3,4), True", "f(), True"});

STRATA_OP(real, "real(Tensor(a) input) -> Tensor(a)")
  .doc("A view of the real parts; a real tensor itself.\n\n>>> strata.real(strata.tensor([1 + 2j]))\ntensor([1.])")
  .no_method()
  .no_out()
  .dtypes(kStorageTypes)
  .composite([](const Tensor& input) { return is_complex(input.dtype()) ? _part(input, false) : input; })
  .samples({"f(3)", "i5(3)"});

STRATA_OP(imag, "imag(Tensor(a) input) -> Tensor(a)")
  .doc("A view of the imaginary parts of a complex tensor.\n\n>>> strata.imag(strata.tensor([1 + 2j]))\ntensor([2.])")
  .no_method()
  .no_out()
  .dtypes(kComplexTypes)
  .composite([](const Tensor& input) {
    need_complex(input, "imag");
    return _part(input, true);
  })
  .samples({"f(3)"})
  .error("i5(3)", ErrorKind::Type, "non-complex");

STRATA_OP(view_as_real, "view_as_real(Tensor(a) input) -> Tensor(a)")
  .doc(
    "A view of a complex tensor with a last dimension for the two parts.\n\n>>> "
    "strata.view_as_real(strata.tensor([1 + 2j]))\ntensor([[1., 2.]])")
  .view([](const Tensor& input) {
    need_complex(input, "view_as_real");
    STRATA_CHECK(input.dim() < kMaxDims, Runtime, "view_as_real: a tensor of {} dimensions has no room for another",
                 input.dim());
    Tensor out = part_of(*input, 0);
    out->set_ndim(input.dim() + 1);
    out->shape[input.dim()] = 2;
    out->strides[input.dim()] = 1;
    out->update_contiguous();
    return out;
  })
  .grad([](const grads::view_as_real&, const Tensor& g) -> Grads { return {view_as_complex(contiguous(g))}; })
  .no_method()
  .dtypes(kComplexTypes)
  .samples({"f(3,4)", "f()", "f(0,2)"})
  .error("i5(3)", ErrorKind::Type, "non-complex");

STRATA_OP(view_as_complex, "view_as_complex(Tensor(a) input) -> Tensor(a)")
  .doc(
    "A view of a real tensor whose last dimension holds real and imaginary parts.\n\n>>> "
    "strata.view_as_complex(strata.tensor([[1., 2.]]))\ntensor([1.+2.j])")
  .view([](const Tensor& input) {
    const TensorImpl& x = *input;
    STRATA_CHECK(x.dtype == DType::F32 || x.dtype == DType::F64, Runtime,
                 "view_as_complex: expected a float32 or float64 tensor, got {}", name_of(x.dtype));
    STRATA_CHECK(x.ndim > 0 && x.shape[x.ndim - 1] == 2, Runtime,
                 "view_as_complex: Tensor must have a last dimension of size 2, got shape {}", to_string(x.sizes()));
    STRATA_CHECK(x.strides[x.ndim - 1] == 1, Runtime,
                 "view_as_complex: Tensor must have a last dimension with stride 1, got {}", x.strides[x.ndim - 1]);
    bool even = x.storage_offset() % 2 == 0;
    for (int d = 0; d + 1 < x.ndim; ++d) even &= x.strides[d] % 2 == 0 || x.shape[d] <= 1;
    STRATA_CHECK(even, Runtime,
                 "view_as_complex: Tensor must have a storage_offset and strides divisible by 2, got offset {} and "
                 "strides {}; use contiguous()",
                 x.storage_offset(), to_string(input.strides()));
    Tensor out = alias(x);
    out->dtype = complex_type(x.dtype);
    --out->ndim;
    for (int d = 0; d < out->ndim; ++d) out->strides[d] /= 2;
    out->update_contiguous();
    return out;
  })
  .grad([](const grads::view_as_complex&, const Tensor& g) -> Grads { return {view_as_real(g)}; })
  .no_method()
  .dtypes({DType::F32, DType::F64})
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4,2)", "f(2)", "f(0,2)"})
  .error("f(3)", ErrorKind::Runtime, "last dimension of size 2");

STRATA_OP(complex, "complex(Tensor real, Tensor imag) -> Tensor")
  .doc(
    "Complex numbers from their parts, two float32 or float64 tensors.\n\n>>> strata.complex(strata.ones(1), "
    "strata.zeros(1))\ntensor([1.+0.j])")
  .pointwise<fn::Atan2>()
  .dtypes({DType::F32, DType::F64})
  .with([](OpRecord& op) { op.numbers = false; })
  .infer(infer_from_parts)
  .grad([](const grads::complex&, const Tensor& g) -> Grads {
    return {real(g), imag(g)};
  })
  .no_method()
  .complex_from_real<fn::ComplexFromParts>()
  .samples({"f(3,4), f(3,4)", "f(3,1), f(4)", "f(), f()", "f(0,2), f(2)"})
  .error("i5(3), i5(3)", ErrorKind::Runtime, "float32 or float64");

STRATA_OP(polar, "polar(Tensor abs, Tensor angle) -> Tensor")
  .doc("Complex numbers from their moduli and angles, two float32 or float64 tensors.")
  .pointwise<fn::Atan2>()
  .dtypes({DType::F32, DType::F64})
  .with([](OpRecord& op) { op.numbers = false; })
  .infer(infer_from_parts)
  .saves({"angle"})
  .saves_result()
  .grad([](const grads::polar& c, const Tensor& g) -> Grads {
    const Tensor angle = c.angle();
    return {c.needs_abs() ? real(mul(g, conj(complex(cos(angle), sin(angle))))) : Tensor(),
            c.needs_angle() ? real(mul(g, conj(times_i(c.result())))) : Tensor()};
  })
  .no_method()
  .complex_from_real<fn::ComplexFromPolar>()
  .autocast_cpu(Autocast::Float32)
  .samples({"f(3,4), f(3,4)", "f(3,1), f(4)"})
  .error("i5(3), i5(3)", ErrorKind::Runtime, "float32 or float64");

STRATA_OP(angle, "angle(Tensor input) -> Tensor")
  .doc("The angle of each complex number, from -pi to pi; of real ones 0, pi if they are negative, NaN for NaN.")
  .pointwise<fn::Angle>()
  .saves({"input"})
  .grad([](const grads::angle& c, const Tensor& g) -> Grads {
    const Tensor z = c.input();
    if (!is_complex(z.dtype())) return {no_slope(g)};
    const Tensor r = square(abs(z)), none = eq(r, 0);
    return {masked_fill(mul(times_i(z), div(g, masked_fill(r, none, 1))), none, 0)};
  })
  .complex<fn::ComplexAngle>()
  .samples({"f(3,4)", "i5(3)"});

STRATA_OP(isreal, "isreal(Tensor input) -> Tensor")
  .doc("Whether the imaginary part of an element is 0; true for real numbers.")
  .no_out()
  .dtypes(kRealAndComplex)
  .composite([](const Tensor& input) {
    return is_complex(input.dtype()) ? eq(_part(input, true), 0) : ones_like(input, DType::Bool);
  })
  .samples({"f(3)"});

}  // namespace strata
