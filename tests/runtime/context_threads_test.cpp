// Several Contexts in one process, on one device and on several, used from one thread and from
// many. They do not affect each other. Run under the thread sanitizer (preset thread).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "clora/model/generation/generator.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

constexpr std::size_t kThreads = 4;
constexpr std::int64_t kRows = 5;
constexpr std::int64_t kWidth = 64;

// The results of one round of work.
struct Results {
  std::vector<float> rows;
  std::vector<std::int32_t> ids;
  bool operator==(const Results&) const = default;
};

// pocl creates one device per driver name. The variable must be set before the process's first
// OpenCL call.
class ManyContexts : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("POCL_DEVICES", "pthread basic", 0); }

  ManyContexts() : model_(test::tiny_models().front()) {
    test::write_tiny_model(folder_.path(), model_.config);
  }

  // Opens a model, processes a prompt, generates six tokens, and applies norms to rows repeatedly.
  Results work(Context& context, const WeightFiles& files) const {
    LanguageModel model(context, files);
    Generator generator(model, nullptr, 32);
    const std::vector<std::int32_t> prompt{1, 5, 3, 7, 2};
    Results results;
    results.ids = generator.generate(prompt, {.max_tokens = 6}).ids;

    const Tensor x = test::upload(context, {kRows, kWidth}, test::random_values(kRows * kWidth, 1));
    const Tensor w = test::upload(context, {kWidth}, test::random_values(kWidth, 2));
    Batch batch(context);
    const Tensor y = batch.temporary({kRows, kWidth}, DType::f32, "normed");
    record_rms_norm(batch, y, x, w, 1e-5F);
    batch.copy(x, y);
    for (int i = 0; i < 20; ++i) batch.submit();
    results.rows = context.read<float>(x);
    return results;
  }
  Results work_alone() const {
    Context context(config_from_environment());
    return work(context, WeightFiles::open(folder_.path()));
  }

  test::TemporaryFolder folder_;
  test::TinyModel model_;
};

// Runs f(i) on `count` threads at once. Rethrows an exception of one of them.
template <class F>
void on_threads(std::size_t count, F f) {
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        f(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

TEST_F(ManyContexts, GiveTheSameResultsFromManyThreadsAtOnce) {
  const WeightFiles files = WeightFiles::open(folder_.path());  // shared: it is immutable
  std::vector<Results> results(kThreads);
  on_threads(kThreads, [&](std::size_t i) {
    Context context(config_from_environment());
    results[i] = work(context, files);
  });
  const Results alone = work_alone();
  EXPECT_EQ(alone.ids.size(), 6U);
  for (const Results& got : results) EXPECT_EQ(got, alone);
}

TEST_F(ManyContexts, TakeTurnsInOneThread) {
  const WeightFiles files = WeightFiles::open(folder_.path());
  Context first(config_from_environment());
  Context second(config_from_environment());
  LanguageModel first_model(first, files);
  LanguageModel second_model(second, files);
  Generator first_generator(first_model, nullptr, 32);
  Generator second_generator(second_model, nullptr, 32);
  const std::vector<std::int32_t> prompt{1, 5, 3};
  std::vector<std::int32_t> inner;
  const auto outer = first_generator.generate(prompt, {.max_tokens = 4}, [&](std::int32_t) {
    inner = second_generator.generate(prompt, {.max_tokens = 4}).ids;  // nested
    return true;
  });
  EXPECT_EQ(outer.ids, inner);
}

TEST_F(ManyContexts, MayBeCreatedInOneThreadUsedInAnotherAndDestroyedInAThird) {
  const WeightFiles files = WeightFiles::open(folder_.path());
  std::unique_ptr<Context> context;
  Results results;
  on_threads(1,
             [&](std::size_t) { context = std::make_unique<Context>(config_from_environment()); });
  on_threads(1, [&](std::size_t) { results = work(*context, files); });
  on_threads(1, [&](std::size_t) { context.reset(); });
  EXPECT_EQ(results, work_alone());
}

TEST_F(ManyContexts, WorkOnSeveralDevicesAtOnce) {
  const std::vector<Device> devices = list_devices();
  if (devices.size() < 2) GTEST_SKIP() << "there is only one OpenCL device";
  const WeightFiles files = WeightFiles::open(folder_.path());
  std::vector<Results> results(devices.size());
  on_threads(devices.size(), [&](std::size_t i) {
    ContextConfig config = config_from_environment();
    config.device = fmt::format("{}", i);
    config.variant = Variant::portable;  // gives the same results on devices of different kinds
    Context context(config);
    EXPECT_EQ(context.device().index, static_cast<int>(i));
    results[i] = work(context, files);
  });
  for (const Results& got : results) EXPECT_EQ(got.ids, results.front().ids);
}

TEST_F(ManyContexts, RefuseTheMemoryOfAnother) {
  Context first(config_from_environment());
  Context second(config_from_environment());
  const Tensor x = first.allocate({4}, DType::f32, MemoryTag::scratch);
  EXPECT_THROW(second.read<float>(x), Error);
  EXPECT_THROW(second.adopt(x.storage()->mem, {4}, DType::f32), Error);
}

TEST_F(ManyContexts, RefuseTheQueueOfAnotherDevice) {
  const std::vector<Device> devices = list_devices();
  if (devices.size() < 2) GTEST_SKIP() << "there is only one OpenCL device";
  ContextConfig config = config_from_environment();
  config.device = devices[0].name;
  const Context context(config);
  const AdoptedQueue adopted{context.opencl_context(), devices[1].id, context.opencl_queue()};
  EXPECT_NE(
      test::error_of([&] { const Context other(adopted); }).find("must belong to the given device"),
      std::string::npos);
}

}  // namespace
}  // namespace clora
