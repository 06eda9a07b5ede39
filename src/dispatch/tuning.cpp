#include "dispatch/tuning.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>

#include "cuda/runtime/graph.h"
#include "dispatch/choose.h"
#include "dispatch/memory.h"
#include "dispatch/tuning_store.h"
#include "record/precision.h"
#include "tensor/device_hooks.h"

namespace strata {
namespace {

// The key of a plan: everything about the tensors except values and address, of which only the alignment counts.
class Key {
 public:
  Key(const Kernels& kernels, const Call& c) {
    put(reinterpret_cast<uintptr_t>(&kernels));
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

std::atomic<bool> benchmark = false;

// The records that set_benchmark_convolutions applies to.
bool is_convolution(const OpRecord& op) {
  const std::string_view name = op.name;
  return name == "convolution" || name == "_convolution_weight_grad";
}
void mark_convolutions() {
  for (const OpRecord* op : all_ops())
    if (is_convolution(*op)) op->set_tuned(true);  // so that dispatch asks for their times
}

bool is_measured_now(const Call& c, Device device) {
  if (thread_state.tuning) return true;
  return benchmark.load(std::memory_order_relaxed) && device.type != DeviceType::Cpu && is_convolution(c.op) &&
         !cuda::is_capturing(device);
}

std::atomic<bool> files_read[2][kMaxDeviceIndex + 1];  // by device, cuda and vgpu

using DeviceKey = std::pair<DeviceType, int8_t>;
DeviceKey key_of(Device d) { return {d.type, d.index}; }
constexpr size_t kMostUnknown = 4096;  // calls of which we remember that there is no measurement
constexpr double kDeclinedUs = 1e30;   // in a file, which has no infinity: the kernel had declined

struct Measured {
  std::mutex lock;
  std::map<std::string, std::vector<double>> times;  // by Key; empty: there is no measurement
  std::map<DeviceKey, TuningTable> unsaved, read;    // by signature
};
Measured& measured() {
  static auto* all = new Measured;
  return *all;
}

void wait_for(Device device) {
  if (device.type != DeviceType::Cpu) device_hooks.synchronize(device);
}

double microseconds_of(const Kernel& k, const Call& c, const Plan& plan, Device device, int calls) {
  wait_for(device);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) run(k, c, plan);
  wait_for(device);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / calls;
}

// The minimum of a few rounds, after a warm-up call. A round is several calls of a short kernel, because waiting for a GPU
// takes longer than such a kernel. Infinite if the kernel declines the call when it runs.
double time_of(const Kernel& k, const Call& c, Device device) {
  constexpr double kRoundUs = 200;
  Plan plan;
  k.objection(c, plan);
  microseconds_of(k, c, plan, device, 1);
  if (k.objection(c, plan)) return HUGE_VAL;
  double best = microseconds_of(k, c, plan, device, 1);
  const int calls = static_cast<int>(std::clamp(kRoundUs / best, 1.0, 20.0));
  for (int i = 0; i < 3; ++i) best = std::min(best, microseconds_of(k, c, plan, device, calls));
  return best;
}

// Times of a call in the order of the list; infinite for a kernel that had declined. Empty if the file names other kernels.
std::vector<double> in_order(const KernelTimes& known, const Kernels& kernels, const std::vector<size_t>& ready) {
  std::vector<double> times(kernels.size(), 0.0);
  for (size_t i : ready) {
    const auto found = known.find(kernels[i].name);
    if (found == known.end()) return {};
    times[i] = found->second < kDeclinedUs ? found->second : HUGE_VAL;
  }
  return times;
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
  const Device device = c.op.outputs ? c.outs[0]->device : Device{};
  Measured& all = measured();
  {
    const std::lock_guard hold(all.lock);
    const auto found = all.times.find(key.text());
    if (found != all.times.end() && !found->second.empty()) return found->second;
    if (found == all.times.end())
      if (const auto file = all.read.find(key_of(device)); file != all.read.end()) {
        std::vector<double> known;
        if (const auto entry = file->second.find(signature_of(c)); entry != file->second.end())
          known = in_order(entry->second, kernels, ready);
        if (!known.empty() || all.times.size() < kMostUnknown) all.times[key.text()] = known;
        if (!known.empty()) return known;
      }
  }
  if (!is_measured_now(c, device) || ready.size() < 2 || !can_repeat(c)) return {};
  const Scoped quiet(thread_state.tuning, false);  // do not tune the ops that a kernel calls
  const Scoped<Explanation*> unseen(thread_state.explain, nullptr);
  std::vector<double> times(kernels.size(), 0.0);
  for (size_t i : ready) times[i] = time_of(kernels[i], c, device);
  const std::lock_guard hold(all.lock);
  all.times[key.text()] = times;
  c.op.set_tuned(true);
  if (device.type == DeviceType::Cpu) return times;
  KernelTimes& named = all.unsaved[key_of(device)][signature_of(c)];
  for (size_t i : ready) named[kernels[i].name] = std::isinf(times[i]) ? kDeclinedUs : times[i];
  return times;
}

void read_tuning_once(Device device) {
  std::atomic<bool>& done = files_read[device.type == DeviceType::Vgpu][std::max<int>(device.index, 0)];
  if (done.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (done.exchange(true)) return;
  TuningTable table = read_tuning(device);
  for (const auto& [call, times] : table)
    for (const OpRecord* op : all_ops())
      if (call.starts_with(std::string(op->name) + "(")) op->set_tuned(true);
  const std::lock_guard hold(measured().lock);
  measured().read[key_of(device)] = std::move(table);
}

void save_tuning() {
  Measured& all = measured();
  std::map<DeviceKey, TuningTable> unsaved;
  {
    const std::lock_guard hold(all.lock);
    unsaved.swap(all.unsaved);
  }
  for (const auto& [key, table] : unsaved) write_tuning(Device(key.first, key.second), table);
}

void forget_tuning() {
  const std::lock_guard hold(measured().lock);
  measured().times.clear();
  measured().unsaved.clear();
  measured().read.clear();
  for (auto& devices : files_read)
    for (std::atomic<bool>& done : devices) done = true;  // a file that was not read yet does not count either
  for (const OpRecord* op : all_ops()) op->set_tuned(false);
  if (benchmark_convolutions()) mark_convolutions();
}

bool benchmark_convolutions() { return benchmark.load(std::memory_order_relaxed); }
void set_benchmark_convolutions(bool on) {
  benchmark.store(on, std::memory_order_relaxed);
  if (on) mark_convolutions();
}

}  // namespace strata
