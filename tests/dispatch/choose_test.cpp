// Memory annotations of schemas, and the choice of a kernel: plans, workspace, its limit, tuning.
#include "dispatch/choose.h"

#include <gtest/gtest.h>

#include "dispatch/tuning.h"
#include "record/declined.h"
#include "strata/strata.h"
#include "tests/expect_error.h"

namespace strata {
namespace {

TEST(Schema, FormsSayWhatTheyWrite) {
  EXPECT_EQ(schema_of(op_add, Form::Plain), op_add.record.schema);
  EXPECT_EQ(schema_of(op_add, Form::InPlace), "add_(Tensor(a!) input, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_EQ(schema_of(op_add, Form::Out),
            "add(Tensor input, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(schema_of(op_max_dim, Form::Out),
            "max.dim(Tensor input, int dim, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices) -> "
            "(Tensor(a!), Tensor(b!))");
}

TEST(Schema, SaysWhatIsWrittenAndShared) {
  EXPECT_EQ(op_view.record.shared, "a");
  EXPECT_EQ(op_view.record.params[0].memory, 'a');
  EXPECT_EQ(op_view.record.written, 0);
  EXPECT_EQ(op_native_batch_norm.record.written, 1u << 3 | 1u << 4);
  EXPECT_EQ(op_native_batch_norm.record.params[op_native_batch_norm.record.writes_if].name, "training");
  EXPECT_EQ(op_add.record.shared, " ");
}

TEST(Schema, MistakesAreErrorsAtStart) {
  const auto define = [](const char* schema) { OpRecord().define(schema); };
  EXPECT_ERROR(Internal, "no parameter has", define("bad_1(Tensor(a) x) -> Tensor(b)"));
  EXPECT_ERROR(Internal, "bool parameter", define("bad_2(Tensor(a!:y) x, int y) -> ()"));
  EXPECT_ERROR(Internal, "memory is written as", define("bad_3(int(a) x) -> Tensor"));
  EXPECT_ERROR(Internal, "one letter", define("bad_4(Tensor(ab) x) -> Tensor"));
}

TEST(Workspace, CountsWhatItHandsOut) {
  const int64_t small[] = {3, 5}, large[] = {100};
  Plan plan;
  plan.reset();
  Workspace counting(plan);
  EXPECT_TRUE(counting.planning());
  const Tensor planned = counting.take(Shape(small), DType::F32);
  EXPECT_EQ(to_string(planned.shape()), "[3, 5]");
  EXPECT_EQ(planned.bytes(), nullptr);
  EXPECT_EQ(counting.take(100, DType::F64).numel(), 100);
  EXPECT_EQ(plan.workspace, 256u + 1024u);
  const Tensor memory = empty({static_cast<int64_t>(plan.workspace)}, DType::U8);
  const Args args;
  const Call call{op_add, args, nullptr, memory.get()};
  Workspace handing(call);
  EXPECT_FALSE(handing.planning());
  const Tensor a = handing.take(Shape(small), DType::F32), b = handing.take(Shape(large), DType::F64);
  EXPECT_EQ(a.bytes(), memory.bytes());
  EXPECT_EQ(b.bytes(), memory.bytes() + 256);
  EXPECT_EQ(to_string(a.shape()), "[3, 5]");
  EXPECT_TRUE(b->contiguous);
}

// A test op whose kernels record which one ran.
int ran = 0;
struct Doubling {
  OpRecord op;
  Doubling() {
    op.schema = "doubling(Tensor input) -> Tensor";
    op.name = "doubling";
    op.infer_fn = [](const Call& c) {
      c.out()->dtype = c.args.tensor(0).dtype;
      c.out()->set_shape(c.args.tensor(0).sizes());
    };
    op.planned(
      Backend::Cpu, "hungry",
      [](const Call& c, Plan& plan) -> const char* {
        if (c.args.tensor(0).numel > 1000) return "it is too long";
        plan.variant = "of one";
        Workspace(plan).take(c.args.tensor(0).sizes(), DType::F32);
        plan.keep(2.0f);
        return nullptr;
      },
      [](const Call& c, const Plan& plan) {
        const Tensor copy = Workspace(c).take(c.args.tensor(0).sizes(), DType::F32);
        for (int64_t i = 0; i < copy.numel(); ++i) copy.data<float>()[i] = c.args.share(0).data<float>()[i];
        for (int64_t i = 0; i < copy.numel(); ++i) c.out().data<float>()[i] = plan.get<float>() * copy.data<float>()[i];
        ran = 1;
      });
    op.kernel("reference", [](const Call& c) {
      for (int64_t i = 0; i < c.out().numel(); ++i) c.out().data<float>()[i] = 2 * c.args.share(0).data<float>()[i];
      ran = 2;
    });
  }
};

TEST(Choose, RunsThePlanOfTheFirstKernelThatIsReady) {
  const Doubling d;
  EXPECT_EQ(call(d.op, Args(full({4}, 3.0))).data<float>()[3], 6);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(call(d.op, Args(full({2000}, 3.0))).data<float>()[3], 6);
  EXPECT_EQ(ran, 2);
}

TEST(Choose, AKernelThatNeedsTooMuchWorkspaceIsPassedOver) {
  const Doubling d;
  const Tensor x = full({100}, 3.0);
  set_workspace_limit(511);
  Explanation seen;
  {
    const Scoped<Explanation*> look(thread_state.explain, &seen);
    call(d.op, Args(x));
  }
  set_workspace_limit(SIZE_MAX);
  EXPECT_EQ(ran, 2);
  ASSERT_EQ(seen.lines.size(), 2u);
  EXPECT_EQ(seen.lines[0].reason, "needs 512 bytes of workspace, the limit is 511");
  EXPECT_EQ(verdict(seen.lines[1]), "chosen");
  call(d.op, Args(x));
  EXPECT_EQ(ran, 1);
}

TEST(Choose, ExplanationsShowAllKernels) {
  const Doubling d;
  const Tensor x = full({4}, 3.0);
  Explanation seen;
  {
    const Scoped<Explanation*> look(thread_state.explain, &seen);
    call(d.op, Args(x));
  }
  ASSERT_EQ(seen.lines.size(), 2u);
  EXPECT_EQ(verdict(seen.lines[0]), "chosen; plan of one; 256 bytes of workspace");
  EXPECT_EQ(verdict(seen.lines[1]), "ready, but hungry comes first");
  EXPECT_FALSE(seen.lines[0].behind);
  EXPECT_TRUE(seen.lines[1].behind);
  EXPECT_STREQ(seen.chosen().kernel->name, "hungry");
}

TEST(Choose, AFunctionWithAWorkspacePlansAndRuns) {
  static int counted = 0, run = 0;
  OpRecord op;
  op.schema = "copied(Tensor input) -> Tensor";
  op.name = "copied";
  op.infer_fn = [](const Call& c) {
    c.out()->dtype = c.args.tensor(0).dtype;
    c.out()->set_shape(c.args.tensor(0).sizes());
  };
  op.kernel(
    "twice",
    [](const Call& c, Workspace& workspace) {
      const Tensor piece = workspace.take(c.args.tensor(0).sizes(), DType::F32);
      if (workspace.planning()) {
        ++counted;
        return;
      }
      ++run;
      for (int64_t i = 0; i < piece.numel(); ++i) piece.data<float>()[i] = c.args.share(0).data<float>()[i];
      for (int64_t i = 0; i < piece.numel(); ++i) c.out().data<float>()[i] = piece.data<float>()[i];
    },
    [](const Call& c) -> const char* { return c.args.tensor(0).numel > 1000 ? "it is too long" : nullptr; });
  EXPECT_EQ(call(op, Args(full({100}, 3.0))).data<float>()[99], 3);
  EXPECT_EQ(counted, 1);
  EXPECT_EQ(run, 1);
  EXPECT_ERROR(NotImplemented, "it is too long", call(op, Args(full({2000}, 3.0))));
  EXPECT_EQ(counted, 1);
  set_workspace_limit(511);
  EXPECT_ERROR(NotImplemented, "needs 512 bytes of workspace, the limit is 511", call(op, Args(full({100}, 3.0))));
  set_workspace_limit(SIZE_MAX);
  EXPECT_EQ(run, 1);
}

// An op whose first kernel finds out when it runs that it cannot, as a library may.
bool refuses = false;
struct Declining : Doubling {
  Declining() {
    refuses = false;
    Kernels& kernels = op.kernels(Backend::Cpu);
    kernels[0].prepare = [](const Call&, Plan&) -> const char* { return refuses ? "the library refused it" : nullptr; };
    kernels[0].run_plan = [](const Call&, const Plan&) {
      refuses = true;
      throw Declined("the library cannot do it");
    };
  }
};

TEST(Choose, ADeclinedCallGoesToTheNextKernel) {
  const Declining d;
  EXPECT_EQ(call(d.op, Args(full({4}, 3.0))).data<float>()[3], 6);
  EXPECT_EQ(ran, 2);
  EXPECT_TRUE(refuses);
}

TEST(Choose, ADeclinedCallIsExplained) {
  const Declining d;
  const Tensor x = full({4}, 3.0);
  Explanation seen;
  {
    const Scoped<Explanation*> look(thread_state.explain, &seen);
    call(d.op, Args(x));
  }
  ASSERT_EQ(seen.lines.size(), 2u);
  EXPECT_EQ(seen.lines[0].reason, "the library refused it");
  EXPECT_EQ(verdict(seen.lines[1]), "chosen");
}

TEST(Choose, ACallThatAllKernelsDeclineFails) {
  Declining d;
  d.op.kernels(Backend::Cpu).pop_back();
  EXPECT_ERROR(Runtime, "the library cannot do it", call(d.op, Args(full({4}, 3.0))));
}

TEST(Tuning, PassesOverAKernelThatDeclines) {
  const Declining d;
  const Tensor x = full({7}, 3.0);
  Explanation seen;
  {
    const Scoped on(thread_state.tuning, true);
    const Scoped<Explanation*> look(thread_state.explain, &seen);
    EXPECT_EQ(call(d.op, Args(x)).data<float>()[6], 6);
  }
  EXPECT_EQ(ran, 2);
  ASSERT_EQ(seen.lines.size(), 2u);
  EXPECT_EQ(seen.lines[0].reason, "declined this call when it ran");
  EXPECT_TRUE(seen.lines[1].reason.empty());
  forget_tuning();
}

TEST(Tuning, TakesTheFastestForEqualShapesAndForgets) {
  Doubling d;
  // The planned kernel is made slow: it sleeps.
  d.op.kernels(Backend::Cpu)[0].run_plan = [](const Call& c, const Plan&) {
    timespec pause{0, 20000000};
    nanosleep(&pause, nullptr);
    for (int64_t i = 0; i < c.out().numel(); ++i) c.out().data<float>()[i] = 2 * c.args.share(0).data<float>()[i];
    ran = 1;
  };
  const Tensor x = full({4}, 3.0);
  {
    const Scoped on(thread_state.tuning, true);
    EXPECT_EQ(call(d.op, Args(x)).data<float>()[0], 6);
  }
  EXPECT_TRUE(d.op.is_tuned());
  call(d.op, Args(x));
  EXPECT_EQ(ran, 2);
  call(d.op, Args(full({5}, 3.0)));  // another shape: the order of the list
  EXPECT_EQ(ran, 1);
  forget_tuning();
  d.op.set_tuned(false);  // it is not in the registry
  call(d.op, Args(x));
  EXPECT_EQ(ran, 1);
}

TEST(Tuning, DoesNotRepeatWhatWritesOrDraws) {
  const Scoped on(thread_state.tuning, true);
  const Tensor x = full({64, 64}, 2.0);
  mul_(x, x);
  EXPECT_EQ(x.data<float>()[5], 4);
  manual_seed(3);
  const Tensor a = rand({100});
  {
    const Scoped off(thread_state.tuning, false);
    manual_seed(3);
    EXPECT_TRUE(all(eq(a, rand({100}))).item<bool>());
  }
  forget_tuning();
}

}  // namespace
}  // namespace strata
