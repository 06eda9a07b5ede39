// Sees what a program asks of the pipeline, in order. Capture (compile/capture.h) makes a graph of it.
#pragma once
#include "record/op.h"
#include "tensor/promise.h"

namespace strata {

// Gets the calls of one thread, but not those made inside another call. The calls inside a composite are seen instead of it while
// autocast is on, which may cast them, or as `inside_composites` says.
struct STRATA_API Observer : ReadObserver {
  // IfRecorded: those whose gradient is recorded, since backward() uses values from inside.
  enum class Inside : uint8_t { Never = 1, Always = 2, IfRecorded = 3 };  // RareModes::observed
  // `outs` are the out= tensors of Form::Out.
  virtual void before(const OpRecord& op, Form form, const Args& args, const Tensor* outs) = 0;
  // `outs` are the results, in place the written tensor. Not called if the call throws; failed() is.
  virtual void after(const OpRecord& op, const Tensor* outs, size_t count) = 0;
  virtual void failed() = 0;
  // The tape keeps the values of `from`, which the call that is running overwrites, in `to`.
  virtual void copies(const TensorImpl& from, const TensorImpl& to) = 0;
  Inside inside_composites = Inside::Never;
  // reads(): values are read on the host outside of all calls.
};

// While it exists, the observer sees the calls of this thread. Only one can: throws Runtime if there is one already.
class STRATA_API Observing {
 public:
  explicit Observing(Observer& observer);
  ~Observing();
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;
};

// The observer that would see a call made now, or null.
STRATA_API Observer* current_observer();
// While it exists, another observer, or none, sees the calls of this thread instead of the current one. For an observer that runs
// parts of the program itself.
class STRATA_API ObservedInstead {
 public:
  explicit ObservedInstead(Observer* other);
  ~ObservedInstead();
  ObservedInstead(const ObservedInstead&) = delete;
  ObservedInstead& operator=(const ObservedInstead&) = delete;

 private:
  Observer* const before_;
  const bool seen_;
};

// begin internal
void note_copy(const TensorImpl& from, const TensorImpl& to);  // for Observer::copies
// A call that the observer sees. Dispatch makes one if thread_state.observed; nothing inside it is seen.
class ObservedCall {
 public:
  ObservedCall(const OpRecord& op, Form form, const Args& args, const Tensor* outs);
  ~ObservedCall();
  void done(const Tensor* outs, size_t count);
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

 private:
  const OpRecord& op_;
  bool done_ = false;
};
// end internal

}  // namespace strata
