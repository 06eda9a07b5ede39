// The recursive-descent parser of PTX: state, and functions shared by its two files.
#pragma once
#include <string>
#include <vector>

#include "cuda/vgpu/ptx/lexer.h"
#include "cuda/vgpu/ptx/module.h"

namespace strata::cuda::vgpu::ptx {

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source), tokens_(tokens_of(source)) {}
  Module run();

 private:
  // parser.cpp: declarations
  void top_level();
  void function(bool entry);
  std::vector<Variable> parameters();
  Variable variable(Space space, uint32_t align);
  void initialiser(Variable& v);
  void skip_directive_line() { skip_line(peek().line); }
  void skip_line(uint32_t line);  // the rest of it
  void skip_section();
  // body.cpp: statements
  void body(Function& f);
  void statement(Function& f, uint32_t scope);
  void location();
  void registers(Scope& scope);
  void instruction(Function& f, uint32_t scope);
  Operand operand();
  Operand address();
  Operand number(bool minus);
  int64_t integer();

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string word(const char* what);
  [[noreturn]] void fail_here(const std::string& what) const { fail_at(source_, peek().line, what); }

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  uint32_t file_ = 0, cuda_line_ = 0;  // of the last .loc
};

}  // namespace strata::cuda::vgpu::ptx
