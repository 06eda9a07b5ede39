#include "engine/passes/retype.h"

#include <algorithm>

#include "autograd/autograd.h"

namespace strata::engine {
namespace {

using graph::kNoValue;

// An argument without values.
class MetaArguments {
 public:
  MetaArguments(const graph::Graph& g, const graph::Node& n) : g_(g) {
    tensors_.reserve(n.args.size());
    lists_.reserve(n.args.size());
    args.size = static_cast<uint32_t>(n.args.size());
    for (uint32_t i = 0; i < args.size; ++i) args[i] = std::visit([&](const auto& a) { return of(a); }, n.args[i]);
  }
  Args args;

 private:
  Tensor meta(graph::ValueId id) const {
    if (id == kNoValue) return {};
    const graph::ValueType& type = g_.values[id].type;
    Tensor t = make_tensor(Shape(type.shape), type.dtype, DeviceType::Meta);
    std::copy(type.strides.begin(), type.strides.end(), t->strides);
    t->update_contiguous();
    return t;
  }
  Value of(std::monostate) const { return {}; }
  Value of(const graph::ValueRef& ref) { return Value(tensors_.emplace_back(meta(ref.id))); }
  Value of(const graph::ValueList& list) {
    std::vector<Tensor>& items = lists_.emplace_back();
    for (const graph::ValueId id : list.ids) items.push_back(meta(id));
    return Value(TensorList(std::span<const Tensor>(items)));
  }
  Value of(const graph::ComplexNumber& z) const { return Value(static_cast<const Complex<double>*>(&z)); }
  Value of(const std::vector<int64_t>& v) const { return Value(IntList(v)); }
  Value of(const std::vector<double>& v) const { return Value(std::span<const double>(v)); }
  Value of(const std::string& s) const { return Value(std::string_view(s)); }
  Value of(const Device&) const { return Value(Device(DeviceType::Meta)); }
  Value of(const graph::Size&) const { return refuse(); }
  Value of(const graph::Sizes&) const { return refuse(); }
  template <class T> Value of(const T& v) const { return Value(v); }
  static Value refuse() { fail(ErrorKind::NotImplemented, "a size that varies"); }

  const graph::Graph& g_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<Tensor>> lists_;
};
}  // namespace

std::vector<graph::ValueType> result_types(const graph::Graph& g, const graph::Node& n, bool same) {
  STRATA_CHECK(n.form == Form::Plain && n.bodies.empty() && !graph::count_written(n), NotImplemented,
               "{} writes to its arguments or calls functions", n.op->name);
  const MetaArguments meta(g, n);
  const autograd::NoGrad off;
  std::vector<Tensor> results(n.op->outputs);
  if (n.op->returns_list) results = call_list(*n.op, meta.args);
  else call_into(*n.op, meta.args, results.data());
  STRATA_CHECK(results.size() == n.results.size(), NotImplemented, "{} returns {} results; it was {}", n.op->name,
               results.size(), n.results.size());
  std::vector<graph::ValueType> types;
  for (size_t k = 0; k < results.size(); ++k) {
    graph::ValueType& type = types.emplace_back();
    if (n.results[k] == kNoValue) continue;
    const graph::ValueType& before = g.values[n.results[k]].type;
    STRATA_CHECK(results[k] && (!same || results[k].dtype() == before.dtype) &&
                   std::ranges::equal(results[k].shape(), before.shape),
                 NotImplemented, "the result of {} depends on values", n.op->name);
    type = graph::type_of(*results[k]);
    type.device = before.device;
  }
  return types;
}

bool keeps_type(const graph::Graph& g, const graph::Node& n) {
  try {
    return graph::same_layout(result_types(g, n)[0], g.values[n.results[0]].type);
  } catch (const Error&) { return false; }
}

}  // namespace strata::engine
