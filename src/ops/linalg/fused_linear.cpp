// Linear layers with what follows them in an inference graph: of floats with a residual and an activation, and of bytes with the
// conversions besides.
#include "cpu/linalg/fused_linear.h"
#include "autograd/autograd.h"
#include "cpu/movement/copy.h"
#include "ops/nn/epilogue.h"
#include "strata/args/linalg/fused_linear.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr const char *kFloats = "_fused_linear", *kBytes = "_int8_linear";

// --- floats ------------------------------------------------------------------------------------------------------------
struct FusedLinear {
  const args::fused_linear a;
  Epilogue epilogue;
  explicit FusedLinear(const Call& c)
      : a(c), epilogue(epilogue_of(kFloats, a.activation(), a.numbers(), a.add_last())) {}
  // Whether the kernel does all of it; if not, it does what comes before the activation.
  bool fits() const { return !cpu::linear_after_fits(epilogue); }
  cpu::LinearTail tail() const {
    if (fits()) return {epilogue, a.other()};
    return {{}, epilogue.add_last ? nullptr : a.other()};
  }
};

void infer_fused(const Call& c) {
  const FusedLinear f(c);
  STRATA_CHECK(f.a.weight().ndim == 2, Runtime,
               "{}: weight must have 2 dimensions [out_features, in_features], got shape {}", kFloats,
               to_string(f.a.weight().sizes()));
  op_linear.record.infer_fn(Call{op_linear, c.args, c.outs});  // its parameters are the first three
  check_other(kFloats, f.a.other(), *c.out(), false);
}
void run_fused_in_turn(const Call& c) {
  const FusedLinear f(c);
  const autograd::NoGrad no_grad;
  const Tensor sum = nn::functional::linear(f.a.share_input(), f.a.share_weight(), f.a.share_bias());
  Tensor out = alias(*c.outs[0]);
  out->keep_version(0);
  copy_(out, after_sum(sum, f.a.share_other(), f.epilogue));
}
void run_fused_reference(const Call& c) {
  const FusedLinear f(c);
  const autograd::NoGrad no_grad;
  const auto wide = [](const TensorImpl* t) { return t ? to(alias(*t), DType::F64) : Tensor(); };
  const Tensor sum = nn::functional::linear(wide(&f.a.input()), wide(&f.a.weight()), wide(f.a.bias()));
  cpu::copy_reference(*c.outs[0], *after_sum(sum, wide(f.a.other()), f.epilogue));
}

// --- bytes -------------------------------------------------------------------------------------------------------------
struct ByteLinear {
  const args::int8_linear a;
  Epilogue epilogue;
  ByteScales scales;
  DType result;
  explicit ByteLinear(const Call& c)
      : a(c),
        epilogue(epilogue_of(kBytes, a.activation(), a.numbers(), a.add_last())),
        scales(byte_scales_of(kBytes, a.scales())),
        result(a.out_dtype().value_or(DType::F32)) {}
  cpu::LinearTail tail() const { return {epilogue, a.other(), &scales, &a.weight_scales()}; }
};

void infer_bytes(const Call& c) {
  const ByteLinear f(c);
  const TensorImpl &x = f.a.input(), &w = f.a.weight();
  check_byte_tensors(kBytes, x, w, f.a.weight_scales(), f.a.bias(), f.result);
  STRATA_CHECK(w.ndim == 2 && x.ndim >= 1, Runtime,
               "{}: expected an input [..., in_features] and a weight [out_features, in_features], got shapes {} and "
               "{}",
               kBytes, to_string(x.sizes()), to_string(w.sizes()));
  STRATA_CHECK(x.shape[x.ndim - 1] == w.shape[1], Runtime,
               "{}: an input of shape {} has {} features, the weight of shape {} takes {}", kBytes,
               to_string(x.sizes()), x.shape[x.ndim - 1], to_string(w.sizes()), w.shape[1]);
  const TensorImpl* bias = f.a.bias();
  STRATA_CHECK(!bias || (bias->ndim == 1 && bias->numel == w.shape[0]), Runtime,
               "{}: bias must have shape [{}], got {}", kBytes, w.shape[0], bias ? to_string(bias->sizes()) : "");
  int64_t shape[kMaxDims];
  std::copy_n(x.shape, x.ndim, shape);
  shape[x.ndim - 1] = w.shape[0];
  c.outs[0]->dtype = f.result;
  c.outs[0]->set_shape(Shape(shape, x.ndim));
  check_other(kBytes, f.a.other(), *c.out(), true);
}

void run_bytes(const Call& c, DType sums) {
  const ByteLinear f(c);
  const autograd::NoGrad no_grad;
  const Tensor x = reshape(f.a.share_input(), {-1, f.a.weight().shape[1]}), w = transpose(f.a.share_weight(), 0, 1);
  const bool bytes = sums == DType::I32 && x.dtype() == DType::I8 && f.scales.input_zero == 0;
  const Tensor product = bytes ? _int_mm(x, w) : mm(sub(to(x, sums), f.scales.input_zero), to(w, sums));
  finish_bytes(reshape(product, c.outs[0].shape()), f.a.share_weight_scales(), f.a.share_bias(), f.a.share_other(),
               c.outs[0].dim() - 1, f.epilogue, f.scales, alias(*c.outs[0]));
}
void run_bytes_in_turn(const Call& c) { run_bytes(c, DType::I32); }
void run_bytes_reference(const Call& c) { run_bytes(c, DType::F64); }
}  // namespace

STRATA_OP(fused_linear,
          "_fused_linear(Tensor input, Tensor weight, Tensor? bias, Tensor? other, str activation, float[] numbers, "
          "bool add_last) -> Tensor")
  .doc(
    "activation(linear(input, weight, bias) + other), or activation(...) + other. For inference: there is no "
    "gradient.")
  .helper()
  .no_out()
  .dtypes(kFloatingTypes)
  .infer(infer_fused)
  .kernel(
    "onednn",
    [](const Call& c) {
      const FusedLinear f(c);
      cpu::linear_onednn(f.a.input(), f.a.weight(), f.a.bias(), *c.out(), f.tail());
      if (f.fits()) return;
      const autograd::NoGrad no_grad;
      Tensor out = alias(*c.outs[0]);
      out->keep_version(0);
      after_sum_(out, f.epilogue.add_last ? f.a.share_other() : Tensor(), f.epilogue);
    },
    [](const Call& c) {
      const FusedLinear f(c);
      return cpu::linear_onednn_ready(f.a.input(), f.a.weight(), f.a.bias(), *c.out(), f.tail());
    })
  .from(Source::OneDnn)
  .kernel("in_turn", run_fused_in_turn)
  .kernel("reference", run_fused_reference)
  .cuda("in_turn", run_fused_in_turn)
  .samples({"f(3,4), f(5,4), f(5), None, 'gelu', [], False", "f(2,3,4), f(5,4), None, f(2,3,5), 'relu', [], False",
            "f(3,4), f(5,4), f(5), f(3,5), 'clamp', [0.0,6.0], True", "f(0,4), f(5,4), f(5), None, 'none', [], False"})
  .error("f(3,4), f(5,3), None, None, 'relu', [], False", ErrorKind::Runtime, "cannot be multiplied")
  .error("f(3,4), f(5,4), None, None, 'clamp', [1.0], False", ErrorKind::Value, "takes 2 numbers");

STRATA_OP(
  int8_linear,
  "_int8_linear(Tensor input, Tensor weight, Tensor weight_scales, Tensor? bias, Tensor? other, str activation, "
  "float[] numbers, bool add_last, float[] scales, dtype? out_dtype) -> Tensor")
  .doc(
    "The same for an input of bytes and an int8 weight with a scale per row: the sums are exact in int32. scales: the "
    "scale and the zero of input, other and result. The result is float32, int8 or uint8.")
  .helper()
  .no_out()
  .dtypes({DType::I8, DType::U8})
  .infer(infer_bytes)
  .kernel(
    "onednn",
    [](const Call& c) {
      const ByteLinear f(c);
      cpu::linear_onednn(f.a.input(), f.a.weight(), f.a.bias(), *c.out(), f.tail());
    },
    [](const Call& c) {
      const ByteLinear f(c);
      return cpu::linear_onednn_ready(f.a.input(), f.a.weight(), f.a.bias(), *c.out(), f.tail());
    })
  .from(Source::OneDnn)
  .kernel("in_turn", run_bytes_in_turn)
  .kernel("reference", run_bytes_reference)
  .cuda("in_turn", run_bytes_in_turn)
  .samples({"f(3,4), q8(5,4), w(5), w(5), None, 'relu', [], False, [0.1, 0, 1, 0, 1, 0], float32",
            "f(2,3,4), q8(5,4), w(1), None, q8(2,3,5), 'none', [], False, [0.1, 3, 0.5, 0, 2, 0], int8"})
  .error("q8(3,4), q8(5,3), w(5), None, None, 'relu', [], False, [0.1, 0, 1, 0, 1, 0], None", ErrorKind::Runtime,
         "has 4 features")
  .error("q8(3,4), q8(5,4), w(5), None, None, 'relu', [], False, [0.0, 0, 1, 0, 1, 0], None", ErrorKind::Value,
         "must be positive");

}  // namespace strata
