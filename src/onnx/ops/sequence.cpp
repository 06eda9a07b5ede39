// Sequences and optionals.
#include "onnx/ops/common.h"

namespace strata::onnx {
namespace {

const std::vector<Value>& items_of(const NodeCall& c, size_t i) {
  const Value& v = c.value(i);
  STRATA_CHECK(v.sequence, Type, "input {} is {}; expected a sequence", i, kind_of(v));
  return *v.sequence;
}
size_t place_of(int64_t position, size_t n, bool insert) {
  const auto most = static_cast<int64_t>(n) + (insert ? 1 : 0);
  const int64_t at = position < 0 ? position + static_cast<int64_t>(n) : position;
  STRATA_CHECK(at >= 0 && at < most, Index, "position {} is outside of a sequence of {}", position, n);
  return static_cast<size_t>(at);
}
Values empty(NodeCall& /*c*/) { return {Value::of(std::vector<Value>())}; }
Values construct(NodeCall& c) {
  std::vector<Value> items;
  for (size_t i = 0; i < c.inputs(); ++i) items.push_back(c.value(i));
  return {Value::of(std::move(items))};
}
Values at(NodeCall& c) {
  const std::vector<Value>& items = items_of(c, 0);
  return {items[place_of(c.integer(size_t{1}), items.size(), false)]};
}
Values insert(NodeCall& c) {
  std::vector<Value> items = items_of(c, 0);
  const size_t place = c.has(size_t{2}) ? place_of(c.integer(size_t{2}), items.size(), true) : items.size();
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(place), c.value(1));
  return {Value::of(std::move(items))};
}
Values erase(NodeCall& c) {
  std::vector<Value> items = items_of(c, 0);
  const size_t place = place_of(c.has(size_t{1}) ? c.integer(size_t{1}) : -1, items.size(), false);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(place));
  return {Value::of(std::move(items))};
}
Values length(NodeCall& c) { return one(host_int(static_cast<int64_t>(items_of(c, 0).size()))); }
Values concat_from(NodeCall& c) {
  std::vector<Tensor> parts;
  for (const Value& v : items_of(c, 0)) {
    STRATA_CHECK(v.tensor && !is_carried(element_type(v)), Type, "the sequence has {}; expected tensors", kind_of(v));
    parts.push_back(v.tensor);
  }
  STRATA_CHECK(!parts.empty(), Value, "the sequence is empty");
  const int64_t axis = c.integer("axis");
  return one(c.flag("new_axis") ? stack(parts, axis) : cat(parts, axis_of(axis, parts[0].dim())));
}
Values split_to(NodeCall& c) {
  const Tensor x = c.tensor(0);
  const int64_t axis = axis_of(c.integer("axis", 0), x.dim()), n = x.size(axis);
  std::vector<Value> items;
  if (!c.has(size_t{1})) {
    const bool keep = c.flag("keepdims", true);
    for (int64_t i = 0; i < n; ++i) items.emplace_back(keep ? narrow(x, axis, i, 1) : select(x, axis, i));
    return {Value::of(std::move(items))};
  }
  Ints sizes = c.ints(size_t{1});
  if (c.value(1).tensor.dim() == 0) {
    const int64_t step = sizes[0];
    STRATA_CHECK(step > 0, Value, "split is {}", step);
    sizes.clear();
    for (int64_t i = 0; i < n; i += step) sizes.push_back(std::min(step, n - i));
  }
  for (Tensor& t : split_with_sizes(x, sizes, axis)) items.emplace_back(std::move(t));
  return {Value::of(std::move(items))};
}
Values map(NodeCall& c) {
  const std::vector<Value> items = items_of(c, 0);
  std::vector<std::vector<Value>> results(c.outputs());
  for (size_t i = 0; i < items.size(); ++i) {
    Values inputs{items[i]};
    for (size_t k = 1; k < c.inputs(); ++k) {
      const Value& more = c.value(k);
      STRATA_CHECK(!more.sequence || more.sequence->size() == items.size(), Value, "the sequences have {} and {} items",
                   items.size(), more.sequence->size());
      inputs.push_back(more.sequence ? (*more.sequence)[i] : more);
    }
    Values now = c.run("body", inputs);
    STRATA_CHECK(now.size() >= results.size(), Runtime, "the body has {} outputs; expected {}", now.size(),
                 results.size());
    for (size_t k = 0; k < results.size(); ++k) results[k].push_back(std::move(now[k]));
  }
  Values out;
  for (auto& r : results) out.push_back(Value::of(std::move(r)));
  return out;
}
// An optional value is the value itself, or nothing.
Values optional(NodeCall& c) { return {c.inputs() ? c.value(0) : Value()}; }
Values get_element(NodeCall& c) {
  STRATA_CHECK(c.has(size_t{0}), Value, "the optional value is empty");
  return {c.value(0)};
}
Values has_element(NodeCall& c) { return one(full({}, c.has(size_t{0}), TensorOptions(DType::Bool))); }

const OpEntry kSequence[] = {
  {"SequenceEmpty", 11, 0, 0, nullptr, empty},
  {"SequenceConstruct", 11, 1, -1, nullptr, construct},
  {"SequenceAt", 11, 2, 2, nullptr, at},
  {"SequenceInsert", 11, 2, 3, nullptr, insert},
  {"SequenceErase", 11, 1, 2, nullptr, erase},
  {"SequenceLength", 11, 1, 1, nullptr, length},
  {"SequenceMap", 17, 1, -1, nullptr, map},
  {"ConcatFromSequence", 11, 1, 1, nullptr, concat_from},
  {"SplitToSequence", 11, 1, 2, nullptr, split_to},
  {"Optional", 15, 0, 1, nullptr, optional},
  {"OptionalGetElement", 15, 1, 1, nullptr, get_element},
  {"OptionalHasElement", 15, 0, 1, nullptr, has_element},
};
}  // namespace

OpTable sequence_ops() { return kSequence; }

}  // namespace strata::onnx
