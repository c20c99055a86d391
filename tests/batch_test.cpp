#include "runtime/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_test.hpp"

namespace clora {
namespace {

using test::context_of;

TEST(Batch, CopiesThroughATemporaryAndReplays) {
  Context& context = context_of(Variant::portable);
  const std::vector<float> values = test::random_values(1000, 1);
  const Tensor source = test::upload(context, {1000}, values);
  const test::Output target(context, {1000});
  Batch batch(context);
  const Tensor between = batch.temporary({1000}, DType::f32, "between");
  batch.copy(between, source);
  batch.copy(target.tensor(), between);
  batch.submit().wait();
  EXPECT_EQ(target.values(), values);
  const std::vector<float> other = test::random_values(1000, 2);
  context.write(source, std::as_bytes(std::span(other)));
  batch.submit().wait();
  EXPECT_EQ(target.values(), other);
}

TEST(Batch, MakesALibraryCallWithThePlacesOfItsTensorsAtEverySubmit) {
  Context& context = context_of(Variant::portable);
  const Tensor tensor = test::upload(context, {4}, std::vector<float>{1, 2, 3, 4});
  int made = 0;
  MemoryRegion place;
  Batch batch(context);
  const Tensor between = batch.temporary({4}, DType::f32, "between");
  batch.call("count", {tensor, between},
             [&](cl_command_queue queue, std::span<const MemoryRegion> all) {
               EXPECT_EQ(queue, context.opencl_queue());
               EXPECT_EQ(all.size(), 2U);
               EXPECT_NE(all[1].mem, nullptr);  // planned by then
               place = all[0];
               ++made;
             });
  batch.submit().wait();
  batch.submit().wait();
  EXPECT_EQ(made, 2);
  EXPECT_EQ(place.mem, tensor.storage()->mem);
}

TEST(Batch, RefusesToRecordOnceSealed) {
  Context& context = context_of(Variant::portable);
  Batch batch(context);
  batch.seal();
  EXPECT_THAT(test::error_of([&] { batch.temporary({1}, DType::f32, "late"); }),
              testing::HasSubstr("sealed"));
}

TEST(Context, SaysHowMuchMemoryIsMissing) {
  ContextConfig config = config_from_environment();
  config.memory_limit_bytes = 1 << 20;
  Context context(config);
  const std::string message =
      test::error_of([&] { (void)context.allocate({1 << 20}, DType::f32, MemoryTag::weights); });
  EXPECT_THAT(message, testing::HasSubstr("4 MiB wanted"));
  EXPECT_THAT(message, testing::HasSubstr("lower --batch-size"));
}

TEST(Context, NamesADeviceThatIsNotThere) {
  ContextConfig config;
  config.device = "no such device";
  EXPECT_THAT(test::error_of([&] { Context context(config); }), testing::HasSubstr("none matches"));
}

}  // namespace
}  // namespace clora
