// einsum and ops expressed with it: sums of products over named dimensions.
#include <fmt/core.h>

#include "autograd/autograd.h"
#include "strata/ops.h"

namespace strata {
namespace {

constexpr int kEllipsis = 52, kLabels = 52;  // letters, then the dimensions of "..."

int label_of(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= 'A' && c <= 'Z') return c - 'A';
  fail(ErrorKind::Runtime, fmt::format("einsum: invalid subscript '{}', expected letters, '...', ',' and '->'", c));
}

// One term of the equation: labels in order, -1 for "...".
std::vector<int> parse_term(std::string_view term) {
  std::vector<int> labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term[i] == '.') {
      STRATA_CHECK(term.substr(i, 3) == "..." && std::find(labels.begin(), labels.end(), -1) == labels.end(), Runtime,
                   "einsum: found '.' in '{}' that is not part of one single ellipsis", term);
      labels.push_back(-1);
      i += 2;
    } else {
      labels.push_back(label_of(term[i]));
    }
  }
  return labels;
}

// l and r have the same number of dimensions; sizes of 1 broadcast. Sums the products over `summed`.
Tensor sum_of_products(Tensor l, Tensor r, const std::vector<bool>& summed) {
  std::vector<int64_t> both, left, right, inner, alone;
  const int n = l.dim();
  for (int d = 0; d < n; ++d) {
    const bool in_l = l.size(d) != 1, in_r = r.size(d) != 1;
    if (summed[static_cast<size_t>(d)]) {
      if (in_l && in_r) {
        inner.push_back(d);
        continue;
      }
      if (in_l) l = sum(l, int64_t{d}, true);
      else if (in_r) r = sum(r, int64_t{d}, true);
      alone.push_back(d);
    } else if (in_l && in_r) {
      both.push_back(d);
    } else if (in_l) {
      left.push_back(d);
    } else {
      right.push_back(d);
    }
  }
  const auto count = [](const Tensor& t, const std::vector<int64_t>& dims) {
    int64_t size = 1;
    for (int64_t d : dims) size *= t.size(d);
    return size;
  };
  if (l.dtype() != r.dtype()) {  // one side was summed alone, and sums of small integers are int64
    const DType common = promote(l.dtype(), r.dtype());
    l = to(l, common);
    r = to(r, common);
  }
  const int64_t b = count(l, both), m = count(l, left), k = count(l, inner), p = count(r, right);
  const auto order = [](std::initializer_list<const std::vector<int64_t>*> parts) {
    std::vector<int64_t> all;
    for (const auto* part : parts) all.insert(all.end(), part->begin(), part->end());
    return all;
  };
  std::vector<int64_t> shape;  // of the result in the order both, left, right, then all summed dimensions
  shape.reserve(both.size());
  for (int64_t d : both) shape.push_back(l.size(d));
  for (int64_t d : left) shape.push_back(l.size(d));
  for (int64_t d : right) shape.push_back(r.size(d));
  shape.resize(static_cast<size_t>(n), 1);
  const Tensor x = reshape(permute(l, order({&both, &left, &inner, &right, &alone})), {b, m, k});
  const Tensor y = reshape(permute(r, order({&both, &inner, &right, &left, &alone})), {b, k, p});
  const Tensor product = reshape(bmm(x, y), shape);
  const auto from = order({&both, &left, &right, &inner, &alone});
  std::vector<int64_t> back(from.size());
  for (size_t i = 0; i < from.size(); ++i) back[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
  return permute(product, back);
}

Tensor run_einsum(std::string_view equation, TensorList operands) {
  STRATA_CHECK(!operands.empty(), Runtime, "einsum: must provide at least one operand");
  const size_t arrow = equation.find("->");
  const std::string_view inputs = equation.substr(0, arrow);
  std::vector<std::vector<int>> terms;
  for (size_t begin = 0; begin <= inputs.size();) {
    const size_t comma = std::min(inputs.find(',', begin), inputs.size());
    terms.push_back(parse_term(inputs.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  STRATA_CHECK(terms.size() == operands.size(), Runtime,
               "einsum: the equation has {} terms, but {} operands were given", terms.size(), operands.size());

  // "..." covers as many dimensions as an operand has beyond its letters; the maximum counts.
  int ellipsis = 0;
  bool any = false;
  int uses[kLabels] = {};
  for (size_t i = 0; i < terms.size(); ++i) {
    int letters = 0;
    bool dots = false;
    for (int l : terms[i]) l < 0 ? (dots = true, 0) : (++uses[l], ++letters);
    const int rest = operands[i].dim() - letters;
    STRATA_CHECK(dots ? rest >= 0 : rest == 0, Runtime,
                 "einsum: the number of subscripts ({}) {} the number of dimensions ({}) for operand {}", letters,
                 dots ? "is more than" : "does not match", operands[i].dim(), i);
    if (dots) {
      ellipsis = std::max(ellipsis, rest);
      any = true;
    }
  }
  std::vector<int> out;  // positions: labels, kEllipsis + i for the dimensions of "..."
  const auto add_ellipsis = [&] {
    for (int i = 0; i < ellipsis; ++i) out.push_back(kEllipsis + i);
  };
  if (arrow == equation.npos) {
    if (any) add_ellipsis();
    for (int l = 0; l < kLabels; ++l)
      if (uses[l] == 1) out.push_back(l);
  } else {
    for (int l : parse_term(equation.substr(arrow + 2))) {
      if (l < 0) {
        add_ellipsis();
        continue;
      }
      STRATA_CHECK(uses[l] > 0, Runtime,
                   "einsum: an output subscript does not appear in the equation of any input operand");
      STRATA_CHECK(std::find(out.begin(), out.end(), l) == out.end(), Runtime,
                   "einsum: an output subscript appears more than once in the output");
      out.push_back(l);
    }
  }
  // Every operand gets one dimension per label: those of the output first, then the summed ones.
  std::vector<int> labels = out;
  const auto add_label = [&](int l) {
    if (std::find(labels.begin(), labels.end(), l) == labels.end()) labels.push_back(l);
  };
  for (int i = 0; i < ellipsis; ++i) add_label(kEllipsis + i);
  for (const auto& term : terms)
    for (int l : term)
      if (l >= 0) add_label(l);
  const size_t n = labels.size();
  std::vector<Tensor> full;
  std::vector<int64_t> sizes(n, 1);
  for (size_t i = 0; i < terms.size(); ++i) {
    Tensor t = operands[i];
    std::vector<int> have;  // position in `labels` of each dimension of t
    int dim = 0;
    const int letters = static_cast<int>(std::count_if(terms[i].begin(), terms[i].end(), [](int l) { return l >= 0; }));
    const auto position = [&](int l) {
      return static_cast<int>(std::find(labels.begin(), labels.end(), l) - labels.begin());
    };
    const int dots = operands[i].dim() - letters;
    for (int l : terms[i]) {
      if (l < 0) {
        for (int k = 0; k < dots; ++k, ++dim) have.push_back(position(kEllipsis + ellipsis - dots + k));
        continue;
      }
      const int at = position(l);
      const auto seen = std::find(have.begin(), have.end(), at);
      if (seen == have.end()) {
        have.push_back(at);
        ++dim;
      } else {  // a repeated letter takes a diagonal
        const int first = static_cast<int>(seen - have.begin());
        STRATA_CHECK(t.size(first) == t.size(dim), Runtime,
                     "einsum: a subscript is repeated for operand {} but the sizes don't match, {} != {}", i,
                     t.size(dim), t.size(first));
        t = movedim(diagonal(t, 0, first, dim), -1, first);
      }
    }
    std::vector<int> from(n, -1);
    for (size_t d = 0; d < have.size(); ++d) from[static_cast<size_t>(have[d])] = static_cast<int>(d);
    std::vector<int64_t> order;
    for (size_t p = 0; p < n; ++p)
      if (from[p] >= 0) order.push_back(from[p]);
    t = permute(t, order);
    for (size_t p = 0; p < n; ++p)
      if (from[p] < 0) t = unsqueeze(t, static_cast<int64_t>(p));
    for (size_t p = 0; p < n; ++p) {
      const int64_t size = t.size(static_cast<int64_t>(p));
      STRATA_CHECK(
        sizes[p] == 1 || size == 1 || sizes[p] == size, Runtime,
        "einsum: operands do not broadcast with remapped shapes: operand {} has size {} where another has {}", i, size,
        sizes[p]);
      if (size != 1) sizes[p] = size;
    }
    full.push_back(t);
  }
  // A summed dimension is summed with the last operand that has it.
  std::vector<size_t> last(n, 0);
  for (size_t p = out.size(); p < n; ++p)
    for (size_t i = 0; i < full.size(); ++i)
      if (full[i].size(static_cast<int64_t>(p)) != 1) last[p] = i;
  Tensor result = full[0];
  for (size_t i = 1; i < full.size(); ++i) {
    std::vector<bool> summed(n, false);
    for (size_t p = out.size(); p < n; ++p) summed[p] = last[p] == i || (i == 1 && last[p] == 0);
    result = sum_of_products(result, full[i], summed);
  }
  if (n == out.size()) return result;
  if (full.size() > 1) return reshape(result, result.shape().first(out.size()));  // summed dimensions now have size 1
  std::vector<int64_t> rest;
  for (size_t p = out.size(); p < n; ++p) rest.push_back(static_cast<int64_t>(p));
  return sum(result, rest);
}
}  // namespace

STRATA_OP(einsum, "einsum(str equation, Tensor(a)[] operands) -> Tensor(a)")
  .doc("Sums of products of the operands over the dimensions named in the equation: einsum('ij,jk->ik', [a, b]).")
  .no_method()
  .no_out()
  .dtypes(kNumericTypes)
  .composite([](std::string_view equation, TensorList operands) { return run_einsum(equation, operands); })
  .autocast_cuda(Autocast::Lower)
  .add_dtypes(kComplexTypes)
  .samples({"'ij,jk->ik', [f(2,3), f(3,4)]", "'ij->ji', [f(2,3)]", "'ii->i', [f(3,3)]", "'ii', [f(3,3)]",
            "'bij,bjk', [f(2,2,3), f(2,3,2)]", "'...i,...i->...', [f(2,3), f(3)]", "'i,j,k->ijk', [f(2), f(3), f(2)]",
            "'ij,ij->', [f(2,3), f(2,3)]"})
  .error("'ij,jk->ik', [f(2,3)]", ErrorKind::Runtime, "2 terms, but 1 operands")
  .error("'ij->ij', [f(2)]", ErrorKind::Runtime, "does not match the number of dimensions")
  .error("'i1->i', [f(2,2)]", ErrorKind::Runtime, "invalid subscript");

STRATA_OP(tensordot, "tensordot(Tensor a, Tensor b, int[] dims_self, int[] dims_other) -> Tensor")
  .doc("Sums of products over the given dimensions of a and b.")
  .no_method()
  .dtypes(kNumericTypes)
  .composite([](const Tensor& left, const Tensor& right, IntList dims_a, IntList dims_b) {
    STRATA_CHECK(dims_a.size == dims_b.size, Runtime,
                 "tensordot: both dimension lists should have same length, got {} and {}", dims_a.size, dims_b.size);
    Tensor a = left, b = right;
    for (size_t i = 0; i < dims_a.size; ++i) {  // a size of 1 broadcasts: the other side is summed
      if (a.size(dims_a[i]) == 1 && b.size(dims_b[i]) != 1) b = sum(b, dims_b[i], true, b.dtype());
      else if (b.size(dims_b[i]) == 1 && a.size(dims_a[i]) != 1) a = sum(a, dims_a[i], true, a.dtype());
    }
    const auto split = [](const Tensor& t, IntList dims, bool inner_first) {
      std::vector<int64_t> free, inner;
      std::vector<bool> used(static_cast<size_t>(t.dim()), false);
      for (int64_t d : dims) {
        const int at = normalize_dim(d, t.dim(), "tensordot");
        STRATA_CHECK(!used[static_cast<size_t>(at)], Runtime, "tensordot: dimension {} appears twice", d);
        used[static_cast<size_t>(at)] = true;
        inner.push_back(at);
      }
      for (int d = 0; d < t.dim(); ++d)
        if (!used[static_cast<size_t>(d)]) free.push_back(d);
      std::vector<int64_t> order = inner_first ? inner : free;
      order.insert(order.end(), (inner_first ? free : inner).begin(), (inner_first ? free : inner).end());
      return std::pair(order, free);
    };
    const auto [order_a, free_a] = split(a, dims_a, false);
    const auto [order_b, free_b] = split(b, dims_b, true);
    int64_t k = 1, m = 1, n = 1;
    std::vector<int64_t> shape;
    for (size_t i = 0; i < dims_a.size; ++i) {
      STRATA_CHECK(a.size(dims_a[i]) == b.size(dims_b[i]), Runtime,
                   "tensordot: contracted dimensions need to match, but the first has size {} in dim {} and the second "
                   "has size {} in dim {}",
                   a.size(dims_a[i]), dims_a[i], b.size(dims_b[i]), dims_b[i]);
      k *= a.size(dims_a[i]);
    }
    for (int64_t d : free_a) {
      m *= a.size(d);
      shape.push_back(a.size(d));
    }
    for (int64_t d : free_b) {
      n *= b.size(d);
      shape.push_back(b.size(d));
    }
    return reshape(mm(reshape(permute(a, order_a), {m, k}), reshape(permute(b, order_b), {k, n})), shape);
  })
  .autocast_cuda(Autocast::Promote)
  .add_dtypes(kComplexTypes)
  .samples({"f(2,3,4), f(4,3,5), [1,2], [1,0]", "f(2,3), f(4), [], []"})
  .error("f(2,3), f(4,3), [1], [0]", ErrorKind::Runtime, "need to match");

STRATA_OP(bilinear, "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor")
  .doc("input1 @ weight[o] @ input2 + bias[o] for each output o.")
  .nn()
  .no_method()
  .dtypes(kFloatingTypes)
  .composite([](const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias) {
    STRATA_CHECK(input1.dim() == input2.dim() && input1.dim() >= 1, Runtime,
                 "bilinear: input dimensions do not match: got {} and {}", to_string(input1.shape()),
                 to_string(input2.shape()));
    for (int d = 0; d + 1 < input1.dim(); ++d)
      STRATA_CHECK(input1.size(d) == input2.size(d), Runtime,
                   "bilinear: input batch dimensions do not match at dim {}: got {} and {}", d, input1.size(d),
                   input2.size(d));
    STRATA_CHECK(weight.dim() == 3 && weight.size(1) == input1.size(-1) && weight.size(2) == input2.size(-1), Runtime,
                 "bilinear: weight must be [out, {}, {}], got {}", input1.size(-1), input2.size(-1),
                 to_string(weight.shape()));
    STRATA_CHECK(!bias || (bias.dim() == 1 && bias.size(0) == weight.size(0)), Runtime,
                 "bilinear: bias must have shape [{}]", weight.size(0));
    const int64_t i = weight.size(1), j = weight.size(2), o = weight.size(0);
    int64_t rows = 1;
    std::vector<int64_t> shape(input1.shape().begin(), input1.shape().end());
    for (size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
    shape.back() = o;
    // [rows, i] x [i, o * j], then the product with input2 along j.
    const Tensor left =
      reshape(mm(reshape(input1, {rows, i}), reshape(permute(weight, {1, 0, 2}), {i, o * j})), {rows, o, j});
    const Tensor out = reshape(bmm(left, reshape(input2, {rows, j, 1})), shape);
    return bias ? add(out, bias) : out;
  })
  .autocast(Autocast::Promote)
  .samples({"f(3,4), f(3,5), f(2,4,5), f(2)", "f(2,3,4), f(2,3,5), f(2,4,5)", "f(4), f(5), f(2,4,5)"})
  .error("f(3,4), f(3,5), f(2,5,5)", ErrorKind::Runtime, "weight must be [out, 4, 5]");

}  // namespace strata
