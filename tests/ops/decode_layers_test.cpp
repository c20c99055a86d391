#include "clora/ops/decode/decode_layers.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>
#include <memory>

#include "clora/ops/quant/quant.hpp"
#include "ops/decode/decode_layers_gpu.hpp"
#include "ops/dispatch/co_resident_groups.hpp"
#include "tests/support/copied_kernels.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/random_layers.hpp"

namespace clora {
namespace {

using Shapes = test::LayerShapes;
using Place = test::CachePlace;
using Layers = test::RandomLayers;

constexpr Shapes kSmall{3, 128, 192, 4, 2, 32, 300};
constexpr Shapes kThreeKeyHeads{2, 192, 64, 9, 3, 64, 40};
constexpr Shapes kNarrowHeads{2, 64, 128, 4, 2, 16, 40};

void run_one_launch(Context& context, const Layers& layers) {
  const Tensor grid_barrier = test::upload(context, {3}, std::vector<std::int32_t>{7, 7, 7});
  Batch batch(context);
  record_decode_layers(batch, layers.x, layers.decode, grid_barrier);
  batch.submit().wait();
  EXPECT_EQ(context.read<std::int32_t>(grid_barrier)[1], 0) << "a group did not arrive";
}

void run_unfused(Context& context, const Layers& layers) {
  Batch batch(context);
  record_decode_layers_unfused(batch, layers.x, layers.decode);
  batch.submit().wait();
}

// Sums in another order may round an element of the cache to its neighbour.
double tolerance_of(const Layers& layers) {
  return 1e-4 + 2 * test::rounding_of(layers.cache_type());
}

// What is optional in a layer.
struct Option {
  const char* name;
  void (*add)(Layers&);
};
constexpr Option kOptions[] = {
    {"norms of heads", [](Layers& layers) { layers.add_head_norms(); }},
    {"norms of outputs", [](Layers& layers) { layers.add_post_norms(); }},
    {"partial ropes", [](Layers& layers) { layers.rotate_only(8); }},
    {"a layer without rope", [](Layers& layers) { layers.decode.layers.back().rope_table = {}; }},
    {"layers without rope",
     [](Layers& layers) {
       for (DecodeLayer& layer : layers.decode.layers) layer.rope_table = {};
     }},
    {"a rope of keys", [](Layers& layers) { layers.rotate_keys_by_another_table(); }},
    {"a rope of keys and norms of heads",
     [](Layers& layers) { layers.add_head_norms(), layers.rotate_keys_by_another_table(); }},
    {"a multiplier", [](Layers& layers) { layers.decode.multiplier = 0.6F; }},
    {"capped scores", [](Layers& layers) { layers.decode.soft_cap = 0.4F; }},
    {"gelu", [](Layers& layers) { layers.decode.function = GateFunction::gelu; }},
    {"a window", [](Layers& layers) { layers.decode.layers.front().first = layers.decode.last; }},
    {"caches of bf16", [](Layers& layers) { layers.store_caches_as(DType::bf16); }},
    {"caches of f16", [](Layers& layers) { layers.store_caches_as(DType::f16); }},
    {"caches of bf16 and norms of heads",
     [](Layers& layers) { layers.add_head_norms(), layers.store_caches_as(DType::bf16); }},
};

class OneLaunch : public testing::Test {
 protected:
  void SetUp() override {
    const Device device = select_device(config_from_environment().device);
    if (device.integer_dots == IntegerDots::none || !device.name.starts_with("pthread")) {
      GTEST_SKIP() << "decoding in one launch requires pocl's threads on a CPU with AVX2";
    }
  }
  // Created on first use and destroyed with the test, since it may reserve pocl's threads.
  Context& context() {
    if (context_ == nullptr) {
      ContextConfig config = config_from_environment();
      config.variant = Variant::cpu_int8;
      context_ = std::make_unique<Context>(config);
    }
    return *context_;
  }

 private:
  std::unique_ptr<Context> context_;
};

TEST_F(OneLaunch, GivesTheBitsOfTheUnfusedOps) {
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    for (const Shapes& shapes : {kSmall, kThreeKeyHeads, kNarrowHeads}) {
      for (const Place place : {Place{0, 0}, Place{1, 0}, Place{33, 5}, Place{39, 39}}) {
        Layers one(context(), shapes, type, place), unfused(context(), shapes, type, place);
        const auto before = one.bits();
        ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
        run_one_launch(context(), one);
        run_unfused(context(), unfused);
        EXPECT_NE(one.bits(), before);
        EXPECT_EQ(one.bits(), unfused.bits())
            << name_of(type) << " at " << place.position << " from " << place.first;
      }
    }
  }
}

TEST_F(OneLaunch, GivesTheBitsOfTheUnfusedOpsWithAllOptions) {
  for (const DType type : {DType::q4_0, DType::q8_0}) {
    for (const Shapes& shapes : {kSmall, kThreeKeyHeads, kNarrowHeads}) {
      for (const Place place : {Place{0, 0}, Place{33, 5}, Place{39, 39}}) {
        Layers one(context(), shapes, type, place), unfused(context(), shapes, type, place);
        one.add_options();
        unfused.add_options();
        ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
        run_one_launch(context(), one);
        run_unfused(context(), unfused);
        EXPECT_EQ(one.bits(), unfused.bits())
            << name_of(type) << " at " << place.position << " from " << place.first;
      }
    }
  }
}

// Each option by itself: the other ones must not be needed for it.
TEST_F(OneLaunch, GivesTheBitsOfTheUnfusedOpsWithEachOption) {
  for (const auto& [name, add] : kOptions) {
    Layers one(context(), kSmall, DType::q4_1, {33, 5});
    Layers unfused(context(), kSmall, DType::q4_1, {33, 5});
    add(one);
    add(unfused);
    run_one_launch(context(), one);
    run_unfused(context(), unfused);
    EXPECT_EQ(one.bits(), unfused.bits()) << name;
  }
}

TEST_F(OneLaunch, GivesTheBitsOfTheUnfusedOpsOverCachesOfEveryType) {
  for (const DType cache : {DType::bf16, DType::f16, DType::q8_0}) {
    for (const Shapes& shapes : {kSmall, kThreeKeyHeads, kNarrowHeads}) {
      if (cache == DType::q8_0 && shapes.E % 32 != 0) continue;
      for (const Place place : {Place{0, 0}, Place{33, 5}, Place{39, 39}}) {
        Layers one(context(), shapes, DType::q4_1, place);
        Layers unfused(context(), shapes, DType::q4_1, place);
        for (Layers* layers : {&one, &unfused}) {
          layers->add_biases();
          layers->add_head_norms();
          layers->store_caches_as(cache);
        }
        const auto before = one.bits();
        ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
        run_one_launch(context(), one);
        run_unfused(context(), unfused);
        EXPECT_NE(one.bits(), before);
        EXPECT_EQ(one.bits(), unfused.bits())
            << name_of(cache) << " at " << place.position << " from " << place.first;
      }
    }
  }
}

// Rows of sequences of different lengths; four are multiplied at once.
const std::vector<Place> kPlaces{{33, 5}, {0, 0}, {39, 39}, {17, 0}, {38, 2}, {16, 16}, {5, 1}};

std::vector<Place> first_places(std::size_t rows) {
  return {kPlaces.begin(), kPlaces.begin() + static_cast<std::ptrdiff_t>(rows)};
}

TEST_F(OneLaunch, OfSeveralRowsGivesTheBitsOfTheUnfusedOps) {
  for (const std::size_t rows : {2, 4, 7}) {
    for (const bool with_options : {false, true}) {
      Layers one(context(), kSmall, DType::q4_1, first_places(rows));
      Layers unfused(context(), kSmall, DType::q4_1, first_places(rows));
      for (Layers* layers : {&one, &unfused}) {
        if (with_options) layers->add_options();
        if (with_options) layers->store_caches_as(DType::bf16);
        layers->store_nothing_of(1);
      }
      const auto before = one.bits();
      ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
      run_one_launch(context(), one);
      run_unfused(context(), unfused);
      EXPECT_NE(one.bits(), before);
      EXPECT_EQ(one.bits(), unfused.bits()) << rows;
    }
  }
}

TEST_F(OneLaunch, OfSeveralRowsWithAdaptersGivesTheBitsOfTheUnfusedOps) {
  for (const std::vector<int>& adapters : std::vector<std::vector<int>>{
           {0}, {-1}, {2, 2, 2, 2, 2}, {1, -1, 0, 2, 2, -1, 1}, {-1, -1, -1, -1, 1, 1, 0}}) {
    for (const bool with_options : {false, true}) {
      Layers one(context(), kSmall, DType::q4_1, first_places(adapters.size()));
      Layers unfused(context(), kSmall, DType::q4_1, first_places(adapters.size()));
      for (Layers* layers : {&one, &unfused}) {
        if (with_options) layers->add_options();
        layers->add_adapters_of_rows(adapters);
      }
      ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
      run_one_launch(context(), one);
      run_unfused(context(), unfused);
      EXPECT_EQ(one.bits(), unfused.bits()) << testing::PrintToString(adapters);
    }
  }
}

TEST_F(OneLaunch, ReadsTheCopiesOfAdaptersOfRows) {
  const std::vector<int> adapters{1, -1, 0, 2, 2};
  Layers one(context(), kSmall, DType::q4_1, first_places(adapters.size()));
  Layers unfused(context(), kSmall, DType::q4_1, first_places(adapters.size()));
  one.add_adapters_of_rows(adapters);
  one.add_bf16_stacks();
  unfused.add_adapters_of_rows(adapters);
  unfused.round_stacks();
  ASSERT_TRUE(decodes_bf16_stacks(context()));
  ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
  run_one_launch(context(), one);
  run_unfused(context(), unfused);
  EXPECT_EQ(one.bits(), unfused.bits());
}

TEST_F(OneLaunch, WithOneAdapterOfAllRowsGivesWhatTheUnfusedOpsGive) {
  for (const std::size_t rows : {1, 5}) {
    Layers one(context(), kSmall, DType::q8_0, first_places(rows));
    Layers unfused(context(), kSmall, DType::q8_0, first_places(rows));
    one.add_adapters();
    unfused.add_adapters();
    ASSERT_TRUE(decodes_in_one_launch(context(), one.decode));
    run_one_launch(context(), one);
    run_unfused(context(), unfused);
    test::expect_close(one.values(), test::to_double(unfused.values()), 1e-4, "one adapter");
  }
}

// The number of rows changes only in how many parts the keys are summed.
TEST_F(OneLaunch, GivesEachRowWhatItGetsAlone) {
  const std::vector<int> adapters{0, 1, 2, -1, 0, 0, 1, 1, -1, 2, 2, 0, 1, 2, -1, 0};
  std::vector<Place> places;
  for (std::size_t m = 0; m < adapters.size(); ++m) places.push_back(kPlaces[m % kPlaces.size()]);
  Layers all(context(), kSmall, DType::q4_0, places);
  all.add_adapters_of_rows(adapters);
  std::vector<Layers> alone;
  for (std::size_t m = 0; m < adapters.size(); ++m) {
    alone.emplace_back(context(), kSmall, DType::q4_0, places);
    alone.back().add_adapters_of_rows(adapters);
    alone.back().keep_row(static_cast<std::int64_t>(m));
  }
  run_one_launch(context(), all);
  for (std::size_t m = 0; m < adapters.size(); ++m) {
    run_one_launch(context(), alone[m]);
    test::expect_close(alone[m].row_of_x(0),
                       test::to_double(all.row_of_x(static_cast<std::int64_t>(m))), 1e-4, "row");
  }
}

TEST_F(OneLaunch, IsNotSelectedForManyRows) {
  const std::vector<Place> places(17, Place{3, 0});
  const Layers many(context(), kSmall, DType::q4_1, places);
  EXPECT_FALSE(decodes_in_one_launch(context(), many.decode));
}

TEST_F(OneLaunch, GivesTheSameBitsWithManyKeysAndInEveryReplay) {
  std::vector<std::uint32_t> want;
  for (int repeat = 0; repeat < 50; ++repeat) {
    Layers layers(context(), kSmall, DType::q4_1, {299, 0});
    run_one_launch(context(), layers);
    if (want.empty()) want = layers.bits();
    ASSERT_EQ(layers.bits(), want) << repeat;
  }
  Layers unfused(context(), kSmall, DType::q4_1, {299, 0});
  run_unfused(context(), unfused);
  EXPECT_EQ(unfused.bits(), want);
}

TEST_F(OneLaunch, IsNotSelectedForOtherLayoutsTypesAndVariants) {
  const Layers plain(context(), kSmall, DType::q4_1, {0, 0}, Layout::plain);
  EXPECT_FALSE(decodes_in_one_launch(context(), plain.decode));
  Layers mixed(context(), kSmall, DType::q4_1, {0, 0});
  mixed.decode.layers[1].o = Layers(context(), kSmall, DType::q8_0, {0, 0}).decode.layers[1].o;
  EXPECT_FALSE(decodes_in_one_launch(context(), mixed.decode));
  Context& f32 = test::context_of(Variant::cpu);
  EXPECT_FALSE(decodes_in_one_launch(f32, Layers(f32, kSmall, DType::q4_1, {0, 0}).decode));
}

TEST_F(OneLaunch, PassesItsSelfTest) {
  const test::Folders folders;
  const test::Observed tested(folders, Variant::cpu_int8);
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    for (const GateFunction function : {GateFunction::silu, GateFunction::gelu}) {
      Layers layers(*tested.context, kSmall, type, {3, 0});
      layers.decode.function = function;
      for (const float soft_cap : {50.0F, 0.0F}) {
        layers.decode.soft_cap = soft_cap;
        EXPECT_TRUE(decodes_in_one_launch(*tested.context, layers.decode)) << name_of(type);
      }
      layers.store_caches_as(DType::bf16);
      EXPECT_TRUE(decodes_in_one_launch(*tested.context, layers.decode)) << name_of(type);
    }
  }
  for (const DType type : {DType::q4_0, DType::q4_1, DType::q8_0}) {
    Layers layers(*tested.context, kSmall, type, {3, 0});
    layers.store_caches_as(DType::bf16);
    layers.add_adapters_of_rows({1});
    layers.add_bf16_stacks();
    EXPECT_TRUE(decodes_in_one_launch(*tested.context, layers.decode)) << name_of(type);
  }
  Layers of_one_adapter(*tested.context, kSmall, DType::q4_1, {3, 0});
  of_one_adapter.add_adapters();
  EXPECT_TRUE(decodes_in_one_launch(*tested.context, of_one_adapter.decode));
  EXPECT_THAT(*tested.warnings, testing::IsEmpty());
  EXPECT_THAT(*tested.missing_sums, testing::IsEmpty());
}

TEST_F(OneLaunch, SetsTheFlagIfAGroupDoesNotArrive) {
  if (context().device().compute_units < 2)
    GTEST_SKIP() << "a single group has no other to wait for";
  const test::Folders folders;
  folders.replace("grid_barrier_cpu.clh", "SECONDS 5", "SECONDS 1");
  folders.replace("grid_barrier_cpu.clh", "atomic_inc(grid_barrier) +",
                  "(get_group_id(0) == 0 ? atomic_inc(grid_barrier) : -1) +");
  const test::Observed untested(folders, Variant::cpu_int8, false);
  const Layers layers(*untested.context, kSmall, DType::q4_1, {3, 0});
  const Tensor grid_barrier =
      test::upload(*untested.context, {3}, std::vector<std::int32_t>{0, 0, 0});
  Batch batch(*untested.context);
  record_decode_layers(batch, layers.x, layers.decode, grid_barrier);
  batch.submit().wait();
  EXPECT_EQ(untested.context->read<std::int32_t>(grid_barrier)[1], 1);

  const test::Observed tested(folders, Variant::cpu_int8);
  const Layers same(*tested.context, kSmall, DType::q4_1, {3, 0});
  EXPECT_FALSE(decodes_in_one_launch(*tested.context, same.decode));
  EXPECT_THAT(*tested.warnings, testing::Contains(testing::HasSubstr("decode_layers q4_1")));
}

// The kernel for GPUs, on any device that runs one group per compute unit concurrently, which
// includes pocl's threads.
class OneLaunchOfManyItems : public testing::Test {
 protected:
  void SetUp() override {
    if (co_resident_groups(facts_of(context())) == 0) {
      GTEST_SKIP() << "this device may not run all groups at once";
    }
  }
  static Variant variant() {
    return test::is_for_this_device(Variant::mma) ? Variant::mma : Variant::cpu;
  }
  Context& context() { return test::context_of(variant()); }
  void run(const Layers& layers, int times = 1) {
    ASSERT_EQ(decode_layers_gpu_refusal(context(), layers.decode), nullptr);
    const Tensor grid_barrier = test::upload(context(), {3}, std::vector<std::int32_t>{0, 0, 0});
    Batch batch(context());
    record_decode_layers_gpu(batch, layers.x, layers.decode, grid_barrier, layers.decode);
    for (int i = 0; i < times; ++i) batch.submit().wait();
    EXPECT_EQ(context().read<std::int32_t>(grid_barrier)[1], 0) << "a group did not arrive";
  }
  void expect_unfused(DType type, const Shapes& shapes, const Place& place, int times = 1,
                      bool adapted = false) {
    expect_unfused_with(
        [adapted](Layers& layers) {
          layers.add_biases();
          if (adapted) layers.add_adapters();
        },
        type, shapes, place, times);
  }
  void expect_unfused_with(const std::function<void(Layers&)>& add, DType type,
                           const Shapes& shapes, const Place& place, int times = 1) {
    Layers one(context(), shapes, type, place, Layout::plain);
    Layers unfused(context(), shapes, type, place, Layout::plain);
    add(one);
    add(unfused);
    const auto before = one.bits();
    run(one, times);
    for (int i = 0; i < times; ++i) run_unfused(context(), unfused);
    EXPECT_NE(one.bits(), before);
    test::expect_close(one.values(), test::to_double(unfused.values()), tolerance_of(one),
                       fmt::format("{} at {} from {}", name_of(type), place.position, place.first));
  }
};

constexpr Shapes kFew{2, 24, 40, 3, 1, 8, 20};
constexpr Shapes kWithBiases{3, 128, 192, 4, 2, 32, 300};

TEST_F(OneLaunchOfManyItems, GivesWhatTheUnfusedOpsGive) {
  for (const DType type : {DType::bf16, DType::q8_0}) {
    for (const Place place : {Place{0, 0}, Place{33, 5}, Place{299, 0}}) {
      expect_unfused(type, kWithBiases, place);
    }
  }
  expect_unfused(DType::f32, {2, 72, 88, 3, 1, 24, 40}, {39, 39});
}

TEST_F(OneLaunchOfManyItems, AddsAnAdapterOfAnyRanks) {
  expect_unfused(DType::bf16, kWithBiases, {120, 3}, 2, true);
  expect_unfused(DType::bf16, {2, 128, 1088, 4, 2, 32, 40}, {7, 0}, 1, true);
}

TEST_F(OneLaunchOfManyItems, AddsAnAdapterOfSeveralProjectionsInOne) {
  const auto add = [](Layers& layers) { layers.add_joined_adapters(); };
  expect_unfused_with(add, DType::bf16, kWithBiases, {120, 3}, 2);
  expect_unfused_with(add, DType::bf16, {2, 128, 1088, 4, 2, 32, 40}, {7, 0});
  const auto add_more = [](Layers& layers) { layers.add_options(), layers.add_joined_adapters(); };
  expect_unfused_with(add_more, DType::bf16, kWithBiases, {33, 5});
  const auto add_gates = [](Layers& layers) {
    layers.add_joined_adapters();
    for (DecodeLayer& layer : layers.decode.layers) {
      layer.loras[0] = layer.loras[1] = layer.loras[2] = {};
    }
  };
  expect_unfused_with(add_gates, DType::bf16, kWithBiases, {33, 5});
}

TEST_F(OneLaunchOfManyItems, GivesWhatTheUnfusedOpsGiveWithAllOptions) {
  const auto add = [](Layers& layers) { layers.add_options(); };
  expect_unfused_with(add, DType::bf16, kWithBiases, {33, 5}, 2);
  expect_unfused_with(add, DType::q8_0, kSmall, {299, 0});
  expect_unfused_with(add, DType::f32, kFew, {11, 2});
  const auto add_more = [](Layers& layers) { layers.add_options(), layers.add_adapters(); };
  expect_unfused_with(add_more, DType::bf16, kWithBiases, {120, 3}, 2);
}

TEST_F(OneLaunchOfManyItems, GivesWhatTheUnfusedOpsGiveWithEachOption) {
  for (const auto& [name, add] : kOptions) {
    SCOPED_TRACE(name);
    expect_unfused_with(add, DType::bf16, kWithBiases, {33, 5});
  }
}

// The count of arrivals continues from launch to launch.
TEST_F(OneLaunchOfManyItems, ContinuesWithItsOwnResultsInEveryReplay) {
  expect_unfused(DType::bf16, kWithBiases, {120, 3}, 3);
}

// More keys than a group has items.
TEST_F(OneLaunchOfManyItems, AttendsToManyKeys) {
  expect_unfused(DType::bf16, {1, 64, 64, 2, 1, 32, 2100}, {2099, 0});
}

TEST_F(OneLaunchOfManyItems, SetsTheFlagIfAGroupDoesNotArrive) {
  if (context().device().compute_units < 2)
    GTEST_SKIP() << "a single group has no other to wait for";
  const test::Folders folders;
  folders.replace("grid_barrier.clh", "LONGEST_WAIT 10000000", "LONGEST_WAIT 100000");
  folders.replace("grid_barrier.clh", "LONGEST_WAIT 400000000", "LONGEST_WAIT 1000000");
  folders.replace("grid_barrier.clh", "if (GROUP_LEADER) count_arrival",
                  "if (GROUP_LEADER && get_group_id(0) == 0) count_arrival");
  const test::Observed observed(folders, variant(), false);
  const Layers layers(*observed.context, kWithBiases, DType::bf16, {3, 0}, Layout::plain);
  const Tensor grid_barrier =
      test::upload(*observed.context, {3}, std::vector<std::int32_t>{0, 0, 0});
  Batch batch(*observed.context);
  record_decode_layers_gpu(batch, layers.x, layers.decode, grid_barrier, layers.decode);
  batch.submit().wait();
  EXPECT_NE(observed.context->read<std::int32_t>(grid_barrier)[1], 0);
}

// If the flag outlived its launch, it would end the waits of the next launches early, long before
// the host considers a step late and reads the flag.
TEST_F(OneLaunchOfManyItems, IsCorrectAfterALaunchThatTimedOut) {
  if (context().device().compute_units < 2)
    GTEST_SKIP() << "a single group has no other to wait for";
  const test::Folders folders;
  folders.replace("grid_barrier.clh", "LONGEST_WAIT 10000000", "LONGEST_WAIT 1000000");
  folders.replace("grid_barrier.clh", "LONGEST_WAIT 400000000", "LONGEST_WAIT 50000000");
  // One group of the first launch is late.
  folders.replace(
      "grid_barrier.clh", "if (GROUP_LEADER) count_arrival(grid_barrier);",
      "if (GROUP_LEADER && grid_barrier[2] == 0 && get_group_id(0) == 1) "
      "while (grid_barrier[1] == 0);\n  if (GROUP_LEADER) count_arrival(grid_barrier);");
  const test::Observed late(folders, variant(), false);
  const Layers layers(*late.context, kWithBiases, DType::bf16, {33, 5}, Layout::plain);
  const Layers same(*late.context, kWithBiases, DType::bf16, {33, 5}, Layout::plain);
  const std::vector<float> x = late.context->read<float>(layers.x);
  const Tensor grid_barrier = test::upload(*late.context, {3}, std::vector<std::int32_t>{0, 0, 0});
  Batch batch(*late.context);
  record_decode_layers_gpu(batch, layers.x, layers.decode, grid_barrier, layers.decode);
  batch.submit().wait();
  const std::int32_t flag = late.context->read<std::int32_t>(grid_barrier)[1];
  EXPECT_NE(flag, 0);
  late.context->write(layers.x, std::as_bytes(std::span(x)));
  batch.submit().wait();
  EXPECT_EQ(late.context->read<std::int32_t>(grid_barrier)[1], flag)
      << "the second one gave up, too";
  run_unfused(*late.context, same);
  test::expect_close(layers.values(), test::to_double(same.values()), 1e-4, "the second launch");
}

// A self-test runs a subset of a model's layers by the model's own program.
TEST_F(OneLaunchOfManyItems, OfSomeLayersRunsByTheProgramOfAll) {
  Layers all(context(), kWithBiases, DType::bf16, {33, 5}, Layout::plain);
  all.add_adapters();
  DecodeLayers some = all.decode;
  some.layers = {all.decode.layers[0], all.decode.layers[2]};
  some.layers[0].loras = {};
  const std::vector<std::uint32_t> before = all.bits();
  const std::vector<float> x = context().read<float>(all.x);
  const Tensor unfused = test::upload(context(), {1, kWithBiases.D}, x);
  Batch reference(context());
  record_decode_layers_unfused(reference, unfused, some);
  reference.submit().wait();
  const Tensor grid_barrier = test::upload(context(), {3}, std::vector<std::int32_t>{0, 0, 0});
  Batch batch(context());
  record_decode_layers_gpu(batch, all.x, some, grid_barrier, all.decode);
  batch.submit().wait();
  EXPECT_NE(all.bits(), before);
  test::expect_close(context().read<float>(all.x), test::to_double(context().read<float>(unfused)),
                     1e-4, "two layers of three");
  EXPECT_NE(decode_layers_gpu_options(context(), all.decode),
            decode_layers_gpu_options(context(), some));
}

// The largest sizes whose local arrays fit. A larger size of any of the arrays is refused.
TEST(OneLaunchSizes, AreThoseWhoseLocalArraysAllFit) {
  constexpr std::uint64_t kMeasuredHopper = 229'440, kMeasuredAmpere = 99 << 10U;
  for (const MatrixUnit unit : {MatrixUnit::wgmma, MatrixUnit::mma}) {
    Device gpu;
    gpu.matrix_unit = unit;
    gpu.compute_units = 132;
    gpu.max_work_group_size = 1024;
    const std::uint64_t limit = unit == MatrixUnit::wgmma ? kMeasuredHopper : kMeasuredAmpere;
    for (const std::int64_t layers : {1, 32, 128}) {
      for (const std::int64_t ranks : {1, 64, 1024}) {
        DecodeSizes s{layers, 1024, 8, 8, 2, 128, 64};
        while (decode_layers_gpu_fit(gpu, s, ranks)) s.F += 8;
        EXPECT_GT(s.F, 1024) << "the row of a product sets the limit";
        EXPECT_FALSE(decode_layers_gpu_fit(gpu, s, ranks));
        s.F -= 8;
        // The local memory that the kernel declares: the row, the table of addresses, s, and the
        // rest.
        EXPECT_LE(static_cast<std::uint64_t>(4 * s.F + 42 * 8 * layers + 4 * ranks + 128 +
                                             4 * 2 * 8 * 16),
                  limit);
        const DecodeSizes more{layers + 1, s.D, s.F, s.H, s.G, s.E, s.S};
        EXPECT_EQ(decode_layers_gpu_local_bytes(gpu, s, ranks) + 42 * 8,
                  decode_layers_gpu_local_bytes(gpu, more, ranks));
        EXPECT_FALSE(decode_layers_gpu_fit(gpu, more, ranks));
        EXPECT_FALSE(decode_layers_gpu_fit(gpu, s, ranks + 8));
        s.post_norms = true;
        EXPECT_FALSE(decode_layers_gpu_fit(gpu, s, ranks)) << "the residual stream";
      }
    }
  }
}

class OneLaunchOnGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::is_for_this_device(Variant::wgmma)) GTEST_SKIP() << "for GPUs that are self-tested";
  }
  // Whether layers are decoded in one launch, with and without an adapter.
  static std::vector<bool> selected(Context& context) {
    Layers layers(context, kWithBiases, DType::bf16, {3, 0}, Layout::plain);
    std::vector<bool> both{decodes_in_one_launch(context, layers.decode)};
    layers.add_adapters();
    both.push_back(decodes_in_one_launch(context, layers.decode));
    return both;
  }
};

TEST_F(OneLaunchOnGpus, PassesItsSelfTest) {
  const test::Folders folders;
  const test::Observed tested(folders, Variant::wgmma);
  EXPECT_THAT(selected(*tested.context), testing::ElementsAre(true, true));
  EXPECT_THAT(*tested.warnings, testing::IsEmpty());
}

TEST_F(OneLaunchOnGpus, IsNotSelectedIfItsKernelIsBroken) {
  const test::Folders folders;
  folders.replace("decode_products_gpu.clh", "sums.x * c - sums.y * s", "sums.x * c + sums.y * s");
  const test::Observed tested(folders, Variant::wgmma);
  EXPECT_THAT(selected(*tested.context), testing::ElementsAre(false, false));
  EXPECT_THAT(*tested.warnings,
              testing::Contains(testing::HasSubstr("self-test: decode_layers_gpu (")));
}

// Few launches per layer: the portable kernels.
class FewLaunches : public test::OpTest {
 protected:
  std::vector<std::uint32_t> run(const Layers& layers, int times) {
    EXPECT_TRUE(decodes_in_few_launches(context(), layers.decode));
    Batch batch(context());
    record_decode_layers_in_few_launches(batch, layers.x, layers.decode);
    for (int i = 0; i < times; ++i) batch.submit().wait();
    return layers.bits();
  }
  void expect_unfused(DType type, const Shapes& shapes, const Place& place,
                      Layout layout = Layout::plain, bool adapted = false, int times = 1) {
    expect_unfused_with(
        [adapted](Layers& layers) {
          layers.add_biases();
          if (adapted) layers.add_adapters();
        },
        type, shapes, place, layout, times);
  }
  void expect_unfused_with(const std::function<void(Layers&)>& add, DType type,
                           const Shapes& shapes, const Place& place, Layout layout = Layout::plain,
                           int times = 1) {
    const auto [count, D, F, H, G, E, S] = shapes;
    if (!test::affords(times * count * 2 * (2 * (H + G) * E + 3 * F) * D)) return;
    Layers few(context(), shapes, type, place, layout);
    Layers unfused(context(), shapes, type, place, layout);
    add(few);
    add(unfused);
    const auto before = few.bits();
    EXPECT_NE(run(few, times), before);
    for (int i = 0; i < times; ++i) run_unfused(context(), unfused);
    test::expect_close(few.values(), test::to_double(unfused.values()), tolerance_of(few),
                       fmt::format("{} at {} from {}", name_of(type), place.position, place.first));
  }
};

INSTANTIATE_TEST_SUITE_P(Variants, FewLaunches, testing::Values(Variant::portable),
                         test::variant_name);

TEST_P(FewLaunches, GiveWhatTheUnfusedOpsGive) {
  for (const DType type : {DType::f32, DType::bf16, DType::q8_0}) {
    for (const Place place : {Place{0, 0}, Place{33, 5}, Place{299, 0}}) {
      expect_unfused(type, kWithBiases, place);
    }
  }
  for (const Shapes& shapes : {kThreeKeyHeads, kNarrowHeads}) {
    expect_unfused(DType::q4_1, shapes, {39, 39});
  }
}

TEST_P(FewLaunches, TakeRowsOfAnyMultipleOfEight) {
  expect_unfused(DType::f32, kFew, {11, 2});
  expect_unfused(DType::f32, {2, 72, 88, 3, 1, 24, 40}, {39, 2});
  expect_unfused(DType::bf16, {1, 8, 2056, 4, 1, 6, 40}, {20, 0});
  expect_unfused(DType::f32, {1, 1304, 24, 1, 1, 8, 9}, {8, 1});
}

TEST_P(FewLaunches, ReadPackedWeights) {
  expect_unfused(DType::q4_1, kSmall, {33, 5}, Layout::packed);
}

TEST_P(FewLaunches, AddAnAdapterOfAnyRanks) {
  expect_unfused(DType::f32, kFew, {11, 2}, Layout::plain, true);
  expect_unfused(DType::bf16, kWithBiases, {120, 3}, Layout::plain, true, 2);
  expect_unfused(DType::f32, {2, 136, 1096, 4, 2, 34, 40}, {7, 0}, Layout::plain, true);
}

TEST_P(FewLaunches, AddAnAdapterOfSeveralProjectionsInOne) {
  const auto add = [](Layers& layers) { layers.add_joined_adapters(); };
  expect_unfused_with(add, DType::f32, kFew, {11, 2});
  expect_unfused_with(add, DType::bf16, kWithBiases, {120, 3}, Layout::plain, 2);
  const auto add_more = [](Layers& layers) { layers.add_options(), layers.add_joined_adapters(); };
  expect_unfused_with(add_more, DType::bf16, kWithBiases, {33, 5});
}

TEST_P(FewLaunches, GiveWhatTheUnfusedOpsGiveWithAllOptions) {
  const auto add = [](Layers& layers) { layers.add_options(); };
  expect_unfused_with(add, DType::bf16, kWithBiases, {33, 5}, Layout::plain, 2);
  expect_unfused_with(add, DType::f32, kFew, {11, 2});
  expect_unfused_with(add, DType::q4_1, kSmall, {33, 5}, Layout::packed);
  const auto add_more = [](Layers& layers) { layers.add_options(), layers.add_adapters(); };
  expect_unfused_with(add_more, DType::bf16, kWithBiases, {120, 3});
  const auto add_halves = [](Layers& layers) {
    layers.add_options();
    layers.store_caches_as(DType::bf16);
  };
  expect_unfused_with(add_halves, DType::q8_0, kSmall, {299, 0});
}

TEST_P(FewLaunches, GiveWhatTheUnfusedOpsGiveWithEachOption) {
  for (const auto& [name, add] : kOptions) {
    SCOPED_TRACE(name);
    expect_unfused_with(add, DType::bf16, kWithBiases, {33, 5});
  }
}

TEST_P(FewLaunches, ContinueWithTheirOwnResultsInEveryReplay) {
  expect_unfused(DType::bf16, kWithBiases, {120, 3}, Layout::plain, false, 3);
}

TEST_P(FewLaunches, GiveTheSameBitsAgain) {
  CLORA_SKIP_UNLESS_AFFORDED(3e5);
  const Layers first(context(), kWithBiases, DType::bf16, {299, 0}, Layout::plain);
  const Layers second(context(), kWithBiases, DType::bf16, {299, 0}, Layout::plain);
  EXPECT_EQ(run(first, 1), run(second, 1));
}

TEST_P(FewLaunches, AreNotSelectedForOtherVariantsSizesAndMixedTypes) {
  const Layers layers(context(), kSmall, DType::q4_1, {0, 0}, Layout::plain);
  DecodeLayers mixed = layers.decode;
  mixed.layers[1].v =
      Layers(context(), kSmall, DType::q8_0, {0, 0}, Layout::plain).decode.layers[1].v;
  EXPECT_FALSE(decodes_in_few_launches(context(), mixed));
  const Layers odd(context(), {1, 12, 16, 2, 1, 8, 4}, DType::f32, {0, 0}, Layout::plain);
  EXPECT_FALSE(decodes_in_few_launches(context(), odd.decode));
  if (!test::is_for_this_device(Variant::cpu)) return;
  EXPECT_FALSE(decodes_in_few_launches(test::context_of(Variant::cpu), layers.decode));
}

// An address that is stored before the batch places its temporaries would be wrong.
TEST_F(OneLaunchOfManyItems, RefusesTemporaries) {
  Layers layers(context(), kWithBiases, DType::bf16, {3, 0}, Layout::plain);
  Batch batch(context());
  layers.decode.layers[1].first = batch.temporary({1}, DType::i32, "first row");
  const Tensor grid_barrier = test::upload(context(), {3}, std::vector<std::int32_t>{0, 0, 0});
  EXPECT_THAT(test::error_of([&] {
                record_decode_layers_gpu(batch, layers.x, layers.decode, grid_barrier,
                                         layers.decode);
              }),
              testing::HasSubstr("decode_layers: first row is a temporary"));
}

class DecodeLayersTest : public test::OpTest {};
INSTANTIATE_TEST_SUITE_P(Variants, DecodeLayersTest, test::all_variants(), test::variant_name);

// The question that is asked before layers are described.
TEST_P(DecodeLayersTest, HasNoKernelsForLayersOfMoreRowsThanItSays) {
  for (const std::size_t rows : {1U, 2U, 16U, 17U}) {
    const std::vector<Place> places(rows, Place{3, 0});
    const bool may = decodes_rows(context(), static_cast<std::int64_t>(rows));
    for (const auto& [type, layout] :
         {std::pair(DType::q4_1, Layout::packed), std::pair(DType::q4_1, Layout::plain),
          std::pair(DType::bf16, Layout::plain)}) {
      const Layers layers(context(), kSmall, type, places, layout);
      const bool does = decodes_in_one_launch(context(), layers.decode) ||
                        decodes_in_few_launches(context(), layers.decode);
      EXPECT_TRUE(may || !does) << rows << " rows of " << name_of(type);
    }
  }
  EXPECT_FALSE(decodes_rows(context(), 17));
  if (!capabilities().cpu) EXPECT_FALSE(decodes_rows(context(), 2));
  if (GetParam() == Variant::portable) EXPECT_TRUE(decodes_rows(context(), 1));
}

// So that the engine's steps report what the forced one does not support.
TEST(DecodeRows, OfAnImplementationThatIsForcedAreAlwaysDescribed) {
  ContextConfig config = config_from_environment();
  config.variant = Variant::portable;
  config.implementations = "decode_layers:portable";
  Context context(config);
  EXPECT_TRUE(decodes_rows(context, 2));
  config.implementations = "decode_layers:unfused";
  Context unfused(config);
  EXPECT_FALSE(decodes_rows(unfused, 2));
}

TEST_P(DecodeLayersTest, RefusesAdaptersThatDoNotFit) {
  using testing::HasSubstr;
  Layers layers(context(), kSmall, DType::q4_1, {0, 0}, Layout::plain);
  layers.add_joined_adapters();
  const auto error = [&](auto change) {
    DecodeLayers decode = layers.decode;
    change(decode.layers[1]);
    Batch batch(context());
    return test::error_of([&] { record_decode_layers_unfused(batch, layers.x, decode); });
  };
  EXPECT_THAT(error([](DecodeLayer& l) { l.loras[1] = {}; }),
              HasSubstr("must all have the adapter of their joined layer"));
  EXPECT_THAT(error([](DecodeLayer& l) { l.loras[5].bt = l.loras[0].bt; }),
              HasSubstr("must all have the adapter of their joined layer"));
  EXPECT_THAT(error([](DecodeLayer& l) { l.loras[6].bt = l.loras[0].bt; }),
              HasSubstr("bt must be f32 [51, 128]"));
  EXPECT_THAT(error([](DecodeLayer& l) { l.loras[6].dropout.probability = 0.5F; }),
              HasSubstr("must not use dropout"));
  EXPECT_THAT(error([](DecodeLayer& l) { l.loras[6].column_scale = l.input_norm; }),
              HasSubstr("must not have column scales"));
}

TEST_P(DecodeLayersTest, RefusesTensorsThatDoNotFit) {
  using testing::HasSubstr;
  const Layers layers(context(), kSmall, DType::q4_1, {0, 0}, Layout::plain);
  const auto error = [&](auto change) {
    DecodeLayers decode = layers.decode;
    change(decode);
    Batch batch(context());
    return test::error_of([&] { record_decode_layers_unfused(batch, layers.x, decode); });
  };
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[2].o = d.layers[2].gate; }),
              HasSubstr("o must be [128, 128]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].input_norm = d.layers[0].rope_table; }),
              HasSubstr("input_norm must be f32 [128]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].value_cache = Tensor(); }),
              HasSubstr("value_cache must be f32 [304, 2, 32]"));
  Layers halves(context(), kSmall, DType::q4_1, {0, 0}, Layout::plain);
  halves.store_caches_as(DType::f16);
  const auto mix = [&](DecodeLayers& d) {
    d.layers[1].key_cache = halves.decode.layers[1].key_cache;
  };
  EXPECT_THAT(error(mix), HasSubstr("key_cache must be f32 [304, 2, 32]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.position = d.layers[0].rope_table; }),
              HasSubstr("position must be i32 [1]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].first = d.layers[0].input_norm; }),
              HasSubstr("first must be i32 [1]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].rope_table = d.layers[0].input_norm; }),
              HasSubstr("rope_table must be f32 [P, 16, 2]"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].key_rope_table = d.layers[0].input_norm; }),
              HasSubstr("key_rope_table must be f32 [P, 16, 2]"));
  EXPECT_THAT(
      error([](DecodeLayers& d) { std::swap(d.layers[1].key_rope_table, d.layers[1].rope_table); }),
      HasSubstr("must have a rope_table"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers[1].q_norm = d.layers[0].input_norm; }),
              HasSubstr("all layers or none must have norms of heads"));
  EXPECT_THAT(
      error([](DecodeLayers& d) { d.layers[2].attention_post_norm = d.layers[0].input_norm; }),
      HasSubstr("all layers or none must have norms of heads, and of outputs"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.soft_cap = -1; }), HasSubstr("the soft cap must be 0"));
  EXPECT_THAT(error([](DecodeLayers& d) { d.layers.clear(); }), HasSubstr("at least one layer"));
}

}  // namespace
}  // namespace clora
