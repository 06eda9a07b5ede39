// The plan of a group: a list of actions that are done for each tile, a piece of all tensors that stays in the cache.
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "record/fused.h"
#include "record/walk.h"

namespace strata::cpu {

struct Tile {
  int64_t row, rows;  // first row, and their number
  int64_t at, n;      // first element, and their number
  std::byte* scratch;
};

// Where the values of a tile are: in the memory of a tensor, in scratch memory of the thread, or the same for all tiles.
struct Place {
  enum class At : uint8_t { Nowhere, Elements, Rows, Scratch, Constant } at = At::Nowhere;
  std::byte* memory = nullptr;
  int64_t offset = 0;  // Scratch: in bytes; Elements, Rows: bytes of an element or row
  std::byte* of(const Tile& t) const {
    switch (at) {
      case At::Elements: return memory + t.at * offset;
      case At::Rows: return memory + t.row * offset;
      case At::Scratch: return t.scratch + offset;
      default: return memory;
    }
  }
};

template <class T> struct TilePlan {
  static constexpr size_t kLanes = kVectorBytes / sizeof(T);
  struct Vector {
    alignas(kVectorBytes) T value[kLanes];
  };
  struct Action {
    enum class Kind : uint8_t {
      Loop,     // a pointwise op
      Rows,     // an op on rows
      Gather,   // elements of a strided or broadcast tensor
      Convert,  // from the dtype of memory to T
      Store,    // from T to a dtype
      Spread    // one value for each row, repeated
    } kind;
    bool by_rows = false;  // the operands have `width` values for each row
    int64_t width = 1;
    Place in[kMaxOperands] = {}, out[kMaxRowOutputs] = {};
    size_t mask[kMaxOperands] = {};  // Loop
    Loop<T> loop = nullptr;
    T members[kMaxMembers] = {};
    const RowOp* rows = nullptr;
    const Walk* walk = nullptr;  // Gather
    DType type = DType::F32;     // Convert, Store: of the memory
  };

  int64_t row = 1, elements = 0;  // of a row, of all results
  int64_t tile_rows = 1;          // rows of a tile
  int64_t unit = 0;               // rows that one thread computes; 0: any multiple of tile_rows
  int64_t scratch = 0;            // bytes per thread
  std::vector<Action> before;     // once per thread: operands that are the same for all tiles
  std::vector<Action> actions;
  struct Stream {
    const std::byte* memory;
    int64_t pitch;  // bytes of a row
  };
  std::vector<Stream> streams;  // memory that is read from the beginning to the end
  std::deque<Vector> vectors;   // constants; not a vector: their addresses stay
  std::deque<Walk> walks;

  explicit TilePlan(const FusedProgram& program);
};

}  // namespace strata::cpu
