#include "cpu/pointwise/tiles.h"

#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "base/parallel.h"
#include "cpu/movement/runs.h"
#include "cpu/pointwise/gather.h"

namespace strata::cpu {
namespace {

constexpr int64_t kTileBytes = 2048;  // of a register: those of a long group fit into the L1 cache
constexpr int64_t kGrain = 32768;     // minimum elements per thread

struct alignas(kVectorBytes) Register {
  std::byte bytes[kTileBytes];
};

template <class T> class Tiles {
 public:
  explicit Tiles(const FusedProgram& program) : p_(program), out_(make_shape(program)), n_(out_->numel) {
    for (const Tensor& t : p_.tensors) add_source(*t);
    for (const FusedStep& s : p_.steps) add_numbers(s);
    assign_registers();
  }

  void run() const {
    parallel_for(n_, kGrain, [&](int64_t begin, int64_t end) {
      const std::unique_ptr<Register[]> memory(
        new Register[static_cast<size_t>(registers_) + 1]);  // no limit applies to it
      for (int64_t at = begin; at < end; at += kTile) tile(at, std::min(kTile, end - at), memory[0].bytes);
    });
  }

 private:
  static constexpr int64_t kTile = kTileBytes / static_cast<int64_t>(sizeof(T));
  static constexpr size_t kLanes = kVectorBytes / sizeof(T);

  // How the tiles of a tensor are read.
  struct Source {
    enum class Kind { InPlace, OneValue, Converted, Gathered } kind;
    const TensorImpl* t;
    alignas(kVectorBytes) T value[kLanes];  // OneValue
    std::optional<Walk> walk;               // Gathered
    int place = -1;                         // its register, unless it is read in place
    size_t first = SIZE_MAX, last = 0;      // steps that use it
  };

  // The numbers of a step, as vectors of copies, and its members.
  struct Numbers {
    alignas(kVectorBytes) T value[kMaxOperands][kLanes];
    T members[kMaxMembers];
  };

  static Tensor make_shape(const FusedProgram& p) {
    Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
    t->set_shape(Shape(p.shape.data(), p.shape.size()));
    t->set_contiguous_strides();
    return t;
  }

  void add_source(const TensorImpl& t) {
    Source& s = sources_.emplace_back();
    s.t = &t;
    const bool whole = t.contiguous && t.numel == n_;
    if (t.numel == 1 || repeats_one(t)) {
      s.kind = Source::Kind::OneValue;
      load_run(s.value, t.data, t.dtype, 1, 1);
      std::fill_n(s.value, kLanes, s.value[0]);
    } else if (whole) {
      s.kind = t.dtype == dtype_of<T> ? Source::Kind::InPlace : Source::Kind::Converted;
    } else {
      s.kind = Source::Kind::Gathered;
      s.walk.emplace(*out_);
      s.walk->add(t);
      s.walk->collapse();
    }
  }

  void add_numbers(const FusedStep& s) {
    Numbers& numbers = numbers_.emplace_back();
    const auto read = [](int64_t bits) {
      T number;
      std::memcpy(&number, &bits, sizeof number);
      return number;
    };
    for (int k = 0; k < s.formula->inputs; ++k)
      if (s.from[k].kind == FusedOperand::Kind::Number) std::fill_n(numbers.value[k], kLanes, read(s.from[k].number));
    for (int k = 0; k < s.formula->members; ++k) numbers.members[k] = read(s.members[k]);
  }

  static bool needs_register(const Source& s) {
    return s.kind == Source::Kind::Converted || s.kind == Source::Kind::Gathered;
  }
  // Whether the loop of a step writes into the memory of its result.
  static bool in_place(const FusedStep& s) { return s.to && s.type == dtype_of<T>; }

  void assign_registers() {
    std::vector<size_t> last(p_.steps.size(), 0);
    for (size_t i = 0; i < p_.steps.size(); ++i)
      for (int k = 0; k < p_.steps[i].formula->inputs; ++k) {
        const FusedOperand& from = p_.steps[i].from[k];
        if (from.kind == FusedOperand::Kind::Step) last[from.index] = i;
        if (from.kind != FusedOperand::Kind::Tensor) continue;
        Source& s = sources_[from.index];
        s.first = std::min(s.first, i);
        s.last = i;
      }
    std::vector<int> free;
    const auto take = [&] {
      if (free.empty()) return registers_++;
      const int place = free.back();
      free.pop_back();
      return place;
    };
    places_.assign(p_.steps.size(), -1);
    last_use_ = last;
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      for (Source& s : sources_)
        if (s.first == i && needs_register(s)) s.place = take();
      // A loop may write over its operands, so their registers are free for the result.
      for (Source& s : sources_)
        if (s.last == i && s.place >= 0 && s.first != SIZE_MAX) free.push_back(s.place);
      for (size_t k = 0; k < i; ++k)
        if (last[k] == i && places_[k] >= 0) free.push_back(places_[k]);
      if (in_place(p_.steps[i])) continue;
      places_[i] = take();
      if (last[i] == 0) free.push_back(places_[i]);  // stored, and used by no step
    }
  }

  void load(const Source& s, int64_t at, int64_t n, T* to) const {
    if (s.kind == Source::Kind::Converted)
      return load_run(to, s.t->data + at * static_cast<int64_t>(size_of(s.t->dtype)), s.t->dtype, 1, n);
    int64_t index[kMaxDims];
    s.walk->locate(at, index);
    gather(*s.walk, 1, index, n, to);
  }

  void tile(int64_t at, int64_t n, std::byte* memory) const {
    const auto place = [&](int k) { return reinterpret_cast<T*>(memory + k * kTileBytes); };
    std::byte* const narrow = memory + registers_ * kTileBytes;  // a rounded tile that is not kept
    for (size_t i = 0; i < p_.steps.size(); ++i) {
      const FusedStep& s = p_.steps[i];
      for (const Source& source : sources_)
        if (source.first == i && source.place >= 0) load(source, at, n, place(source.place));
      const T* in[kMaxOperands];
      size_t mask[kMaxOperands];
      for (int k = 0; k < s.formula->inputs; ++k) {
        const FusedOperand& from = s.from[k];
        mask[k] = ~size_t{0};
        if (from.kind == FusedOperand::Kind::Number) {
          in[k] = numbers_[i].value[k];
          mask[k] = 0;
        } else if (from.kind == FusedOperand::Kind::Step) {
          const int held = places_[from.index];
          in[k] = held >= 0 ? place(held) : reinterpret_cast<T*>(p_.steps[from.index].to) + at;
        } else {
          const Source& source = sources_[from.index];
          const bool one = source.kind == Source::Kind::OneValue;
          if (one) mask[k] = 0;
          in[k] = one                 ? source.value
                  : source.place >= 0 ? place(source.place)
                                      : reinterpret_cast<const T*>(source.t->data) + at;
        }
      }
      T* const out = places_[i] >= 0 ? place(places_[i]) : reinterpret_cast<T*>(s.to) + at;
      tile_loop<T> (*s.formula)(numbers_[i].members, in, mask, out, static_cast<size_t>(n));
      if (places_[i] < 0) continue;
      const bool exact = s.type == dtype_of<T> || s.type == DType::Bool;  // bools are 0 and 1 in every type
      if (!s.to && exact) continue;
      std::byte* const stored = s.to ? s.to + at * static_cast<int64_t>(size_of(s.type)) : narrow;
      store_run(out, stored, s.type, 1, n);
      if (!exact && last_use_[i]) load_run(out, stored, s.type, 1, n);
    }
  }

  const FusedProgram& p_;
  Tensor out_;  // the shape
  int64_t n_;
  std::deque<Source> sources_;  // not a vector: a Walk cannot be moved
  std::vector<Numbers> numbers_;
  std::vector<int> places_;  // the register of each result; -1: it is written where it is stored
  std::vector<size_t> last_use_;
  int registers_ = 0;
};

}  // namespace

void run_tiles(const FusedProgram& program) {
  dispatch_compute(program.compute, [&]<class T>() { Tiles<T>(program).run(); });
}

}  // namespace strata::cpu
