// STRATA_COMPILE=check: the results of deferred ops as their own kernels compute them (dispatch/deferred.h).
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "record/op.h"
#include "tensor/generator.h"

namespace strata {

// Where the generators were before a call, which draws its numbers when it is deferred.
class DrawsOf {
 public:
  explicit DrawsOf(const Args& args);
  void swap();  // with where they are now

 private:
  void add(Generator& g);
  std::vector<std::pair<Generator*, Generator::State>> states_;
};

class GroupCheck {
 public:
  // Computes a call that was just deferred. Arguments that the group has promised are taken from earlier calls of this.
  void add(const Call& c, DrawsOf& draws);
  void drop(const Storage& s) { expected_.erase(&s); }
  void clear() { expected_.clear(); }
  // What is wrong with the computed value of this memory; empty: nothing.
  std::string objection(Storage& memory) const;

 private:
  struct Expected {
    const OpRecord* op;
    std::string line;
    Tensor value;  // of the result, in a copy of all of its memory
  };
  Tensor stand_in(const TensorImpl& t) const;

  std::unordered_map<const Storage*, Expected> expected_;
};

// Changes one element of the memory, if a fault is planted for the op.
void apply_group_fault(const OpRecord& op, Storage& memory, Device device);

}  // namespace strata
