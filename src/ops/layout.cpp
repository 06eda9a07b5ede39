#include "ops/layout.h"

#include "base/checked.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace strata {
namespace {

// Dimensions from the slowest to the fastest of a channels-last layout.
void channels_last_strides(TensorImpl& t) {
  int64_t n = 1;
  const auto place = [&](int d) {
    t.strides[d] = n;
    n *= std::max<int64_t>(t.shape[d], 1);
  };
  place(1);
  for (int d = t.ndim; d-- > 2;) place(d);
  place(0);
  t.update_contiguous();
}

int channels_last_dims(std::string_view format, const char* op) {
  if (format == "contiguous_format") return 0;
  if (format == "channels_last") return 4;
  if (format == "channels_last_3d") return 5;
  fail(
    ErrorKind::Value,
    fmt::format(
      "{}: unknown memory format '{}'; expected contiguous_format, preserve_format, channels_last or channels_last_3d",
      op, format));
}
}  // namespace

void set_layout(TensorImpl& out, std::optional<std::string_view> format, const TensorImpl* like, const char* op) {
  if (!format || *format == "preserve_format") {
    return like ? out.set_strides_like(*like) : out.set_contiguous_strides();
  }
  const int dims = channels_last_dims(*format, op);
  if (dims == 0) return out.set_contiguous_strides();
  STRATA_CHECK(out.ndim == dims, Runtime, "{}: required rank {} tensor to use {} format, the shape is {}", op, dims,
               *format, to_string(out.sizes()));
  checked_numel(out.sizes());
  channels_last_strides(out);
}

bool has_layout(const TensorImpl& t, std::string_view format, const char* op) {
  const int dims = channels_last_dims(format, op);
  if (dims == 0) return t.contiguous;
  if (t.ndim != dims) return false;
  const Tensor other = shape_only(t);
  channels_last_strides(*other);
  for (int d = 0; d < t.ndim; ++d)
    if (t.shape[d] != 1 && t.strides[d] != other->strides[d]) return false;
  // One channel fits both orders. The stride of that dimension tells which one is meant, and convolutions follow it.
  return t.shape[1] != 1 || t.strides[1] == 1 || t.numel == t.shape[0];
}

Tensor begin_view(const TensorImpl& t, int64_t offset) {
  Tensor out = alias(t);
  if (out->storage) out->data += offset * static_cast<int64_t>(size_of(t.dtype));
  return out;
}

bool view_strides(const TensorImpl& t, Shape shape, int64_t* strides) {
  if (t.numel == 0) {
    int64_t n = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      strides[d] = n;
      if (d > 0) n = (Checked(n) * std::max<int64_t>(shape[d], 1)).get();  // sizes next to a 0 may be arbitrarily large
    }
    return true;
  }
  // From the last dimension: runs of old dimensions that are contiguous are split into new ones.
  int64_t d = static_cast<int64_t>(shape.size()) - 1, stride = t.ndim ? t.strides[t.ndim - 1] : 1, old = 1, made = 1;
  for (int k = t.ndim; k-- > 0;) {
    old *= t.shape[k];
    if (k == 0 || (t.shape[k - 1] != 1 && t.strides[k - 1] != old * stride)) {
      while (d >= 0 && (made < old || shape[static_cast<size_t>(d)] == 1)) {
        strides[d] = made * stride;
        made *= shape[static_cast<size_t>(d)];
        --d;
      }
      if (made != old) return false;
      if (k > 0) {
        stride = t.strides[k - 1];
        old = made = 1;
      }
    }
  }
  for (; d >= 0; --d) strides[d] = stride;  // of a zero-dimensional tensor
  return true;
}

Dims::Dims(Shape s) {
  for (int64_t v : s) push(v);
}
void Dims::push(int64_t v) {
  STRATA_CHECK(n < kMaxDims, Runtime, "a tensor has at most {} dimensions", kMaxDims);
  at[n++] = v;
}

Dims infer_size(Shape shape, int64_t numel, const char* op) {
  Dims out(shape);
  int hole = -1;
  int64_t known = 1;
  bool overflow = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      STRATA_CHECK(hole < 0, Runtime, "{}: only one dimension can be inferred, got shape {}", op, to_string(shape));
      hole = static_cast<int>(d);
    } else {
      STRATA_CHECK(shape[d] >= 0, Runtime, "{}: invalid shape dimension {} at index {} of shape {}", op, shape[d], d,
                   to_string(shape));
      overflow |= __builtin_mul_overflow(known, shape[d], &known);
    }
  }
  const bool fits = !overflow && (hole < 0 ? known == numel : known != 0 ? numel % known == 0 : numel == 0);
  STRATA_CHECK(fits || std::find(shape.begin(), shape.end(), 0) != shape.end(), Runtime,
               "{}: shape '{}' is invalid for input of size {}", op, to_string(shape), numel);
  STRATA_CHECK(fits, Runtime, "{}: shape '{}' is invalid for input of size {}", op, to_string(shape), numel);
  if (hole >= 0) {
    STRATA_CHECK(known != 0, Runtime,
                 "{}: cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can "
                 "be any value and is ambiguous",
                 op, to_string(shape));
    out[static_cast<size_t>(hole)] = numel / known;
  }
  return out;
}

Dims broadcast_shapes(Shape a, Shape b, const char* op) {
  const size_t n = std::max(a.size(), b.size());
  Dims out;
  for (size_t d = 0; d < n; ++d) {
    const int64_t x = d + a.size() >= n ? a[d + a.size() - n] : 1, y = d + b.size() >= n ? b[d + b.size() - n] : 1;
    STRATA_CHECK(x == y || x == 1 || y == 1, Runtime,
                 "{}: shapes {} and {} cannot be broadcast together: sizes {} and {} at dimension {}", op, to_string(a),
                 to_string(b), x, y, d);
    out.push(x == 1 ? y : x);
  }
  return out;
}

void set_options(const Call& c, DType dtype, const Value& device, const Value& requires_grad) {
  TensorImpl& out = *c.outs[0];
  out.dtype = dtype;
  if (device) { out.device = require_available(device.device()); }
  if (requires_grad.boolean()) c.outs[0].set_requires_grad();
}

}  // namespace strata
