// Input of handler selection: one PTX instruction, its modifiers and operands, and the decoded instruction to fill.
#pragma once
#include <string_view>
#include <vector>

#include "cuda/vgpu/program.h"
#include "cuda/vgpu/ptx/module.h"

namespace strata::cuda::vgpu {

class Decoder;

// Every modifier must be queried before emit(): an unqueried one makes the instruction unsupported.
class Builder {
 public:
  Builder(Decoder& decoder, const ptx::Instruction& in);
  const ptx::Instruction& in;
  Inst out;

  bool flag(std::string_view modifier);                            // whether it is present; marks it as known
  void ignore(std::initializer_list<std::string_view> modifiers);  // known, without effect here
  Type type();                                                     // the next modifier that is a type; None at the end
  void rounding();                                                 // .rn .rz .rm .rp into out
  size_t count() const { return in.operands.size(); }
  void operands(size_t least, size_t most) const;

  uint32_t dst(size_t k, Type type) { return dst(operand(k), type); }
  uint32_t src(size_t k, Type type) { return src(operand(k), type); }
  uint32_t dst(const ptx::Operand& o, Type type);  // its cells must match the type; "_" discards the result
  uint32_t src(const ptx::Operand& o, Type type);
  uint32_t any_dst(const ptx::Operand& o, uint8_t& bytes);             // any register, with the size of its cells
  uint32_t any_src(const ptx::Operand& o, Type type, uint8_t& bytes);  // a number has the size of the type
  uint32_t predicate(const ptx::Operand& o, bool written);
  uint32_t constant(uint64_t bits, int bytes);
  uint32_t scratch(int bytes);
  uint32_t place(uint32_t p);                            // appends to Program::places, returns the index
  uint32_t place_all(const std::vector<uint32_t>& all);  // the index of the first
  void address(size_t k, Space space);                   // [a + imm] into out
  void memory(Space space);                              // a site for the counters
  Space space();                                         // .global and so on; Generic if none
  const ptx::Operand& operand(size_t k) const;
  Program& program();

  void emit(Handler handler, Class counted);
  void emit_together(Handler handler, Class counted, uint32_t members);  // waits for the lanes in this mask
  void emit_wait(WaitOp op);                                             // an instruction at which lanes may wait
  [[noreturn]] void unsupported(std::string_view why = {}) const;
  [[noreturn]] void wrong(const std::string& what) const;  // not PTX

 private:
  void refuse_unknown() const;
  Decoder& decoder_;
  std::vector<bool> known_;
};

// One per file in lanes/: returns true if the instruction belongs to it.
bool select_integer(Builder& b);
bool select_bits(Builder& b);
bool select_float(Builder& b);
bool select_half(Builder& b);
bool select_compare(Builder& b);
bool select_convert(Builder& b);
bool select_move(Builder& b);
bool select_memory(Builder& b);
bool select_atomic(Builder& b);
bool select_async(Builder& b);
bool select_exchange(Builder& b);
bool select_matrix(Builder& b);
bool select_wmma(Builder& b);
bool select_wgmma(Builder& b);
bool select_mbarrier(Builder& b);
bool select_bulk(Builder& b);
bool select_cluster(Builder& b);

}  // namespace strata::cuda::vgpu
