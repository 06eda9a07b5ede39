#include "dispatch/group_check.h"

#include <fmt/core.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "dispatch/choose.h"
#include "dispatch/deferred.h"
#include "dispatch/source_line.h"
#include "dispatch/value_difference.h"

namespace strata {
namespace {

std::string_view compile_text() {
  const char* text = std::getenv("STRATA_COMPILE");
  return text ? text : "";
}
std::atomic<bool> checking{compile_text() == "check"};
std::mutex fault_lock;
std::string fault;  // the op whose results are wrong

// The first bytes of some memory.
Tensor bytes_of(Storage& s, Device device, size_t bytes) {
  Tensor t(Ref<TensorImpl>::adopt(TensorImpl::make()));
  t->dtype = DType::U8;
  t->device = device;
  t->set_shape(Shape(std::array{static_cast<int64_t>(bytes)}));
  t->set_contiguous_strides();
  t->storage = Ref<Storage>::share(&s);
  t->data = s.data;
  return t;
}
// The same view of other memory.
Tensor moved(const TensorImpl& t, const Tensor& memory) {
  Tensor same = alias(t);
  same->storage = memory->storage;
  same->data = memory->storage->data + (t.data - t.storage->data);
  return same;
}
Tensor copy_of_memory(const TensorImpl& t) {
  static const OpRecord& clone = find_op("clone");
  return call(clone, Args(bytes_of(*t.storage, t.device, t.storage->requested), Value()));
}

}  // namespace

CompileMode compile_mode() {
  const std::string_view text = compile_text();
  if (text == "0") return CompileMode::Off;
  if (text == "check") return CompileMode::Check;
  if (text == "everywhere") return CompileMode::Everywhere;
  STRATA_CHECK(text.empty() || text == "1", Value,
               "STRATA_COMPILE is '{}'; expected 0 (functions run as they are), 1, check or everywhere", text);
  return CompileMode::On;
}

bool check_compiled(bool on) { return checking.exchange(on); }
bool checks_compiled() { return checking.load(std::memory_order_relaxed); }
void plant_group_fault(std::string op) {
  const std::lock_guard lock(fault_lock);
  fault = std::move(op);
}
void apply_group_fault(const OpRecord& op, Storage& memory, Device device) {
  {
    const std::lock_guard lock(fault_lock);
    if (fault.empty() || op.name != fault || memory.requested == 0) return;
  }
  static const OpRecord& bitwise_xor = find_op("bitwise_xor");
  const Unseen unseen;
  call_inplace(bitwise_xor, Args(bytes_of(memory, device, 1), int64_t{1}));
}

Tensor GroupCheck::stand_in(const TensorImpl& t) const {
  const auto found = t.storage ? expected_.find(t.storage.get()) : expected_.end();
  return found == expected_.end() ? alias(t) : moved(t, found->second.value);
}

DrawsOf::DrawsOf(const Args& args) {
  add(default_generator());
  for (const Value& v : args)
    if (v.tag == Tag::Generator) add(*v.generator);
}
void DrawsOf::add(Generator& g) { states_.emplace_back(&g, g.state()); }
void DrawsOf::swap() {
  for (auto& [generator, state] : states_) {
    const Generator::State now = generator->state();
    generator->set_state(state);
    state = now;
  }
}

void GroupCheck::add(const Call& c, DrawsOf& draws) {
  const Unseen unseen;
  std::vector<Tensor> held;
  held.reserve(c.args.size);
  Args args = c.args;
  for (uint32_t i = 0; i < args.size; ++i)
    if (args.is_tensor(i)) args[i] = Value(held.emplace_back(stand_in(args.tensor(i))));
  std::vector<Tensor> results;
  for (uint32_t o = 0; o < c.op.outputs; ++o) {
    const TensorImpl& out = *c.outs[o];
    const auto written = [&](uint32_t i) { return args.is_tensor(i) && c.args[i].tensor == &out; };
    if (written(0)) {  // in place
      const auto known = expected_.find(out.storage.get());
      const Tensor memory = known == expected_.end() ? copy_of_memory(out) : known->second.value;
      results.push_back(moved(out, memory));
      args[0] = Value(results.back());
      for (uint32_t i = 1; i < args.size; ++i)  // other views of what it overwrites
        if (c.args.is_tensor(i) && c.args.tensor(i).storage.get() == out.storage.get())
          args[i] = Value(held.emplace_back(moved(c.args.tensor(i), memory)));
    } else {
      Tensor result = shape_only(out);
      result->allocate();
      results.push_back(std::move(result));
    }
  }
  draws.swap();
  run_kernel(Call{c.op, args, results.data()});
  draws.swap();
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    expected_.insert_or_assign(c.outs[o]->storage.get(), Expected{&c.op, short_program_line(), results[o]});
}

std::string GroupCheck::objection(Storage& memory) const {
  const auto found = expected_.find(&memory);
  if (found == expected_.end()) return {};
  const auto& [op, line, value] = found->second;
  Tensor got = alias(*value);
  got->storage = Ref<Storage>::share(&memory);
  got->data = memory.data + (value->data - value->storage->data);
  const std::string difference = value_difference(got, value);
  return difference.empty()
           ? ""
           : fmt::format("{}{}, a result of {}: {}", op->name, at_line(line), to_string(value.shape()), difference);
}

}  // namespace strata
