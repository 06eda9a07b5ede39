// ai.onnx.ml: encoders, features, trees.
#include <bit>
#include <cmath>

#include "base/interrupt.h"
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

constexpr const char* kDomain = "ai.onnx.ml";

// --- LabelEncoder --------------------------------------------------------------------------------------------------------
// A label as bytes, so that texts and numbers are looked up alike.
std::string label_of(double v) {
  if (std::isnan(v)) return "nan";
  const auto bits = std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  return {reinterpret_cast<const char*>(&bits), sizeof bits};
}
std::string label_of(int64_t v) { return {reinterpret_cast<const char*>(&v), sizeof v}; }

std::vector<std::string> labels_of(const Value& v) {
  if (v.strings) return v.strings->items;
  STRATA_CHECK(v.tensor, Type, "labels are {}; expected a tensor", kind_of(v));
  std::vector<std::string> out;
  const bool real = is_floating(v.tensor.dtype());
  const Tensor t = contiguous(to(v.tensor, Device(), real ? DType::F64 : DType::I64));
  for (int64_t i = 0; i < t.numel(); ++i)
    out.push_back(real ? label_of(t.data<double>()[i]) : label_of(t.data<int64_t>()[i]));
  return out;
}
// keys_* or values_* of any type, as a value.
Value column_of(const NodeCall& c, const std::string& stem) {
  if (c.has(stem + "_tensor")) return c.tensor(std::string_view(stem + "_tensor"));
  if (c.has(stem + "_strings")) {
    std::vector<std::string> texts = c.texts(stem + "_strings");
    return Value::of(Strings{{static_cast<int64_t>(texts.size())}, std::move(texts)});
  }
  if (c.has(stem + "_int64s")) return {host_ints(c.ints(std::string_view(stem + "_int64s")))};
  STRATA_CHECK(c.has(stem + "_floats"), Value, "'{}_...' is missing", stem);
  return {cast(tensor(c.numbers(std::string_view(stem + "_floats"))), DType::F32)};
}
Values encode_labels(NodeCall& c) {
  const std::vector<std::string> keys = labels_of(column_of(c, "keys")), labels = labels_of(c.value(0));
  const Value values = column_of(c, "values");
  const auto count = values.strings ? static_cast<int64_t>(values.strings->items.size()) : values.tensor.numel();
  STRATA_CHECK(count == static_cast<int64_t>(keys.size()), Value, "{} keys and {} values", keys.size(), count);
  std::map<std::string, int64_t> index;
  for (size_t i = 0; i < keys.size(); ++i) index[keys[i]] = static_cast<int64_t>(i);
  Ints places;  // `count`: the default
  for (const std::string& label : labels) {
    const auto found = index.find(label);
    places.push_back(found == index.end() ? count : found->second);
  }
  const Value& x = c.value(0);
  const Ints shape = x.strings ? x.strings->shape : sizes_of(x.tensor);
  if (values.strings) {
    std::string otherwise(c.text("default_string", "_Unused"));
    if (c.has("default_tensor") && c.tensor("default_tensor").strings)
      otherwise = c.tensor("default_tensor").strings->items.at(0);
    Strings out{shape, {}};
    for (const int64_t p : places)
      out.items.push_back(p == count ? otherwise : values.strings->items[static_cast<size_t>(p)]);
    return {Value::of(std::move(out))};
  }
  const DType dtype = values.tensor.dtype();
  Tensor otherwise = is_floating(dtype) ? full({1}, c.number("default_float", -0.0), TensorOptions(dtype))
                                        : full({1}, c.integer("default_int64", -1), TensorOptions(dtype));
  if (c.has("default_tensor")) otherwise = reshape(cast(c.tensor("default_tensor").tensor, dtype), {1});
  const Tensor parts[] = {reshape(moved(values.tensor, {}), {count}), moved(otherwise, {})};
  return one(moved(reshape(index_select(cat(parts, 0), 0, host_ints(places)), shape), c.network().device()));
}

Values extract_features(NodeCall& c) {
  const Tensor x = c.tensor(0), at = reshape(c.tensor(1), {-1});
  const Tensor y = index_select(x, -1, cast(at, DType::I64));
  return one(x.dim() == 1 ? reshape(y, {1, y.numel()}) : y);
}
Values binarize(NodeCall& c) {
  const Tensor x = c.tensor(0);
  return one(cast(gt(x, c.number("threshold", 0)), x.dtype()));
}
Values scale_features(NodeCall& c) {
  const Tensor x = cast(c.tensor(0), DType::F32);
  const Tensor offset = moved(cast(tensor(c.numbers("offset")), DType::F32), x.device());
  const Tensor scale = moved(cast(tensor(c.numbers("scale")), DType::F32), x.device());
  return one(mul(sub(x, offset), scale));
}

// --- TreeEnsemble --------------------------------------------------------------------------------------------------------
struct Trees {
  Ints roots, feature, true_node, false_node, true_leaf, false_leaf, missing_true, target;
  std::vector<double> modes, splits, weights;
  std::vector<std::vector<double>> members;  // of the nodes with mode "member", in their order
  std::vector<size_t> member_of;
};
std::vector<double> numbers_in(const NodeCall& c, std::string_view name) {
  const Value& v = c.tensor(name);
  const Tensor t = contiguous(to(v.tensor, Device(), DType::F64));
  return {t.data<double>(), t.data<double>() + t.numel()};
}
Trees trees_of(const NodeCall& c) {
  Trees t{c.ints("tree_roots"),
          c.ints("nodes_featureids"),
          c.ints("nodes_truenodeids"),
          c.ints("nodes_falsenodeids"),
          c.ints("nodes_trueleafs"),
          c.ints("nodes_falseleafs"),
          c.ints("nodes_missing_value_tracks_true"),
          c.ints("leaf_targetids"),
          numbers_in(c, "nodes_modes"),
          numbers_in(c, "nodes_splits"),
          numbers_in(c, "leaf_weights"),
          {},
          {}};
  const size_t n = t.feature.size();
  STRATA_CHECK(t.true_node.size() == n && t.false_node.size() == n && t.true_leaf.size() == n &&
                 t.false_leaf.size() == n && t.modes.size() == n && t.splits.size() == n &&
                 t.target.size() == t.weights.size() && (t.missing_true.empty() || t.missing_true.size() == n),
               Value, "the attributes of the nodes or of the leaves differ in length");
  const auto check = [](const Ints& to_where, const Ints& leaf, size_t nodes, size_t leaves) {
    for (size_t i = 0; i < to_where.size(); ++i)
      STRATA_CHECK(to_where[i] >= 0 && static_cast<size_t>(to_where[i]) < (leaf[i] ? leaves : nodes), Index,
                   "node {} leads to {}, which is none", i, to_where[i]);
  };
  check(t.true_node, t.true_leaf, n, t.weights.size());
  check(t.false_node, t.false_leaf, n, t.weights.size());
  for (const int64_t r : t.roots)
    STRATA_CHECK(r >= 0 && static_cast<size_t>(r) < n, Index, "a root is node {} of {}", r, n);
  constexpr double kMember = 6;
  if (c.has("membership_values")) {
    t.members.emplace_back();
    for (const double v : numbers_in(c, "membership_values")) {
      if (std::isnan(v)) t.members.emplace_back();
      else t.members.back().push_back(v);
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    t.member_of.push_back(next);
    if (t.modes[i] != kMember) continue;
    STRATA_CHECK(next < t.members.size(), Value, "membership_values has fewer sets than nodes need");
    ++next;
  }
  return t;
}
bool passes(const Trees& t, size_t node, double x) {
  if (std::isnan(x) && !t.missing_true.empty() && t.missing_true[node]) return true;
  const double split = t.splits[node];
  switch (static_cast<int>(t.modes[node])) {
    case 0: return x <= split;
    case 1: return x < split;
    case 2: return x >= split;
    case 3: return x > split;
    case 4: return x == split;
    case 5: return x != split;
    default: {
      const std::vector<double>& set = t.members[t.member_of[node]];
      return std::find(set.begin(), set.end(), x) != set.end();
    }
  }
}
size_t leaf_of(const Trees& t, size_t root, const double* row, int64_t features) {
  size_t node = root;
  for (size_t steps = 0; steps <= t.feature.size(); ++steps) {
    const int64_t f = t.feature[node];
    STRATA_CHECK(f >= 0 && f < features, Index, "a node asks for feature {} of {}", f, features);
    const bool yes = passes(t, node, row[f]);
    const auto next = static_cast<size_t>(yes ? t.true_node[node] : t.false_node[node]);
    if (yes ? t.true_leaf[node] : t.false_leaf[node]) return next;
    node = next;
  }
  fail(ErrorKind::Value, "a tree has a cycle");
}
Values tree_ensemble(NodeCall& c) {
  const Tensor x = c.tensor(0), host = contiguous(to(x, Device(), DType::F64));
  STRATA_CHECK(x.dim() == 2, Value, "the input has {} dimensions; expected 2", x.dim());
  const Trees t = trees_of(c);
  const int64_t targets = c.integer("n_targets"), aggregate = c.integer("aggregate_function", 1), rows = x.size(0),
                features = x.size(1);
  if (c.integer("post_transform", 0) != 0) c.refuse("post_transform of TreeEnsemble is not supported");
  STRATA_CHECK(targets > 0 && aggregate >= 0 && aggregate <= 3, Value, "{} targets, aggregate function {}", targets,
               aggregate);
  const Tensor out = zeros({rows, targets}, TensorOptions(DType::F64));
  double* y = out.data<double>();
  std::vector<uint8_t> seen(static_cast<size_t>(targets));
  for (int64_t r = 0; r < rows; ++r) {
    poll_interrupt();
    std::fill(seen.begin(), seen.end(), 0);
    for (const int64_t root : t.roots) {
      const size_t leaf = leaf_of(t, static_cast<size_t>(root), host.data<double>() + r * features, features);
      const int64_t target = t.target[leaf];
      STRATA_CHECK(target >= 0 && target < targets, Index, "a leaf has target {} of {}", target, targets);
      double& cell = y[r * targets + target];
      const double w = t.weights[leaf];
      if (aggregate <= 1) cell += w;
      else if (!seen[static_cast<size_t>(target)]) cell = w;
      else cell = aggregate == 2 ? std::min(cell, w) : std::max(cell, w);
      seen[static_cast<size_t>(target)] = 1;
    }
  }
  if (aggregate == 0 && !t.roots.empty())
    for (int64_t i = 0; i < rows * targets; ++i) y[i] /= static_cast<double>(t.roots.size());
  return one(moved(cast(out, x.dtype()), x.device()));
}

const OpEntry kMl[] = {
  {"LabelEncoder", 2, 1, 1, nullptr, encode_labels, kDomain},
  {"ArrayFeatureExtractor", 1, 2, 2, nullptr, extract_features, kDomain},
  {"Binarizer", 1, 1, 1, nullptr, binarize, kDomain},
  {"Scaler", 1, 1, 1, nullptr, scale_features, kDomain},
  {"TreeEnsemble", 5, 1, 1, nullptr, tree_ensemble, kDomain},
};
}  // namespace

OpTable ml_ops() { return kMl; }

}  // namespace strata::onnx
