// Pointwise ops on int8, uint8, int16 and int32 in their own width: eight times as many elements fit a register as
// in int64, to which other kernels convert. Rows that are contiguous, or one value, are used in place; others are gathered.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/parallel.h"
#include "cpu/pointwise/pointwise.h"
#include "record/walk.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 65536;  // minimum elements per thread
constexpr int64_t kBlock = 2048;   // elements gathered at a time
constexpr int64_t kShortRow = 32;  // shorter rows are gathered, several at once
constexpr size_t kLargest = 4;     // bytes of an element

template <class F> void with_element(size_t size, const F& f) {
  if (size == 1) f.template operator()<uint8_t>();
  else if (size == 2) f.template operator()<uint16_t>();
  else f.template operator()<uint32_t>();
}

std::pair<int64_t, int64_t> limits_of(DType type) {
  const auto of = [](auto t) { return std::pair<int64_t, int64_t>(t.min(), t.max()); };
  switch (small_int(type)) {
    case small_int(DType::I8): return of(std::numeric_limits<int8_t>());
    case small_int(DType::U8): return of(std::numeric_limits<uint8_t>());
    case small_int(DType::I16): return of(std::numeric_limits<int16_t>());
    default: return of(std::numeric_limits<int32_t>());
  }
}

struct SmallInts {
  const Formula& f;
  SmallLoop loop;
  Walk w;
  std::byte members[kMaxMembers * kLargest];
  int64_t numbers[kMaxOperands];
  int view_of[kMaxOperands];  // in the walk; 0: a number

  SmallInts(const Call& c, DType type) : f(formula_of(c)), loop(f.loops.small[small_int(type)]), w(*c.out()) {
    int64_t wide[kMaxMembers];
    read_members(f, c.args, wide);
    for (int k = 0; k < f.members; ++k)  // the lower bytes: results wrap anyway
      std::memcpy(members + static_cast<size_t>(k) * size_of(type), &wide[k], size_of(type));
    const auto [low, high] = limits_of(type);
    for (int k = 0; k < f.inputs; ++k) {
      const Value& v = c.args[k];
      view_of[k] = v.tag == Tag::Tensor ? w.views : 0;
      if (view_of[k]) w.add(*v.tensor);
      else numbers[k] = std::clamp(number_operand<int64_t>(f, v, k, type), low, high);  // None is beyond the limits
    }
    w.collapse();
  }

  std::byte* at(int k, const int64_t* index) const {
    return w.view[k].data + w.offset(k, index) * static_cast<int64_t>(size_of(w.view[k].type));
  }
  int64_t step(int k) const { return w.view[k].step[w.ndim - 1]; }

  // Calls move(element in memory, its step, elements, offset in a buffer) for the rows of n elements from an index on.
  template <class F> void each_run(int k, const int64_t* start, int64_t n, const F& move) const {
    int64_t index[kMaxDims];
    std::copy_n(start, w.ndim, index);
    for (int64_t done = 0, run; done < n; done += run, w.advance(index, run)) {
      run = std::min(n - done, w.inner() - index[w.ndim - 1]);
      move(at(k, index), step(k), run, done);
    }
  }
  void gather(int k, const int64_t* start, int64_t n, std::byte* buffer) const {
    with_element(size_of(w.view[k].type), [&]<class T>() {
      each_run(k, start, n, [&](const std::byte* from, int64_t step, int64_t run, int64_t to) {
        for (int64_t i = 0; i < run; ++i)
          reinterpret_cast<T*>(buffer)[to + i] = reinterpret_cast<const T*>(from)[i * step];
      });
    });
  }
  void scatter(const int64_t* start, int64_t n, const std::byte* buffer) const {
    with_element(size_of(w.view[0].type), [&]<class T>() {
      each_run(0, start, n, [&](std::byte* to, int64_t step, int64_t run, int64_t from) {
        for (int64_t i = 0; i < run; ++i)
          reinterpret_cast<T*>(to)[i * step] = reinterpret_cast<const T*>(buffer)[from + i];
      });
    });
  }

  void run() const {
    bool whole = step(0) == 1;  // no operand needs a buffer
    for (int k = 1; k < w.views; ++k) whole &= step(k) == 1 || step(k) == 0;
    const bool rows = w.ndim == 1 || w.inner() >= kShortRow;
    parallel_for(w.total, kGrain, [&](int64_t begin, int64_t end) { part(begin, end, rows, rows && whole); });
  }

  // rows: a block is a part of one row. whole: of any length, since nothing is gathered.
  void part(int64_t begin, int64_t end, bool rows, bool whole) const {
    alignas(64) std::byte buffer[kMaxOperands + 1][kBlock * kLargest];
    const void* in[kMaxOperands];
    size_t mask[kMaxOperands];
    int64_t index[kMaxDims];
    w.locate(begin, index);
    for (int64_t position = begin, n; position < end; position += n) {
      n = std::min(end - position, whole ? w.total : kBlock);
      if (rows) n = std::min(n, w.inner() - index[w.ndim - 1]);
      for (int k = 0; k < f.inputs; ++k) {
        const int v = view_of[k];
        mask[k] = v && !(rows && step(v) == 0) ? ~size_t{0} : 0;
        if (v == 0) in[k] = &numbers[k];  // its first bytes are the narrow number
        else if (rows && (step(v) == 1 || step(v) == 0)) in[k] = at(v, index);
        else {
          gather(v, index, n, buffer[k]);
          in[k] = buffer[k];
        }
      }
      const bool direct = rows && step(0) == 1;
      loop(members, in, mask, direct ? at(0, index) : buffer[kMaxOperands], static_cast<size_t>(n));
      if (!direct) scatter(index, n, buffer[kMaxOperands]);
      if (rows) w.advance(index, n);
      else w.locate(position + n, index);
    }
  }
};
static_assert(std::endian::native == std::endian::little);
}  // namespace

const char* small_ints_ready(const Call& c) {
  const Formula& f = formula_of(c);
  const DType common = computed_type(f, c);
  if (small_int(common) < 0) return "the operands are not int8, uint8, int16 or int32";
  if (!f.loops.small[0]) return "the formula is not compiled for small integers";
  if (c.out()->dtype != (f.predicate ? DType::Bool : common)) return "the result has another dtype";
  const auto [low, high] = limits_of(common);
  for (int k = 0; k < f.inputs; ++k) {
    const Value& v = c.args[k];
    if (v.tag == Tag::Tensor) {
      if (v.tensor->dtype != common) return "an operand has another dtype";
    } else if (v) {
      const int64_t number = number_operand<int64_t>(f, v, k, common);
      if (number < low || number > high) return "a number does not fit the dtype";
    }
  }
  return nullptr;
}

void run_small_ints(const Call& c) {
  if (c.out()->numel > 0) SmallInts(c, computed_type(formula_of(c), c)).run();
}

}  // namespace strata::cpu
