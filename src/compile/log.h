// What a program asks of the pipeline, as texts: for explain().
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dispatch/observer.h"

namespace strata::graph {

struct LoggedCall {
  std::string text;                  // "%5 = mul(%3, 2.0)"
  std::string op, line, scope;       // "model.py:12"; of the module: "layers.0"
  std::vector<std::string> results;  // their types
  int64_t bytes_read = 0, bytes_written = 0;
};
// Values were asked for, so everything before had to be computed.
struct LoggedBreak {
  size_t after;  // so many calls
  std::string reason, line;
};

class STRATA_API ProgramLog final : public Observer {
 public:
  std::vector<LoggedCall> calls;
  std::vector<LoggedBreak> breaks;

  void before(const OpRecord& op, Form form, const Args& args, const Tensor* outs) override;
  void after(const OpRecord& op, const Tensor* outs, size_t count) override;
  void failed() override;
  void copies(const TensorImpl&, const TensorImpl&) override {}
  void reads(const Storage* memory, const char* why) override;
  void looks_at_grad(const TensorImpl&) override {}
  void sets_generator() override;

 private:
  std::string name_of(const TensorImpl& t);
  std::string text_of(const Value& v);
  void add_break(std::string reason);

  // Tensors are not held, so that results which nobody needs are not stored: a name is that of a view of memory.
  std::map<std::pair<const Storage*, const std::byte*>, std::string> names_;
  size_t results_ = 0, others_ = 0;
  LoggedCall pending_;
};

}  // namespace strata::graph
