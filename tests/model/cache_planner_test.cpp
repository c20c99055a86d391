// The planned size of the KV cache, against engines that run with it.
#include "model/generation/cache_planner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class CachePlans : public testing::Test {
 protected:
  CachePlans() {
    ModelConfig model = test::tiny_config("Llama");
    model.layers = 12;
    test::write_tiny_model(folder_.path(), model);
    files_.emplace(WeightFiles::open(folder_.path()));
  }
  // limit 0: none.
  ContextConfig context(std::size_t limit, bool dry) const {
    ContextConfig config = config_from_environment();
    if (limit > 0) config.memory_limit_bytes = limit;
    config.dry_run = dry;
    return config;
  }
  LanguageModel open(Context& context) const {
    return {context, *files_, {.context_length = config_.max_positions}};
  }
  CachePlan plan(const EngineConfig& config, std::size_t limit = 0) const {
    Context dry(context(limit, true));
    LanguageModel model = open(dry);
    return plan_cache(model, config, {});
  }
  // The bytes that such an engine takes at most while all its sequences run at full length.
  std::size_t measured_bytes(const EngineConfig& config, std::size_t limit) const {
    Context real(context(limit, false));
    LanguageModel model = open(real);
    Engine engine(model, config);
    for (std::int64_t i = 0; i < config.max_sequences; ++i) {
      std::vector<std::int32_t> prompt;
      for (std::int64_t t = 0; t + 9 < config.max_positions; ++t) {
        prompt.push_back(static_cast<std::int32_t>((t * (i + 3)) % 60));
      }
      (void)engine.submit({.prompt = prompt, .max_tokens = 8});
    }
    std::size_t generated = 0;
    while (!engine.is_idle()) {
      for (const GenerationEvent& event : engine.step()) {
        EXPECT_EQ(event.error, "");
        generated += event.tokens.size();
      }
    }
    EXPECT_EQ(generated, static_cast<std::size_t>(8 * config.max_sequences));
    return real.pool().statistics().high_water_bytes;
  }

  test::TemporaryFolder folder_;
  std::optional<WeightFiles> files_;
  EngineConfig config_{
      .max_sequences = 4, .max_positions = 400, .step_tokens = 256, .cache_type = DType::f32};
};

TEST_F(CachePlans, AreCloseToWhatTheEngineTakes) {
  const CachePlan plan = this->plan(config_);
  EngineConfig config = config_;
  config.cache_positions = 4 * 400;
  const std::size_t cache = 1600 * plan.position_bytes;
  const std::size_t measured = measured_bytes(config, 0);
  EXPECT_NEAR(static_cast<double>(plan.fixed_bytes + cache), static_cast<double>(measured),
              0.25 * static_cast<double>(measured));
}

TEST_F(CachePlans, FitIntoALimitWithWhichTheEngineThenRuns) {
  constexpr std::size_t kStep = 512 << 10U;
  const CachePlan free = plan(config_);
  std::size_t limit = free.fixed_bytes + 500 * free.position_bytes;
  while (plan(config_, limit).fitting_positions < 400) limit += kStep;
  const CachePlan limited = plan(config_, limit);
  EXPECT_EQ(limited.limit_bytes, limit);
  EXPECT_LT(limited.fitting_positions, 1600);
  EXPECT_EQ(limited.fitting_positions % 16, 0);
  EngineConfig config = config_;
  config.cache_positions = planned_cache_positions(limited, config_);
  EXPECT_EQ(config.cache_positions, limited.fitting_positions);
  const std::size_t measured = measured_bytes(config, limit);
  EXPECT_LE(measured, limit);
  EXPECT_GE(measured, limit / 2);
}

TEST_F(CachePlans, AreOfStepsThatAPreparedEngineHasRecorded) {
  Context real(context(0, false));
  LanguageModel model = open(real);
  Engine engine(model, config_);
  const auto in_use = [&] { return real.pool().statistics().in_use_bytes; };
  const std::size_t before = in_use();
  engine.prepare();
  const std::size_t prepared = in_use();
  EXPECT_GT(prepared, before);
  engine.prepare();
  EXPECT_EQ(in_use(), prepared);
  const CachePlan plan = this->plan(config_);
  EXPECT_NEAR(static_cast<double>(plan.fixed_bytes + 1600 * plan.position_bytes),
              static_cast<double>(prepared), 0.1 * static_cast<double>(prepared));
  (void)engine.submit({.prompt = std::vector<std::int32_t>(9, 1), .max_tokens = 1});
  EXPECT_EQ(test::error_of([&] { engine.prepare(); }),
            "engine: prepare() is for an engine without requests");
}

TEST_F(CachePlans, TakeAllPositionsOfAllSequencesWhereTheyFit) {
  EXPECT_EQ(planned_cache_positions(plan(config_), config_), 1600);
}

TEST_F(CachePlans, FitMorePositionsOfFewerBits) {
  EngineConfig config = config_;
  const CachePlan wide = plan(config);
  config.cache_type = DType::bf16;
  const CachePlan half = plan(config);
  EXPECT_EQ(2 * half.position_bytes, wide.position_bytes);
  EXPECT_GT(half.fitting_positions, wide.fitting_positions);
}

TEST_F(CachePlans, RefuseMoreThanFitsAndSayWhatDoes) {
  const CachePlan plan{.limit_bytes = 1000 << 10U,
                       .margin_bytes = 50 << 10U,
                       .fixed_bytes = 150 << 10U,
                       .position_bytes = 1 << 10U,
                       .fitting_positions = 800};
  EngineConfig config{.max_sequences = 4, .max_positions = 512};
  EXPECT_EQ(planned_cache_positions(plan, config), 800);
  config.cache_positions = 801;
  const auto error = [&] {
    return test::error_of([&] { (void)planned_cache_positions(plan, config); });
  };
  EXPECT_THAT(error(), HasSubstr("KV cache: 801 positions of 1024 bytes take 0.8 MiB; of the limit "
                                 "of 1.0 MiB, weights, adapters and steps take 0.1 MiB"));
  EXPECT_THAT(error(), HasSubstr("so that 800 positions fit; lower `cache_positions`"));
  config.cache_positions = 800;
  EXPECT_EQ(planned_cache_positions(plan, config), 800);
  config = {.max_sequences = 4, .max_positions = 1024};
  EXPECT_THAT(error(), HasSubstr("KV cache: 1024 positions"));
}

// Lfm2 keeps states, of one sequence; Qwen3 with one sequence decodes in few launches.
TEST_F(CachePlans, AreMadeForModelsWithStatesAndForOneSequence) {
  for (const auto& [name, sequences] : {std::pair{"Qwen3", 1}, {"Lfm2", 3}}) {
    const test::TemporaryFolder folder;
    test::write_tiny_model(folder.path(), test::tiny_config(name));
    const WeightFiles files = WeightFiles::open(folder.path());
    Context dry(context(0, true));
    LanguageModel model(dry, files, {.context_length = 64});
    const EngineConfig config{.max_sequences = sequences, .max_positions = 64, .step_tokens = 32};
    const CachePlan plan = plan_cache(model, config, {});
    EXPECT_GT(plan.fixed_bytes, 0U) << name;
    EXPECT_GE(plan.fitting_positions, 64) << name;
  }
}

TEST_F(CachePlans, RequireADryRun) {
  LanguageModel model = open(test::context_of(Variant::automatic));
  EXPECT_EQ(test::error_of([&] { (void)plan_cache(model, config_, {}); }),
            "cache plan: the model's context must be a dry run");
}

}  // namespace
}  // namespace clora
