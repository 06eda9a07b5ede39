// Parsed PTX: a module of variables and functions, whose bodies are instructions with named operands.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/api.h"
#include "cuda/vgpu/ptx/types.h"

namespace strata::cuda::vgpu::ptx {

struct Operand {
  enum Kind : uint8_t { Name, Integer, Float32, Float64, Address, Vector, List };
  Kind kind = Name;
  bool negated = false;        // !%p, or -%r is not PTX
  std::string name;            // a register, variable or label; the base of an address (empty: absolute)
  std::string pair;            // the second of %p|%q
  uint64_t bits = 0;           // of a number
  int64_t offset = 0;          // name + offset
  std::vector<Operand> items;  // of {a, b} and (a, b); the coordinates of [map, {x, y}]
};

struct Instruction {
  uint32_t line = 0;
  uint32_t file = 0, cuda_line = 0;  // of .loc; 0: unknown
  uint32_t scope = 0;
  std::string text;                    // as written, with whitespace collapsed
  std::string op;                      // "add"
  std::vector<std::string> modifiers;  // "rn", "f32"
  std::string guard;                   // "%p1", or empty
  bool guard_negated = false;
  std::vector<Operand> operands;

  bool has(std::string_view modifier) const;
};

struct Variable {
  Space space = Space::Global;
  Type type = Type::B8;
  uint32_t align = 1, line = 0;
  uint64_t bytes = 0;  // 0: an external array, sized by the launch
  std::string name;
  std::vector<uint8_t> init;                               // empty, or up to `bytes` bytes
  std::vector<std::pair<uint64_t, std::string>> pointers;  // offsets in init that hold the address of a variable
};

// A pair of braces in a body: names are looked up from the inside out.
struct Scope {
  int32_t parent = -1;
  std::map<std::string, Type> registers;
  std::map<std::string, Type> prefixes;                         // .reg .b32 %r<9>: "%r"
  std::map<std::string, uint32_t> labels;                       // index of the instruction after the label
  std::map<std::string, Variable> variables;                    // .shared, .local and .param in a body
  std::map<std::string, std::vector<std::string>> branchlists;  // .branchtargets
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  uint32_t line = 0;
  std::vector<Variable> results, params;
  std::vector<Scope> scopes;
  std::vector<Instruction> body;
  uint32_t max_threads = 0;                      // .maxntid, all dimensions multiplied; 0 if not given
  uint32_t max_registers = 0, least_blocks = 0;  // .maxnreg, .minnctapersm; 0 if not given
  uint32_t cluster[3] = {};                      // .reqnctapercluster; 0 if not given
};

struct Module {
  int version = 0;  // 83 is 8.3
  std::string target;
  std::map<uint32_t, std::string> files;  // of .file
  std::vector<Variable> variables;
  std::vector<std::unique_ptr<Function>> functions;
  const Function* find(std::string_view name) const;
};

// Throws Error(Value) "PTX line 7: ..." with the text of the line.
STRATA_API Module parse(std::string_view text);

}  // namespace strata::cuda::vgpu::ptx
