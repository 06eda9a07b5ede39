#include "dispatch/observer.h"

namespace strata {
namespace {

STRATA_THREAD_LOCAL_DECL thread_local constinit Observer* observer = nullptr;

// The calls inside an observed one are not seen.
void hide() {
  thread_state.observed = 0;
  own_read_observer = nullptr;
}
void show() {
  thread_state.observed = static_cast<uint8_t>(observer->inside_composites);
  own_read_observer = observer;
}

}  // namespace

Observing::Observing(Observer& o) {
  STRATA_CHECK(!observer, Runtime, "a capture is running on this thread; end it before another one starts");
  need_values(nullptr, "capture");
  observer = &o;
  show();
  promising.fetch_add(1, std::memory_order_relaxed);  // so that reads are reported
}
Observing::~Observing() {
  promising.fetch_sub(1, std::memory_order_relaxed);
  hide();
  observer = nullptr;
}

void note_copy(const TensorImpl& from, const TensorImpl& to) {
  if (observer) observer->copies(from, to);
}

Observer* current_observer() { return thread_state.observed ? observer : nullptr; }
ObservedInstead::ObservedInstead(Observer* other) : before_(observer), seen_(thread_state.observed != 0) {
  if (other) {
    observer = other;
    show();
  } else {
    hide();
  }
}
ObservedInstead::~ObservedInstead() {
  observer = before_;
  if (seen_) show();
  else hide();
}

ObservedCall::ObservedCall(const OpRecord& op, Form form, const Args& args, const Tensor* outs) : op_(op) {
  hide();
  try {
    observer->before(op, form, args, outs);
  } catch (...) {
    show();
    throw;
  }
}
ObservedCall::~ObservedCall() {
  if (!done_) observer->failed();
  show();
}
void ObservedCall::done(const Tensor* outs, size_t count) {
  done_ = true;
  observer->after(op_, outs, count);
}

}  // namespace strata
