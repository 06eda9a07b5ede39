// Reads the arguments of a call of an op: positional ones, keywords, and the defaults of the others.
#pragma once
#include <string>

#include "python/parse.h"

namespace strata::python {

// One of the ops of a name. What every call asks of its parameters is here, in a few bytes, as their list in the record
// is long and elsewhere.
struct Overload {
  // The last positional parameter takes all further arguments: view(2, 3), block_diag(a, b).
  enum class Tail : uint8_t { None, Ints, Tensors };

  const OpRecord* op;
  PyTypeObject* result = nullptr;      // named tuple of several outputs
  uint32_t tensors = 0;                // mask of the parameters that are one tensor
  uint32_t numbers = 0;                // mask of those that take a plain number
  uint32_t measured = 0;               // mask of those whose value tells how long the op takes: tensors and sizes
  uint32_t without_default = 0;        // mask of those that must be given
  uint32_t count = 0, positional = 0;  // parameters; those before the '*'
  Tail tail = Tail::None;
  bool needs_tensor = false;         // plain numbers alone are refused
  PyObject* names[Args::kMax] = {};  // interned, so that keywords are found by comparing pointers

  explicit Overload(const OpRecord& op);
};

// An attempt to read the arguments of a call as those of one overload.
class alignas(64) Attempt {  // its first cache lines hold what every call uses
 public:
  Parser parser;
  PyObject* out = nullptr;                        // the out= argument
  std::string why;                                // the reason if it failed
  bool inplace_keyword = false, inplace = false;  // whether the name takes inplace=; whether it was true

  bool read(const Overload& o, PyObject* const* values, uint32_t given, PyObject* keywords);

 private:
  bool put(const Overload& o, uint32_t i, PyObject* value) {
    if ((o.tensors >> i & 1) && Py_TYPE(value) == tensor_type) [[likely]]
      return assign(parser.args[i], Value(impl_of(value)));
    return put_other(o, i, value);
  }
  bool put_other(const Overload& o, uint32_t i, PyObject* value);
  // The values from `at` on as the list that is parameter `at`.
  bool put_ints(const Overload& o, PyObject* const* values, uint32_t given, uint32_t at) {
    return parser.ints_from(values + at, given - at, parser.args[at]) || refuse_list(o, at, "integers");
  }
  bool put_tensors(const Overload& o, PyObject* const* values, uint32_t given, uint32_t at) {
    return parser.tensors_from(o.op->params[at], values + at, given - at, parser.args[at]) ||
           refuse_list(o, at, "Tensors");
  }
  [[gnu::cold]] bool refuse_list(const Overload& o, uint32_t at, const char* expected);
  bool keyword(const Overload& o, PyObject* name, PyObject* value, uint32_t& filled);
  bool has_tensor(const Overload& o) const;
  bool reject(std::string reason);
};

bool init_op_arguments();

}  // namespace strata::python
