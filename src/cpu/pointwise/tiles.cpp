#include "cpu/pointwise/tiles.h"

#include <memory>

#include "base/parallel.h"
#include "cpu/movement/runs.h"
#include "cpu/pointwise/gather.h"
#include "cpu/pointwise/tile_plan.h"

namespace strata::cpu {
namespace {

constexpr int64_t kGrain = 32768;  // minimum elements per thread
constexpr int64_t kLine = 64;      // bytes of a cache line

template <class T> class Tiles {
  using Plan = TilePlan<T>;
  using Action = typename Plan::Action;

 public:
  explicit Tiles(const Plan& plan) : plan_(plan), rows_(plan.elements / plan.row) {}

  void run() const {
    if (plan_.unit)
      return parallel_for((rows_ + plan_.unit - 1) / plan_.unit, grain(plan_.unit), [&](int64_t begin, int64_t end) {
        run_rows(begin * plan_.unit, std::min(rows_, end * plan_.unit));
      });
    const int64_t most = plan_.tile_rows;
    parallel_for((rows_ + most - 1) / most, grain(most),
                 [&](int64_t begin, int64_t end) { run_rows(begin * most, std::min(rows_, end * most)); });
  }

 private:
  int64_t grain(int64_t rows) const { return std::max<int64_t>(1, kGrain / (rows * plan_.row)); }

  void run_rows(int64_t begin, int64_t end) const {
    // No limit applies to this memory. It is aligned to whole vectors.
    struct alignas(kVectorBytes) Aligned {
      std::byte bytes[kVectorBytes];
    };
    const auto memory =
      std::make_unique_for_overwrite<Aligned[]>(static_cast<size_t>(plan_.scratch) / kVectorBytes + 1);
    Tile t{0, std::min(plan_.tile_rows, rows_), 0, 0, memory[0].bytes};
    t.n = t.rows * plan_.row;
    for (const Action& a : plan_.before) run(a, t);
    for (t.row = begin; t.row < end; t.row += t.rows) {
      t.rows = std::min(plan_.tile_rows, end - t.row);
      if (plan_.unit) t.rows = std::min(t.rows, plan_.unit - t.row % plan_.unit);
      t.at = t.row * plan_.row;
      t.n = t.rows * plan_.row;
      const int64_t next = t.row + t.rows, ahead = std::min(plan_.tile_rows, end - next);
      const size_t count = plan_.actions.size();
      for (size_t i = 0; i < count; ++i) {
        prefetch(next, ahead, i, count);
        run(plan_.actions[i], t);
      }
    }
  }

  // Requests a share of the next tile of all tensors that are read, so that it arrives while this one is computed: the hardware
  // does not look ahead over the pause between two tiles, and all requests at once would wait for each other.
  void prefetch(int64_t row, int64_t rows, size_t share, size_t shares) const {
    for (const auto& s : plan_.streams) {
      const int64_t lines = rows * s.pitch / kLine, n = static_cast<int64_t>(shares), i = static_cast<int64_t>(share);
      const std::byte* const p = s.memory + row * s.pitch;
      for (int64_t k = lines * i / n; k < lines * (i + 1) / n; ++k) __builtin_prefetch(p + k * kLine);
    }
  }

  static void run(const Action& a, const Tile& t) {
    const int64_t n = a.by_rows ? t.rows * a.width : t.n;
    switch (a.kind) {
      case Action::Kind::Loop: {
        const T* in[kMaxOperands];
        for (size_t k = 0; k < kMaxOperands; ++k) in[k] = reinterpret_cast<const T*>(a.in[k].of(t));
        return a.loop(a.members, in, a.mask, reinterpret_cast<T*>(a.out[0].of(t)), static_cast<size_t>(n));
      }
      case Action::Kind::Rows: {
        RowBlock block{t.row, t.rows, {}, {}};
        if (a.rows->row == 1) {  // its rows are elements
          block.first = t.at;
          block.count = t.n;
        }
        for (size_t k = 0; k < kMaxRowInputs; ++k) block.in[k] = a.in[k].of(t);
        for (size_t k = 0; k < kMaxRowOutputs; ++k) block.out[k] = a.out[k].of(t);
        return a.rows->run(block);
      }
      case Action::Kind::Gather: {
        int64_t index[kMaxDims];
        a.walk->locate(t.at, index);
        return gather(*a.walk, 1, index, n, reinterpret_cast<T*>(a.out[0].of(t)));
      }
      case Action::Kind::Convert: return load_run(reinterpret_cast<T*>(a.out[0].of(t)), a.in[0].of(t), a.type, 1, n);
      case Action::Kind::Store:
        return store_run(reinterpret_cast<const T*>(a.in[0].of(t)), a.out[0].of(t), a.type, 1, n);
      case Action::Kind::Spread: {
        const T* const values = reinterpret_cast<const T*>(a.in[0].of(t));
        T* const to = reinterpret_cast<T*>(a.out[0].of(t));
        const int64_t each = t.n / t.rows;
        for (int64_t r = 0; r < t.rows; ++r) std::fill_n(to + r * each, each, values[r]);
      }
    }
  }

  const Plan& plan_;
  const int64_t rows_;
};

}  // namespace

void run_tiles(const FusedProgram& program) {
  dispatch_compute(program.compute, [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      const TilePlan<T> plan(program);
      Tiles<T>(plan).run();
    }
  });
  std::byte* outs[kMaxRowOutputs];
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const auto& rows = program.steps[i].rows;
    if (!rows || !rows->finish || program.steps[i].output > 0) continue;
    std::ranges::fill(outs, nullptr);
    for (size_t k = i; k < program.steps.size() && program.steps[k].rows == rows; ++k)
      outs[program.steps[k].output] = program.steps[k].to;
    rows->finish(outs);
  }
}

}  // namespace strata::cpu
