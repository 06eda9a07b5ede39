#include "cpu/pointwise/tile_plan.h"

#include <cstring>
#include <numeric>

#include "cpu/movement/runs.h"
#include "cpu/pointwise/tiles.h"

namespace strata::cpu {
namespace {

using At = Place::At;
constexpr int64_t kTileBytes = 2048;     // of a register without rows: those of a long group fit into the L1 cache
constexpr int64_t kRowTileBytes = 6144;  // with short rows; longer ones stay in the L2 cache

int64_t bytes_of(DType t) { return static_cast<int64_t>(size_of(t)); }

// A value that actions read: the result of a step, a tensor, or the values of rows repeated for their elements.
struct Value {
  size_t last = 0;  // step that reads it last
  bool read = false;
  bool loaded = false;
  bool owned = false;  // it has a register
  Place place;
};

template <class T> class Planner {
  using Plan = TilePlan<T>;
  using Action = typename Plan::Action;
  static constexpr DType kType = dtype_of<T>;

 public:
  Planner(const FusedProgram& program, Plan& plan)
      : p_(program), plan_(plan), steps_(p_.steps.size()), spreads_(p_.steps.size()), tensors_(p_.tensors.size()) {
    shape_ = Ref<TensorImpl>::adopt(TensorImpl::make());
    shape_->set_shape(Shape(p_.shape.data(), p_.shape.size()));
    shape_->set_contiguous_strides();
    plan_.row = p_.row;
    plan_.elements = shape_.numel();
    choose_tile();
  }

  void run() {
    find_last_uses();
    for (size_t i = 0; i < p_.steps.size(); ++i)
      if (p_.steps[i].formula) add_loop(i);
      else if (p_.steps[i].output == 0) add_rows(i);
    plan_.scratch = scratch_;
  }

 private:
  void choose_tile() {
    int64_t align = 1, whole = 1;  // in elements, in rows
    for (const FusedStep& s : p_.steps) {
      if (s.formula) continue;
      align = std::max(align, s.rows->align);
      whole = std::max(whole, s.rows->together);
      plan_.unit = std::max(plan_.unit, s.rows->unit);
    }
    whole = std::max(whole, align / std::gcd(align, p_.row));
    const int64_t bytes = p_.row == 1 ? kTileBytes : kRowTileBytes;
    const int64_t most = std::max<int64_t>(1, bytes / static_cast<int64_t>(sizeof(T)) / p_.row);
    plan_.tile_rows = std::max(whole, most / whole * whole);
    if (plan_.unit) plan_.tile_rows = std::min(plan_.tile_rows, plan_.unit);
  }

  static bool by_rows(const FusedStep& s) { return s.part.extent == RowExtent::Rows; }
  // Whether a step reads one value per row of an operand where it needs elements.
  bool spreads(const FusedStep& s, int k) const {
    const FusedOperand& from = s.from[k];
    return from.kind == FusedOperand::Kind::Step && by_rows(p_.steps[from.index]) &&
           extent_of(s, k) == RowExtent::Elements;
  }
  static RowExtent extent_of(const FusedStep& s, int k) {
    return s.formula ? s.part.extent : s.rows->in[static_cast<size_t>(k)].extent;
  }
  Value& value_of(const FusedStep& s, int k) {
    const FusedOperand& from = s.from[k];
    if (from.kind == FusedOperand::Kind::Tensor) return tensors_[from.index];
    return spreads(s, k) ? spreads_[from.index] : steps_[from.index];
  }
  void find_last_uses() {
    for (size_t i = 0; i < p_.steps.size(); ++i)
      for (int k = 0; k < p_.steps[i].inputs(); ++k) {
        if (p_.steps[i].from[k].kind == FusedOperand::Kind::Number) continue;
        const FusedOperand& from = p_.steps[i].from[k];
        for (Value* v :
             {&value_of(p_.steps[i], k), from.kind == FusedOperand::Kind::Step ? &steps_[from.index] : nullptr})
          if (v) {
            v->last = i;
            v->read = true;
          }
      }
  }

  // --- scratch memory -----------------------------------------------------------------------------------------------
  // A little more than the values, so that equal places of two registers are not equally far from a page boundary.
  int64_t reserve(int64_t bytes) {
    const int64_t at = scratch_;
    scratch_ += (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes + kVectorBytes;
    return at;
  }
  Place take(bool rows, int64_t width = 1, int64_t size = sizeof(T)) {
    if (rows) return {At::Scratch, nullptr, reserve(plan_.tile_rows * width * size)};
    if (free_.empty())
      return {At::Scratch, nullptr, reserve(plan_.tile_rows * plan_.row * static_cast<int64_t>(sizeof(T)))};
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }
  void own_register(Value& v) {
    v.place = take(false);
    v.owned = true;
  }
  void give_back(Value& v) {
    if (v.owned) free_.push_back(v.place);
    v.owned = false;
  }
  void give_back_read_by(size_t i) {
    for (auto* values : {&steps_, &spreads_, &tensors_})
      for (Value& v : *values)
        if (v.read && v.last == i) give_back(v);
  }

  // --- operands -----------------------------------------------------------------------------------------------------
  Place constant(const T& value) {
    auto& v = plan_.vectors.emplace_back();
    std::fill_n(v.value, Plan::kLanes, value);
    return {At::Constant, reinterpret_cast<std::byte*>(v.value), 0};
  }
  void gather(const TensorImpl& t, const Place& to, std::vector<Action>& list) {
    Walk& walk = plan_.walks.emplace_back(*shape_);
    walk.add(t);
    walk.collapse();
    Action& a = list.emplace_back(Action{.kind = Action::Kind::Gather});
    a.out[0] = to;
    a.walk = &walk;
  }
  void convert(const Place& from, DType type, const Place& to, bool rows = false, int64_t width = 1) {
    Action& a = plan_.actions.emplace_back(Action{.kind = Action::Kind::Convert, .by_rows = rows, .width = width});
    a.in[0] = from;
    a.out[0] = to;
    a.type = type;
  }
  // Whether every row of the tensor is the same one.
  bool repeats_rows(const TensorImpl& t) const {
    if (plan_.row == 1) return false;
    int64_t rest = plan_.row;
    for (int d = t.ndim, full = shape_->ndim; d-- > 0;) {
      --full;
      const bool inside = rest > 1;
      rest = inside ? rest / shape_->shape[full] : rest;
      if (!inside && t.shape[d] != 1 && t.strides[d] != 0) return false;
    }
    return true;
  }
  // Values of a tensor with elements. `all`: in memory for each element, also if they are the same.
  void load_elements(const TensorImpl& t, bool all, Value& v) {
    const bool one = t.numel == 1 || repeats_one(t);
    if (one && !all) {
      T value;
      load_run(&value, t.data, t.dtype, 1, 1);
      v.place = constant(value);
    } else if (t.contiguous && t.numel == plan_.elements && t.dtype == kType) {
      v.place = {At::Elements, t.data, static_cast<int64_t>(sizeof(T))};
      plan_.streams.push_back({t.data, plan_.row * static_cast<int64_t>(sizeof(T))});
    } else if (one || repeats_rows(t)) {  // the same for all tiles
      v.place = {At::Scratch, nullptr, reserve(plan_.tile_rows * plan_.row * static_cast<int64_t>(sizeof(T)))};
      gather(t, v.place, plan_.before);
    } else {
      own_register(v);
      if (t.contiguous && t.numel == plan_.elements) {
        convert({At::Elements, t.data, bytes_of(t.dtype)}, t.dtype, v.place);
        plan_.streams.push_back({t.data, plan_.row * bytes_of(t.dtype)});
      } else {
        gather(t, v.place, plan_.actions);
      }
    }
  }
  void load_rows(const TensorImpl& t, int64_t width, bool all, Value& v) {
    const Place from{At::Rows, t.data, width * bytes_of(t.dtype)};
    if (t.numel == 1 && !all) {
      load_elements(t, false, v);
    } else if (t.dtype == kType) {
      v.place = from;
    } else {
      v.place = take(true, width);
      convert(from, t.dtype, v.place, true, width);
    }
  }
  // Brings operand k of a step to where its values can be read.
  Place operand(const FusedStep& s, int k) {
    const FusedOperand& from = s.from[k];
    if (from.kind == FusedOperand::Kind::Number) {
      T number;
      std::memcpy(&number, &from.number, sizeof number);
      return constant(number);
    }
    Value& v = value_of(s, k);
    if (from.kind == FusedOperand::Kind::Tensor) {
      const RowPart& part = p_.parts[from.index];
      const bool all = !s.formula, again = v.loaded && all && v.place.at == At::Constant;
      if (!v.loaded || again) {
        if (part.extent == RowExtent::Rows) load_rows(*p_.tensors[from.index], part.width, all, v);
        else load_elements(*p_.tensors[from.index], all, v);
        v.loaded = true;
      }
    } else if (spreads(s, k) && !v.loaded) {
      own_register(v);
      Action& a = plan_.actions.emplace_back(Action{.kind = Action::Kind::Spread});
      a.in[0] = steps_[from.index].place;
      a.out[0] = v.place;
      v.loaded = true;
    }
    return v.place;
  }

  // --- steps --------------------------------------------------------------------------------------------------------
  Place memory_of(const FusedStep& s) const {
    if (by_rows(s)) return {At::Rows, s.to, s.part.width * bytes_of(s.type)};
    return {At::Elements, s.to, bytes_of(s.type)};
  }
  // Stores a register in the dtype of the result; later steps read the rounded values.
  void store(const FusedStep& s, const Value& v) {
    const bool exact = s.type == kType || s.type == DType::Bool;  // bools are 0 and 1 in every type
    if (!s.to && (exact || !v.read)) return;
    Place to = memory_of(s);
    if (!s.to) {
      if (narrow_.at == At::Nowhere)
        narrow_ = {At::Scratch, nullptr, reserve(plan_.tile_rows * plan_.row * static_cast<int64_t>(sizeof(T)))};
      to = narrow_;
    }
    Action& a = plan_.actions.emplace_back(Action{.kind = Action::Kind::Store, .by_rows = by_rows(s)});
    a.in[0] = v.place;
    a.out[0] = to;
    a.type = s.type;
    if (!exact && v.read) convert(to, s.type, v.place, by_rows(s));
  }

  void add_loop(size_t i) {
    const FusedStep& s = p_.steps[i];
    Action a{.kind = Action::Kind::Loop, .by_rows = by_rows(s)};
    a.loop = tile_loop<T>(*s.formula);
    for (int k = 0; k < s.formula->members; ++k) std::memcpy(&a.members[k], &s.members[k], sizeof(T));
    for (int k = 0; k < s.formula->inputs; ++k) {
      a.in[k] = operand(s, k);
      a.mask[k] = a.in[k].at == At::Constant ? 0 : ~size_t{0};
    }
    give_back_read_by(i);  // a loop may write over its operands
    Value& v = steps_[i];
    const bool in_memory = s.to && s.type == kType;
    if (in_memory) v.place = memory_of(s);
    else if (by_rows(s)) v.place = take(true);
    else own_register(v);
    a.out[0] = v.place;
    plan_.actions.push_back(a);
    if (in_memory) return;
    store(s, v);
    if (!v.read) give_back(v);
  }

  void add_rows(size_t i) {
    const FusedStep& first = p_.steps[i];
    Action a{.kind = Action::Kind::Rows};
    a.rows = first.rows.get();
    for (int k = 0; k < first.inputs(); ++k) a.in[k] = operand(first, k);
    size_t end = i;
    for (; end < p_.steps.size() && p_.steps[end].rows == first.rows; ++end) {
      const FusedStep& s = p_.steps[end];
      if (s.part.extent == RowExtent::Whole) continue;
      Value& v = steps_[end];
      const bool as_it_is = by_rows(s) || s.type == DType::Bool || s.type == kType;
      if (s.to && as_it_is) v.place = memory_of(s);
      else if (by_rows(s)) v.place = take(true, s.part.width, bytes_of(s.type));
      else own_register(v);
      a.out[s.output] = v.place;
    }
    plan_.actions.push_back(a);
    give_back_read_by(i);
    for (size_t k = i; k < end; ++k) {
      const FusedStep& s = p_.steps[k];
      Value& v = steps_[k];
      if (s.part.extent == RowExtent::Whole) continue;
      if (by_rows(s) || s.type == DType::Bool) {
        if (s.type != kType && v.read) {
          const Place from = v.place;
          give_back(v);  // after this step, as its bytes are read while others are written
          if (by_rows(s)) v.place = take(true, s.part.width);
          else v.place = {At::Scratch, nullptr, reserve(plan_.tile_rows * plan_.row * static_cast<int64_t>(sizeof(T)))};
          convert(from, s.type, v.place, by_rows(s), s.part.width);
        }
      } else if (s.type != kType) {
        store(s, v);
      }
      if (!v.read) give_back(v);
    }
  }

  const FusedProgram& p_;
  Plan& plan_;
  Tensor shape_;
  std::vector<Value> steps_, spreads_, tensors_;
  std::vector<Place> free_;
  Place narrow_;  // a rounded tile that is not kept
  int64_t scratch_ = 0;
};

}  // namespace

template <class T> TilePlan<T>::TilePlan(const FusedProgram& program) { Planner<T>(program, *this).run(); }
template struct TilePlan<float>;
template struct TilePlan<double>;

}  // namespace strata::cpu
