#include "dispatch/tuning.h"

#include <chrono>
#include <map>
#include <mutex>

#include "dispatch/choose.h"
#include "dispatch/memory.h"
#include "record/precision.h"
#include "tensor/device_hooks.h"

namespace strata {
namespace {

// The key of a plan: everything about the tensors except values and address, of which only the alignment counts.
class Key {
 public:
  Key(const Kernels& kernels, const Call& c) {
    put(&kernels);
    put(allow_tf32_products());  // other entries compete then
    put(allow_tf32_convolutions());
    for (const Value& v : c.args) {
      put(v.tag);
      switch (v.tag) {
        case Tag::Tensor: put(*v.tensor); break;
        case Tag::Tensors:
          for (const Tensor& t : v.tensor_list())
            if (t) put(*t);
          break;
        case Tag::Ints: put(v.ints, v.size); break;
        case Tag::Floats: put(v.floats, v.size); break;
        case Tag::Str: put(v.str, v.size); break;
        case Tag::Complex: put(*v.complex); break;
        case Tag::Generator: break;
        default: put(v.i);
      }
    }
    for (uint32_t o = 0; o < c.op.outputs; ++o) put(*c.outs[o]);
  }
  const std::string& text() const { return text_; }

 private:
  template <class T> void put(const T* data, size_t n) {
    put(n);
    text_.append(reinterpret_cast<const char*>(data), n * sizeof(T));
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void put(const TensorImpl& t) {
    put(t.dtype);
    put(t.device.type);
    put(t.shape, t.ndim);
    put(t.strides, t.ndim);
    put(reinterpret_cast<uintptr_t>(t.data) % 16);
  }
  std::string text_;
};

struct Measured {
  std::mutex lock;
  std::map<std::string, std::vector<double>> times;
};
Measured& measured() {
  static auto* all = new Measured;
  return *all;
}

void wait_for(Device device) {
  if (device.type != DeviceType::Cpu) device_hooks.synchronize(device);
}

// The minimum of a few runs, after a warm-up run. Infinite if the kernel declines the call when it runs.
double time_of(const Kernel& k, const Call& c, Device device) {
  Plan plan;
  k.objection(c, plan);
  double best = HUGE_VAL;
  for (int i = 0; i < 4; ++i) {
    wait_for(device);
    const auto begin = std::chrono::steady_clock::now();
    run(k, c, plan);
    wait_for(device);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    if (i == 0 && k.objection(c, plan)) break;
    if (i > 0) best = std::min(best, took.count());
  }
  return best;
}

// Whether running a call several times gives the same result as running it once.
bool can_repeat(const Call& c) {
  if (c.op.random || c.op.written || c.op.outputs == 0) return false;
  for (uint32_t o = 0; o < c.op.outputs; ++o)
    if (overlaps_partly(c.args, c.outs[o].get(), false)) return false;
  return true;
}
}  // namespace

std::vector<double> tuned_times(const Kernels& kernels, const Call& c, const std::vector<size_t>& ready) {
  if (!c.op.is_tuned() && !thread_state.tuning) return {};
  const Key key(kernels, c);
  Measured& all = measured();
  {
    const std::lock_guard hold(all.lock);
    if (const auto found = all.times.find(key.text()); found != all.times.end()) return found->second;
  }
  if (!thread_state.tuning || ready.size() < 2 || !can_repeat(c)) return {};
  const Scoped quiet(thread_state.tuning, false);  // do not tune the ops that a kernel calls
  const Scoped<Explanation*> unseen(thread_state.explain, nullptr);
  std::vector<double> times(kernels.size(), 0.0);
  for (size_t i : ready) times[i] = time_of(kernels[i], c, c.outs[0].device());
  const std::lock_guard hold(all.lock);
  all.times[key.text()] = times;
  c.op.set_tuned(true);
  return times;
}

void forget_tuning() {
  const std::lock_guard hold(measured().lock);
  measured().times.clear();
  for (const OpRecord* op : all_ops()) op->set_tuned(false);
}

}  // namespace strata
