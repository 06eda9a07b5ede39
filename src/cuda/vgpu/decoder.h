// From a parsed kernel to a Program: registers get offsets, names become addresses, calls are inlined.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/vgpu/builder.h"

namespace strata::cuda::vgpu {

using Symbols = std::map<std::string, uint64_t>;  // addresses of the module's variables in device memory

// Throws Error: Value for invalid PTX, NotImplemented "unsupported instruction ..." for missing instructions.
Program decode(const ptx::Module& module, const ptx::Function& entry, const Symbols& symbols);

class Decoder {
 public:
  Decoder(const ptx::Module& module, const Symbols& symbols) : module_(module), symbols_(symbols) {}
  Program run(const ptx::Function& entry);

 private:
  friend class Builder;
  struct Register {
    uint32_t place = 0;
    Type type = Type::None;
  };
  struct Name {  // the meaning of a name in an operand
    enum Kind : uint8_t { Unknown, InRegister, Constant } kind = Unknown;
    Register reg;
    uint64_t bits = 0;
    Space space = Space::Global;
    bool dynamic = false;  // an offset from the start of the launch's dynamic shared memory
  };
  // A function being laid out: the kernel, or an inlined call.
  struct Frame {
    const ptx::Function* function = nullptr;
    std::vector<std::map<std::string, Register>> registers;  // per scope
    std::map<std::string, uint32_t> variables;               // "scope:name" to its address in shared or local memory
    std::map<std::string, uint32_t> params;                  // offset in parameter memory, or address in local memory
    std::vector<uint32_t> position;                          // of each statement in the code
  };
  struct Jump {
    uint32_t at, frame;
    uint32_t statement;
    uint32_t table = 0, slot = 0;  // for an indexed branch
    bool indexed = false;
  };

  void lay_out(Frame& frame, uint32_t id, int depth);
  void instruction(uint32_t frame, const ptx::Instruction& in, int depth);
  bool control(uint32_t frame, const ptx::Instruction& in, int depth);
  void branch(uint32_t frame, const ptx::Instruction& in, uint32_t statement);
  void indexed(uint32_t frame, const ptx::Instruction& in);
  void call(const ptx::Instruction& in, int depth);
  void barrier(const ptx::Instruction& in);
  void form_blocks();
  void count_registers();

  Name find(const std::string& name, uint32_t scope);
  uint32_t label(const Frame& frame, const ptx::Instruction& in, const std::string& name) const;
  uint32_t reserve(int bytes);  // offset of 32 cells, or of a mask for 0 bytes
  uint32_t constant(uint64_t bits, int bytes, bool dynamic = false);
  uint32_t local_address(const ptx::Variable& v);
  uint32_t push(const Inst& i, const ptx::Instruction& in, Class counted, End end, uint32_t members);
  [[noreturn]] void wrong(const ptx::Instruction& in, const std::string& what) const;

  const ptx::Module& module_;
  const Symbols& symbols_;
  Program program_;
  std::vector<std::unique_ptr<Frame>> frames_;
  Frame* frame_ = nullptr;       // the one being laid out
  uint32_t top_ = 128;           // after the mask of ones at offset 0
  uint32_t dynamic_align_ = 16;  // of dynamic shared memory
  std::map<std::pair<int, uint64_t>, uint32_t> constants_;
  std::vector<size_t> dynamic_words_, dynamic_longs_;
  std::vector<Class> classes_;
  std::vector<End> ends_;
  std::vector<uint32_t> members_;  // per instruction, 0: waits for none
  std::vector<Jump> jumps_;
};

}  // namespace strata::cuda::vgpu
