// A kernel ready to run: instructions whose operands are offsets in the warp's register file, and basic blocks.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cuda/vgpu/numbers.h"
#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu {

struct Warp;
struct Inst;
using Handler = void (*)(const Inst&, Warp&);

// Instruction classes for the counters.
enum class Class : uint8_t {
  Integer,
  F32,
  F64,
  F16,
  Special,
  Move,
  Convert,
  Predicate,
  Control,
  Global,
  Shared,
  Local,
  Param,
  Atomic,
  Exchange,
  Barrier,
  Matrix,
  Count,
};
inline constexpr size_t kClasses = static_cast<size_t>(Class::Count);

// d, a, b, c and `more` are byte offsets into the register file: 32 cells of 4 or 8 bytes, or one mask for a predicate.
// Constants, launch parameters and special registers have offsets too, so handlers do not distinguish operands.
struct Inst {
  Handler run = nullptr;
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t guard = 0, guard_flip = 0;  // offset 0 holds a mask of ones
  int64_t imm = 0;                     // offset of an address; otherwise depends on the handler
  uint32_t more = 0;                   // first of `count` further offsets in Program::places
  uint32_t site = 0;                   // memory instructions: index of their counters
  uint8_t count = 0;
  uint8_t d_bytes = 4, a_bytes = 4;  // cells of d and a: 4 or 8
  uint8_t op = 0;                    // a variant, depends on the handler
  bool ftz = false, sat = false, relu = false, nan = false, plain = true;
  Rounding rounding = Rounding::Nearest;
  Space space = Space::Generic;
};

// Wait: for a phase of an mbarrier, or for the cluster (WaitOp).
enum class End : uint8_t { Fall, Branch, Indexed, Exit, Barrier, Wait };
enum class WaitOp : uint8_t { Try, Test, Cluster };

struct BasicBlock {
  uint32_t first = 0, last = 0;  // instructions [first, last), without the terminator
  End end = End::Fall;
  uint32_t target = 0;        // of a branch, a block
  uint32_t terminator = 0;    // its instruction: guard, barrier operands
  bool together = false;      // begins with an instruction that waits for the lanes it names
  uint32_t members = 0;       // offset of that mask
  uint32_t instructions = 0;  // counted ones, including the terminator
  std::array<uint16_t, kClasses> mix{};
};

struct Parameter {
  std::string name;
  uint32_t offset = 0, bytes = 0;
};

struct Source {
  uint32_t line = 0;  // of the PTX
  std::string text;
  std::string file;  // of the CUDA source, if the PTX has line information
  uint32_t cuda_line = 0;
};

struct Program {
  std::string name;
  std::vector<Inst> code;
  std::vector<Source> source;  // of each instruction
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> places;                      // operands besides d, a, b and c
  std::vector<std::vector<uint32_t>> tables;         // blocks of indexed branches
  std::vector<std::pair<uint32_t, uint32_t>> words;  // constants: place, bits
  std::vector<std::pair<uint32_t, uint64_t>> longs;
  std::vector<std::pair<uint32_t, std::string>> specials;  // place, "%tid.x"
  std::vector<Parameter> params;
  std::vector<Space> sites;  // of the memory instructions
  uint32_t param_bytes = 0, register_bytes = 0, shared_bytes = 0, local_bytes = 0;
  uint32_t max_threads = 1024, registers = 0;  // registers: an estimate per thread
  // Blocks run in order, one after the other: the kernel has atomics whose results depend on it.
  bool ordered = false;
  uint32_t cluster[3] = {};  // .reqnctapercluster; 0 if not given
};

}  // namespace strata::cuda::vgpu
