// Prints tensors as PyTorch does: aligned columns, summaries of large tensors, scientific notation when it helps.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tensor/package_name.h"
#include "tensor/tensor.h"

namespace strata {

PrintOptions print_options;
std::string package_name = "strata";
std::string (*describe_history)(const TensorImpl&) = nullptr;

namespace {

// An element that is not an integer; the imaginary part of a real one is 0.
Complex<double> value_at(const TensorImpl& t, const std::byte* p) {
  return dispatch_dtype(t.dtype, [&]<class T> { return convert<Complex<double>>(*reinterpret_cast<const T*>(p)); });
}
std::string integer_text(const TensorImpl& t, const std::byte* p) {
  if (t.dtype == DType::Bool) return *reinterpret_cast<const BoolByte*>(p) ? "True" : "False";
  return dispatch_dtype(t.dtype, [&]<class T>() -> std::string {
    if constexpr (std::is_integral_v<T>) return fmt::format("{}", +*reinterpret_cast<const T*>(p));
    else return {};
  });
}

// How floats are written: with the same number of digits, in columns of the same width.
struct FloatFormat {
  bool whole = true, scientific = false;
  size_t width = 1;
  double smallest = HUGE_VAL, largest = 0;  // of the magnitudes that are finite and not 0

  void see(double v) {
    if (!std::isfinite(v) || v == 0) return;
    smallest = std::min(smallest, std::abs(v));
    largest = std::max(largest, std::abs(v));
    if (v != std::ceil(v)) whole = false;
  }
  void choose(const PrintOptions& o) {
    if (largest == 0) return;  // zeros, infinities and NaN are not aligned
    scientific = largest / smallest > 1000 || largest > 1e8 || (!whole && smallest < 1e-4);
    if (o.scientific) scientific = *o.scientific;
  }
  void widen(double v, const PrintOptions& o) {
    if (std::isfinite(v) && v != 0) width = std::max(width, number(v, o).size());
  }
  std::string number(double v, const PrintOptions& o) const {
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
    if (scientific) return fmt::format("{:.{}e}", v, o.precision);
    if (whole) return fmt::format("{:.0f}.", v);
    return fmt::format("{:.{}f}", v, o.precision);
  }
};

std::string right_aligned(const std::string& s, size_t width) {
  return std::string(width > s.size() ? width - s.size() : 0, ' ') + s;
}

class Printer {
 public:
  Printer(const TensorImpl& t, const PrintOptions& o) : t_(t), o_(o), summarize_(t.numel > o.threshold) { measure(); }

  std::string body(int64_t indent) const { return hides_all() && t_.ndim > 0 ? "[...]" : level(0, t_.data, indent); }
  // A summary without edge items shows no elements; the caller then prints the shape.
  bool hides_all() const { return summarize_ && o_.edge_items <= 0; }

 private:
  // Calls f(pointer) for every element that will be shown.
  template <class F> void each(int d, const std::byte* at, const F& f) const {
    if (d == t_.ndim) return f(at);
    const int64_t n = t_.shape[d], edge = o_.edge_items;
    for (int64_t i = 0; i < n; ++i) {
      if (summarize_ && n > 2 * edge && i == edge) i = n - edge;
      each(d + 1, at + i * step(d), f);
    }
  }
  int64_t step(int d) const { return t_.strides[d] * static_cast<int64_t>(size_of(t_.dtype)); }

  void measure() {
    if (hides_all() && t_.ndim > 0) return;
    if (is_integral(t_.dtype)) {
      each(0, t_.data, [&](const std::byte* p) { width_ = std::max<size_t>(width_, integer_text(t_, p).size()); });
      return;
    }
    each(0, t_.data, [&](const std::byte* p) {
      const Complex<double> v = value_at(t_, p);
      re_.see(v.re);
      im_.see(v.im);
    });
    re_.choose(o_);
    im_.choose(o_);
    each(0, t_.data, [&](const std::byte* p) {
      const Complex<double> v = value_at(t_, p);
      re_.widen(v.re, o_);
      im_.widen(v.im, o_);
    });
    width_ = is_complex(t_.dtype) ? re_.width + im_.width + 1 : re_.width;
  }

  std::string cell(const std::byte* p) const {
    if (is_integral(t_.dtype)) return right_aligned(integer_text(t_, p), width_);
    const Complex<double> v = value_at(t_, p);
    const std::string re = right_aligned(re_.number(v.re, o_), re_.width);
    if (!is_complex(t_.dtype)) return re;
    const std::string im = im_.number(v.im, o_);
    return re + (im[0] == '-' ? "" : "+") + im + "j";
  }

  std::string level(int d, const std::byte* at, int64_t indent) const {
    if (d == t_.ndim) return cell(at);
    const int64_t n = t_.shape[d], edge = o_.edge_items;
    const bool cut = summarize_ && n > 2 * edge, last = d == t_.ndim - 1;
    std::vector<std::string> parts;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == edge) {
        parts.emplace_back(last ? " ..." : "...");
        i = n - edge;
      }
      parts.push_back(level(d + 1, at + i * step(d), indent + 1));
    }
    const std::string break_line = ",\n" + std::string(static_cast<size_t>(indent + 1), ' ');
    std::string s = "[";
    if (!last) {
      const std::string gap = "," + std::string(static_cast<size_t>(t_.ndim - d - 1), '\n') +
                              std::string(static_cast<size_t>(indent + 1), ' ');
      for (size_t i = 0; i < parts.size(); ++i) s += (i ? gap : "") + parts[i];
      return s + "]";
    }
    const size_t per_line =
      static_cast<size_t>(std::max<int64_t>(1, (o_.line_width - indent) / static_cast<int64_t>(width_ + 2)));
    for (size_t i = 0; i < parts.size(); ++i) s += (i == 0 ? "" : i % per_line == 0 ? break_line : ", ") + parts[i];
    return s + "]";
  }

  const TensorImpl& t_;
  const PrintOptions& o_;
  bool summarize_;
  size_t width_ = 1;  // of an element
  FloatFormat re_, im_;
};
}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  return t ? out << t.to_string() : out << "[ Tensor (undefined) ]";
}

std::string Tensor::to_string() const {
  if (!get()) return "Tensor()";
  const TensorImpl& t = *get();
  need_values(t.storage.get(), "print");
  const std::string prefix = "tensor(";
  const auto indent = static_cast<int64_t>(prefix.size());
  std::vector<std::string> suffixes;
  std::string body = "[]";
  const bool meta = t.device.type == DeviceType::Meta;
  bool hidden = meta;
  if (meta) {
    body = "...";
  } else if (t.numel != 0) {
    const Tensor host = t.device.type == DeviceType::Cpu ? *this : to_host(t);
    const Printer printer(*host, print_options);
    body = printer.body(indent);
    hidden = printer.hides_all();
  }
  if (hidden || (t.numel == 0 && t.ndim != 1)) {
    const std::string shape = strata::to_string(t.sizes());
    suffixes.push_back(fmt::format("size=({}{})", shape.substr(1, shape.size() - 2), t.ndim == 1 ? "," : ""));
  }
  const bool usual = t.dtype == default_dtype() ||
                     (is_complex(t.dtype) && t.numel != 0 && t.dtype == complex_type(default_dtype())) ||
                     (t.numel != 0 && !meta && (t.dtype == DType::I64 || t.dtype == DType::Bool));
  if (!usual) suffixes.push_back(fmt::format("dtype={}.{}", package_name, name_of(t.dtype)));
  if (t.device.type != DeviceType::Cpu)
    suffixes.insert(suffixes.begin(), fmt::format("device='{}'", strata::to_string(t.device)));
  if (describe_history)
    if (std::string history = describe_history(t); !history.empty()) suffixes.push_back(history);

  std::string text = prefix + body;
  // As PyTorch counts it: the last line, plus the closing characters.
  auto line = static_cast<int64_t>(text.size() - (text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1)) + 2;
  for (const std::string& s : suffixes) {
    if (line + static_cast<int64_t>(s.size()) + 2 > print_options.line_width) {
      text += ",\n" + std::string(static_cast<size_t>(indent), ' ') + s;
      line = indent + static_cast<int64_t>(s.size());
    } else {
      text += ", " + s;
      line += static_cast<int64_t>(s.size()) + 2;
    }
  }
  return text + ")";
}

}  // namespace strata
