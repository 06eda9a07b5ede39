#include "dispatch/samples.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "device/philox.h"

namespace strata {

class SampleParser {
 public:
  SampleParser(Sample& sample, const OpRecord& op, const char* text, DType values, uint64_t seed)
      : sample_(sample), op_(op), text_(text), values_(values), seed_(seed) {}

  void run() {
    sample_.args = op_.defaults;
    uint32_t position = 0;
    uint32_t filled = 0;
    while (take('~') || take('!')) {}
    while (skip(), !rest().empty()) {
      uint32_t i = position;
      const size_t equals = keyword_length();
      if (equals) {
        i = index_of(rest().substr(0, equals));
        at_ += equals + 1;
      } else {
        ++position;
      }
      if (i >= op_.params.size()) bad("too many arguments");
      if (filled >> i & 1) bad("an argument is given twice");
      sample_.args[i] = value(op_.params[i].type);
      sample_.given.push_back(i);
      filled |= 1u << i;
      skip();
      if (!rest().empty() && !take(',')) bad("expected ','");
    }
    for (uint32_t i = 0; i < op_.params.size(); ++i)
      if (!op_.params[i].has_default && !(filled >> i & 1) && !op_.params[i].optional)
        bad("a required argument is missing");
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void bad(const char* why) const {
    fail(ErrorKind::Internal, fmt::format("sample \"{}\" of {}: {} at column {}", text_, op_.schema, why, at_));
  }

  size_t keyword_length() const {
    size_t n = 0;
    const std::string_view r = rest();
    while (n < r.size() && (std::isalnum(static_cast<unsigned char>(r[n])) || r[n] == '_')) ++n;
    return n && n < r.size() && r[n] == '=' ? n : 0;
  }
  uint32_t index_of(std::string_view name) const {
    for (uint32_t i = 0; i < op_.params.size(); ++i)
      if (op_.params[i].name == name) return i;
    bad("unknown argument name");
  }

  Value value(ParamType type) {
    skip();
    if (rest().empty()) bad("expected a value");
    const char c = rest()[0];
    if (c == '[') return list(type);
    if (c == '\'') return text(type);
    for (const auto& [word, v] : {std::pair<std::string_view, Value>{"None", Value()},
                                  {"True", Value(true)},
                                  {"False", Value(false)},
                                  {"inf", Value(HUGE_VAL)},
                                  {"-inf", Value(-HUGE_VAL)},
                                  {"nan", Value(std::nan(""))}})
      if (rest().starts_with(word)) {
        at_ += word.size();
        return v;
      }
    if (type == ParamType::DType) return bare_dtype();
    if (rest().starts_with("t[") || rest().starts_with("t32[")) return literal();
    if (std::isalpha(static_cast<unsigned char>(c))) return tensor();
    const Value n = number();
    if (type == ParamType::Ints) {
      sample_.ints_.push_back({n.integer()});
      return IntList(sample_.ints_.back());
    }
    if (type == ParamType::Floats) {
      sample_.floats_.push_back({n.number()});
      return std::span<const double>(sample_.floats_.back());
    }
    if (type == ParamType::Float) return n.number();
    return n;
  }

  Value number() {
    size_t n = 0;
    const std::string_view r = rest();
    while (n < r.size() &&
           (std::isdigit(static_cast<unsigned char>(r[n])) || r[n] == '.' || r[n] == '-' || r[n] == 'e' || r[n] == '+'))
      ++n;
    if (!n) bad("expected a number");
    const std::string_view digits = r.substr(0, n);
    at_ += n;
    if (digits.find_first_of(".e") == digits.npos) {
      int64_t i = 0;
      if (const auto end = std::from_chars(digits.data(), digits.data() + n, i);
          end.ec != std::errc() || end.ptr != digits.data() + n)
        bad("not a number");
      return i;
    }
    double f = 0;
    if (const auto end = std::from_chars(digits.data(), digits.data() + n, f);
        end.ec != std::errc() || end.ptr != digits.data() + n)
      bad("not a number");
    return f;
  }

  Value bare_dtype() {
    size_t n = 0;
    while (n < rest().size() && (std::isalnum(static_cast<unsigned char>(rest()[n])) || rest()[n] == '_')) ++n;
    const DType dtype = dtype_from_name(rest().substr(0, n));
    at_ += n;
    return dtype;
  }

  Value text(ParamType type) {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == text_.npos) bad("unterminated string");
    sample_.strings_.emplace_back(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    const std::string& s = sample_.strings_.back();
    if (type == ParamType::DType) return dtype_from_name(s);
    if (type == ParamType::Device) return device_from_name(s);
    return std::string_view(s);
  }

  Value list(ParamType type) {
    take('[');
    std::vector<Value> items;
    while (!take(']')) {
      items.push_back(value(type == ParamType::Tensors ? ParamType::Tensor : ParamType::Scalar));
      take(',');
    }
    if (type == ParamType::Tensors) {
      auto& tensors = sample_.lists_.emplace_back();
      for (const Value& v : items)
        tensors.push_back(v.tag == Tag::Tensor ? Tensor(Ref<TensorImpl>::share(v.tensor)) : Tensor());
      return TensorList(std::span<const Tensor>(tensors));
    }
    if (type == ParamType::Floats) {
      auto& floats = sample_.floats_.emplace_back();
      for (const Value& v : items) floats.push_back(v.number());
      return std::span<const double>(floats);
    }
    auto& ints = sample_.ints_.emplace_back();
    for (const Value& v : items) ints.push_back(v.integer());
    return IntList(ints);
  }

  double uniform() {
    const PhiloxBlock block = philox(seed_ * 7919 + 17, counter_++);
    return uniform_f64(block.word[0], block.word[1]);
  }
  double normal() {
    const double a = uniform(), b = uniform();
    return std::sqrt(-2 * std::log(1 - a)) * std::cos(6.283185307179586 * b);
  }

  // t[3, 2, 1], t[[1, 2], [3, 4]] or t[[[0, 3]]]: rows of one length; further brackets give leading dimensions of size
  // 1.
  Value literal() {
    ++at_;
    const bool is_short = rest().starts_with("32");
    if (is_short) at_ += 2;
    std::vector<int64_t> values, shape;
    while (take('[')) shape.push_back(1);
    int64_t rows = 0;
    do {
      while (!take(']')) {
        values.push_back(number().integer());
        take(',');
      }
      ++rows;
    } while (shape.size() > 1 && take(',') && take('['));
    for (size_t outer = 1; outer < shape.size(); ++outer)
      if (!take(']')) bad("expected ']'");
    shape.back() = static_cast<int64_t>(values.size()) / rows;
    if (shape.size() > 1) shape[shape.size() - 2] = rows;
    if (checked_numel(shape) != static_cast<int64_t>(values.size())) bad("rows of different lengths");
    Tensor t = make_tensor(shape, is_short ? DType::I32 : DType::I64);
    if (is_short) std::ranges::transform(values, t.data<int32_t>(), [](int64_t v) { return static_cast<int32_t>(v); });
    else std::copy(values.begin(), values.end(), t.data<int64_t>());
    sample_.all_.push_back(t);
    return t;
  }

  Value tensor() {
    const char letter = rest()[0];
    ++at_;
    int64_t bound = 0;
    while (!rest().empty() && std::isdigit(static_cast<unsigned char>(rest()[0])))
      bound = bound * 10 + (text_[at_++] - '0');
    if (!take('(')) bad("expected '('");
    std::vector<int64_t> shape;
    while (!take(')')) {
      shape.push_back(number().integer());
      take(',');
    }
    const DType dtype = letter == 'i'   ? DType::I64
                        : letter == 'b' ? DType::Bool
                        : letter == 'w' ? DType::F32
                        : letter == 'q' ? (bound == 8   ? DType::I8
                                           : bound == 4 ? DType::U8
                                                        : DType::I32)
                                        : values_;
    Tensor t = make_tensor(shape, dtype);
    std::vector<double> values(static_cast<size_t>(t.numel()));
    for (double& v : values) v = draw(letter, bound);
    if ((letter == 's' || letter == 'm') && shape.size() >= 2) shape_matrix(values, shape, letter == 's');
    // Complex values: the imaginary parts are drawn after the real ones. Matrices stay well-conditioned.
    std::vector<double> imaginary(is_complex(dtype) ? values.size() : 0);
    for (double& v : imaginary) v = letter == 's' ? 0 : 0.5 * normal();
    if (letter == 's' && shape.size() >= 2) make_antisymmetric(imaginary, shape);
    dispatch_dtype(dtype, [&]<class T> {
      for (size_t k = 0; k < values.size(); ++k) {
        if constexpr (kIsComplex<T>) {
          t.data<T>()[k] = convert<T>(Complex<double>{values[k], imaginary[k]});
          continue;
        }
        const double v = is_floating(dtype) || letter == 'i' || letter == 'q' ? values[k]
                         : letter == 'p' || letter == 'o' || letter == 'z'    ? std::ceil(values[k])
                                                                              : std::round(values[k] * 2);
        t.data<T>()[k] = convert<T>(is_signed(dtype) ? v : std::abs(v));
      }
    });
    sample_.all_.push_back(t);
    if (letter != 'i' && letter != 'b' && letter != 'w' && letter != 'q') sample_.tensors.push_back(t);
    return t;
  }

  // Hermitian matrices have an antisymmetric imaginary part; a small one keeps them positive definite.
  void make_antisymmetric(std::vector<double>& v, const std::vector<int64_t>& shape) {
    const int64_t n = shape.back();
    if (shape[shape.size() - 2] != n) return;
    for (size_t at = 0; at < v.size(); at += static_cast<size_t>(n * n))
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < i; ++j) {
          const double x = 0.25 * normal();
          v[at + static_cast<size_t>(i * n + j)] = x;
          v[at + static_cast<size_t>(j * n + i)] = -x;
        }
  }

  double draw(char letter, int64_t bound) {
    switch (letter) {
      case 'f':
      case 's':
      case 'm': return normal();
      case 'p':
      case 'w': return 0.1 + 2.9 * uniform();
      case 'u': return -0.95 + 1.9 * uniform();
      case 'o': return 1.1 + 1.9 * uniform();
      case 'z': return 0.05 + 0.9 * uniform();
      case 'i': return std::floor(uniform() * static_cast<double>(bound ? bound : 10));
      case 'b': return uniform() < 0.5 ? 0 : 1;
      case 'q': {
        const double count = bound == 32 ? 0x1p32 : 256;
        return std::floor(uniform() * count) - (bound == 4 ? 0 : count / 2);
      }
      default: bad("unknown kind of tensor");
    }
  }

  // A A^T + n I (symmetric positive definite), or A + n I (well-conditioned), matrix by matrix.
  static void shape_matrix(std::vector<double>& v, const std::vector<int64_t>& shape, bool symmetric) {
    const int64_t rows = shape[shape.size() - 2], cols = shape.back();
    if (rows != cols || rows == 0) return;
    for (size_t at = 0; at < v.size(); at += static_cast<size_t>(rows * cols)) {
      double* a = v.data() + at;
      if (symmetric) {
        const std::vector<double> before(a, a + rows * cols);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < rows; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < cols; ++k)
              sum += before[static_cast<size_t>(i * cols + k)] * before[static_cast<size_t>(j * cols + k)];
            a[i * cols + j] = sum;
          }
      }
      for (int64_t i = 0; i < rows; ++i) a[i * cols + i] += static_cast<double>(rows);
    }
  }

  Sample& sample_;
  const OpRecord& op_;
  std::string_view text_;
  DType values_;
  uint64_t seed_, counter_ = 0;
  size_t at_ = 0;
};

Sample::Sample(const OpRecord& op, const char* text, DType values, uint64_t seed) {
  SampleParser(*this, op, text, values, seed).run();
}

void Sample::exchange(const TensorImpl* before, const Tensor& now) {
  for (uint32_t i = 0; i < args.size; ++i)
    if (args.is_tensor(i) && args[i].tensor == before) args[i] = Value(now);
  for (auto& list : lists_)
    for (Tensor& entry : list)
      if (entry.get() == before) entry = now;
  for (Tensor& t : tensors)
    if (t.get() == before) t = now;
}

void Sample::replace(size_t k, Tensor t) {
  const Tensor before = tensors[k];
  all_.push_back(t);
  exchange(before.get(), t);
}

void Sample::move_to(Device device) {
  static const OpRecord& to = find_op("to", "device");
  const std::vector<Tensor> before = all_;
  for (const Tensor& t : before) {
    Args to_args = to.defaults;
    to_args[0] = Value(t);
    to_args[1] = Value(device);
    exchange(t.get(), all_.emplace_back(call(to, to_args)));
  }
}

}  // namespace strata
