// Engines of models that are split by layers: what they reply, compared with the same model on one
// device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <optional>

#include "clora/model/generation/engine.hpp"
#include "clora/model/generation/generator.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "clora/model/weights/block_split.hpp"
#include "model/generation/cache_planner.hpp"
#include "model/generation/staged_forward.hpp"
#include "tests/support/engine_results.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"
#include "tests/support/test_models.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora {
namespace {

using test::Ids;
using test::request_of;
using test::Result;
using test::run;
using test::some_ids;
using testing::HasSubstr;

constexpr std::int64_t kPositions = 128;

// Each stands for a device of its own. All tests use them, and the kernels that they compile.
using Devices = std::map<std::pair<Variant, std::size_t>, std::unique_ptr<Context>>;
Devices& devices() {
  static Devices all;
  return all;
}

// While the driver is intact: storing new kernels may still compile some.
class ReleasesDevices : public testing::Environment {
 public:
  void TearDown() override { devices().clear(); }
};
[[maybe_unused]] const testing::Environment* const kReleasesDevices =
    testing::AddGlobalTestEnvironment(new ReleasesDevices);

Context& device(std::size_t number, Variant variant = Variant::automatic) {
  std::unique_ptr<Context>& of = devices()[{variant, number}];
  if (of == nullptr) {
    ContextConfig config = config_from_environment();
    if (variant != Variant::automatic) config.variant = variant;
    of = std::make_unique<Context>(config);
  }
  return *of;
}

std::size_t used_bytes() {
  std::size_t bytes = 0;
  for (const auto& [key, of] : devices()) bytes += of->pool().statistics().in_use_bytes;
  return bytes;
}

// A model in stages of as many blocks as `counts` has, with its part of an adapter.
class SplitModel {
 public:
  SplitModel(const WeightFiles& files, const std::vector<std::int64_t>& counts,
             const Adapter* adapter = nullptr, Variant variant = Variant::automatic) {
    std::int64_t begin = 0;
    for (const std::int64_t count : counts) {
      const LoadOptions options{.blocks = BlockRange{begin, begin + count}};
      begin += count;
      models_.push_back(
          std::make_unique<LanguageModel>(device(models_.size(), variant), files, options));
      adapters_.push_back(std::make_unique<std::optional<Adapter>>());
      if (adapter != nullptr) *adapters_.back() = part_of_adapter(*adapter, *models_.back());
      const bool has_part = adapters_.back()->has_value();
      stages.push_back({models_.back().get(), has_part ? &**adapters_.back() : nullptr});
    }
  }

  std::vector<ModelStage> stages;

 private:
  std::vector<std::unique_ptr<LanguageModel>> models_;
  std::vector<std::unique_ptr<std::optional<Adapter>>> adapters_;
};

class StagedEngine : public testing::TestWithParam<std::string> {
 protected:
  StagedEngine() : used_before_(used_bytes()) {}
  // Split models and engines are local to a test.
  void TearDown() override { EXPECT_EQ(used_bytes(), used_before_) << "of the stages' devices"; }

  // The model of tiny_config(name), with so many blocks if that is not 0.
  void open(const std::string& name, std::int64_t layers = 0,
            Variant variant = Variant::automatic) {
    ModelConfig config = test::tiny_config(name);
    if (layers > 0) config.layers = layers;
    test::write_tiny_model(folder_ / name, config);
    one_.reset();
    one_.emplace(folder_ / name, variant);
  }
  LanguageModel& model() { return one_->model; }
  const WeightFiles& files() { return one_->files; }

  static EngineConfig config(std::int64_t sequences = 3) {
    return {.max_sequences = sequences, .max_positions = kPositions, .step_tokens = 48};
  }
  // An adapter of these modules and full tensors, on the model's device, that changes each reply.
  Adapter adapter(const std::vector<std::string>& targets, std::uint32_t seed,
                  AdapterConfig config = {.rank = 3, .alpha = 6}) {
    config.target_modules = targets;
    std::vector<SavedTensor> saved = savable_tensors(model().config());
    std::erase_if(saved, [&](const SavedTensor& tensor) {
      return std::ranges::find(config.modules_to_save, tensor.module()) ==
             config.modules_to_save.end();
    });
    Adapter made(model().context(), select_sites(model().config(), targets, 0), config, saved);
    const auto count = static_cast<std::size_t>(made.parameters().elements());
    const std::vector<float> values = test::random_values(count, seed, 0.5F);
    model().context().write(made.parameters(), std::as_bytes(std::span(values)));
    return made;
  }

  std::size_t used_before_;
  test::TemporaryFolder folder_;
  std::optional<test::OpenModel> one_;
};

// Prompts from one token to more than two steps' budget, greedy and drawn.
std::vector<GenerationRequest> mixed_requests() {
  std::vector<GenerationRequest> requests;
  for (const std::size_t length : {5, 1, 110, 17, 33, 48}) {
    requests.push_back(request_of(some_ids(length, requests.size() + 1),
                                  5 + static_cast<std::int64_t>(requests.size() * 2)));
    if (requests.size() % 3 == 0) {
      requests.back().sampling = {.temperature = 0.9, .repetition_penalty = 1.3, .seed = 5};
    }
  }
  return requests;
}

std::vector<Ids> replies(Engine& engine, const std::vector<GenerationRequest>& requests) {
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) ids.push_back(engine.submit(request));
  std::map<RequestId, Result> results = run(engine);
  std::vector<Ids> all;
  for (const RequestId id : ids) {
    EXPECT_EQ(results[id].error, "");
    all.push_back(results[id].ids);
  }
  EXPECT_EQ(engine.statistics().used_pages, 0);
  return all;
}

// An own head, a tied one, embeddings and sums with norms, experts, and layers with a state.
INSTANTIATE_TEST_SUITE_P(Families, StagedEngine,
                         testing::Values("Llama", "Qwen2", "Gemma3", "Qwen3Moe", "Lfm2", "Qwen3_5"),
                         [](const auto& family) { return family.param; });

TEST_P(StagedEngine, RepliesAsOnOneDevice) {
  open(GetParam());
  const std::vector<GenerationRequest> requests = mixed_requests();
  Engine one(model(), config());
  const std::vector<Ids> want = replies(one, requests);
  const SplitModel split(files(), {1, 1});
  Engine two(split.stages, config());
  EXPECT_EQ(replies(two, requests), want);
  EXPECT_EQ(two.logits(requests[2].prompt), one.logits(requests[2].prompt));
}

TEST_F(StagedEngine, RepliesTheSameHoweverTheBlocksAreDivided) {
  for (const char* name : {"Llama", "Qwen2"}) {
    open(name, 5);
    const std::vector<GenerationRequest> requests = mixed_requests();
    Engine one(model(), config());
    const std::vector<Ids> want = replies(one, requests);
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{1, 4}, {3, 2}, {2, 1, 2}, {5}}) {
      const SplitModel split(files(), counts);
      Engine engine(split.stages, config());
      engine.prepare();
      EXPECT_EQ(replies(engine, requests), want)
          << name << " in " << testing::PrintToString(counts);
    }
  }
}

// Decoding of all blocks of a stage in few launches overwrites the stream that a stage reads.
TEST_F(StagedEngine, RepliesAsOnOneDeviceOfTheVariantPortable) {
  open("Llama", 3, Variant::portable);
  const std::vector<GenerationRequest> requests = mixed_requests();
  Engine one(model(), config(1));
  const std::vector<Ids> want = replies(one, requests);
  const SplitModel split(files(), {1, 1, 1}, nullptr, Variant::portable);
  Engine engine(split.stages, config(1));
  EXPECT_EQ(replies(engine, requests), want);
}

TEST_F(StagedEngine, KeepsTheCacheOfEachBlockOnItsDeviceOnly) {
  open("Llama", 6);
  const SplitModel split(files(), {1, 2, 3});
  const auto used = [](std::size_t number) {
    return device(number).pool().statistics().in_use_bytes;
  };
  const std::array before{used(0), used(1), used(2)};
  EngineConfig large = config();
  large.cache_positions = 16384;
  large.cache_type = DType::f32;
  const Engine engine(split.stages, large);
  constexpr std::size_t kBlockBytes = 2 * std::size_t{16384} * 2 * 10 * 4;  // of 2 heads of 10
  for (std::size_t i = 0; i < 3; ++i) {
    const std::size_t cache = (i + 1) * kBlockBytes;
    EXPECT_GE(used(i) - before.at(i), cache) << i;
    EXPECT_LT(used(i) - before.at(i), cache + kBlockBytes / 2) << i;
  }
}

TEST_F(StagedEngine, AddsTheBaseAdapterOfEachStage) {
  open("Llama", 3);
  const std::vector<GenerationRequest> requests = mixed_requests();
  const Adapter all = adapter({"all-linear", "embed_tokens", "lm_head"}, 1);
  const Adapter magnitudes =
      adapter({"q_proj", "down_proj"}, 2, {.rank = 2, .alpha = 2, .use_dora = true});
  const Adapter full = adapter(
      {"v_proj"}, 3,
      {.rank = 2, .alpha = 2, .modules_to_save = {"lm_head", "model.embed_tokens", "model.norm"}});
  ASSERT_FALSE(full.saved_tensors().empty());
  Engine bare(model(), config());
  const std::vector<Ids> without = replies(bare, requests);
  for (const Adapter* each : {&all, &magnitudes, &full}) {
    EngineConfig with = config();
    with.base_adapter = each;
    Engine one(model(), with);
    const std::vector<Ids> want = replies(one, requests);
    EXPECT_NE(want, without);
    const SplitModel split(files(), {2, 1}, each);
    Engine two(split.stages, config());
    EXPECT_EQ(replies(two, requests), want);
  }
}

TEST_F(StagedEngine, GivesNoPartToAStageThatAnAdapterDoesNotAdapt) {
  open("Llama", 3);
  const Adapter last(model().context(), select_sites(model().config(), {"q_proj"}, 1), {.rank = 2});
  const SplitModel split(files(), {2, 1}, &last);
  EXPECT_EQ(split.stages[0].adapter, nullptr);
  ASSERT_NE(split.stages[1].adapter, nullptr);
  EXPECT_EQ(split.stages[1].adapter->modules().size(), 1U);
}

TEST_F(StagedEngine, ServesAdaptersOfRequestsInOneBatch) {
  open("Llama", 3);
  const std::map<std::string, Adapter> adapters = [&] {
    std::map<std::string, Adapter> made;
    made.emplace("all", adapter({"all-linear"}, 4));
    made.emplace("ends", adapter({"embed_tokens", "lm_head", "q_proj"}, 5));
    made.emplace("down", adapter({"down_proj"}, 6));
    return made;
  }();
  std::vector<GenerationRequest> requests = mixed_requests();
  requests[0].adapters = {{"all"}};
  requests[1].adapters = {{"ends"}};
  requests[2].adapters = {{"down", 0.5}};
  requests[4].adapters = {{"all", 0.5}, {"ends", 2}};
  requests[5].adapters = {{"ends", -1}};
  for (const std::int64_t slots : {1, 3}) {
    EngineConfig served = config();
    served.device_adapters = slots;
    served.max_rank = 6;
    const auto add_all = [&](Engine& engine) {
      for (const auto& [name, each] : adapters) engine.add_adapter(name, each);
    };
    Engine one(model(), served);
    add_all(one);
    const SplitModel split(files(), {1, 2});
    Engine two(split.stages, served);
    add_all(two);
    EXPECT_EQ(replies(two, requests), replies(one, requests)) << slots << " slots";
  }
}

TEST_F(StagedEngine, RefusesAnAdapterOfARequestForWhatTheBaseAdapterAdapts) {
  open("Llama", 3);
  const Adapter base = adapter({"q_proj"}, 7), other = adapter({"q_proj"}, 8);
  const SplitModel split(files(), {1, 2}, &base);
  EngineConfig served = config();
  served.device_adapters = 1;
  served.max_rank = 4;
  Engine engine(split.stages, served);
  EXPECT_THAT(test::error_of([&] { engine.add_adapter("other", other); }),
              HasSubstr("the base adapter also adapts"));
}

TEST_F(StagedEngine, VerifiesGuessesFromThePrompt) {
  open("Llama", 3);
  Ids repeated;
  for (int i = 0; i < 4; ++i) {
    for (const std::int32_t id : some_ids(8, 4)) repeated.push_back(id);
  }
  std::vector<GenerationRequest> requests{request_of(repeated, 60), request_of(repeated, 40)};
  requests[1].sampling = {.temperature = 0.7, .seed = 3};
  for (GenerationRequest& request : requests) request.draft_tokens = 4;
  Engine one(model(), config());
  const SplitModel split(files(), {1, 2});
  Engine two(split.stages, config());
  EXPECT_EQ(replies(two, requests), replies(one, requests));
  EXPECT_GT(two.statistics().accepted_draft_tokens, 0U);
}

TEST_F(StagedEngine, ComputesAgainWhatGaveItsPagesToEarlierRequests) {
  open("Llama", 3);
  EngineConfig small = config();
  small.cache_positions = 128;
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < 3; ++i) requests.push_back(request_of(some_ids(20, i + 1), 60));
  Engine one(model(), small);
  const SplitModel split(files(), {1, 2});
  Engine two(split.stages, small);
  EXPECT_EQ(replies(two, requests), replies(one, requests));
  EXPECT_GT(two.statistics().preemptions, 0U);
}

TEST_F(StagedEngine, MeasuresPromptsAndRepliesAsOneDevice) {
  open("Qwen2", 3);
  GenerationRequest request = request_of(some_ids(70, 3), 5);
  request.sampling.top_logprobs = 2;
  request.prompt_logprobs = 1;
  const auto measured = [&](Engine& engine) {
    const RequestId id = engine.submit(request);
    std::vector<double> logprobs;
    while (!engine.is_idle()) {
      for (const GenerationEvent& event : engine.step()) {
        EXPECT_EQ(event.request, id);
        for (const GeneratedToken& token : event.prompt_logprobs) {
          logprobs.push_back(token.logprob);
        }
        for (const GeneratedToken& token : event.tokens) logprobs.push_back(token.logprob);
      }
    }
    return logprobs;
  };
  Engine one(model(), config());
  const SplitModel split(files(), {2, 1});
  Engine two(split.stages, config());
  const std::vector<double> want = measured(one);
  EXPECT_EQ(want.size(), 69U + 5U);
  EXPECT_EQ(measured(two), want);
}

TEST_F(StagedEngine, NamesTheMatrixOfALaterStageThatIsNotFinite) {
  open("Llama", 3);
  const Adapter base = adapter({"down_proj"}, 9);
  const AdapterModule& last = base.modules().back();
  const Tensor bt = base.weights(last.site.path).bt;
  const std::vector<float> bad(static_cast<std::size_t>(bt.elements()),
                               std::numeric_limits<float>::quiet_NaN());
  model().context().write(bt, std::as_bytes(std::span(bad)));
  const SplitModel split(files(), {2, 1}, &base);
  Engine engine(split.stages, config());
  engine.submit(request_of(some_ids(4, 1)));
  const Result result = run(engine).begin()->second;
  EXPECT_THAT(result.error, HasSubstr("lora_B of model.layers.2.mlp.down_proj"));
}

TEST_F(StagedEngine, LoadsAPrefixThatOneDeviceSavedAndTheOtherWayRound) {
  open("Llama", 3);
  const auto file = folder_ / "prefix.safetensors", again = folder_ / "again.safetensors";
  const GenerationRequest request = request_of(some_ids(60, 2));
  Engine one(model(), config(1));
  const Ids want = replies(one, {request}).front();
  EXPECT_EQ(one.save_prefix(file, request.prompt), 48);
  const SplitModel split(files(), {2, 1});
  Engine two(split.stages, config(1));
  EXPECT_EQ(two.load_prefix(file), 48);
  EXPECT_EQ(replies(two, {request}).front(), want);
  EXPECT_EQ(two.statistics().cached_prompt_tokens, 48U);
  EXPECT_EQ(two.save_prefix(again, request.prompt), 48);
  EXPECT_EQ(test::read_file(again), test::read_file(file));
}

// The sampler writes the latest tokens on the last device, the embeddings are on the first one.
TEST_F(StagedEngine, RefusesAStepThatBeginsFromLatestTokens) {
  open("Llama", 3);
  const SplitModel split(files(), {1, 2});
  const PagedForwardConfig each{.max_positions = 16, .pages = 1};
  StagedForward forward(split.stages, std::array{each, each});
  const StepShape shape{.paged_rows = 1, .outputs = 1, .selects = false};
  const PagedForward::Staged staged = forward.begin(shape);
  staged.part(StepInputs::kSources)[0] = 0;
  EXPECT_THAT(test::error_of([&] { forward.submit(shape); }), HasSubstr("got latest tokens"));
}

TEST_F(StagedEngine, PlansTheCacheForTheDeviceOnWhichTheFewestPositionsFit) {
  open("Llama", 6);
  // Two devices of which the second one has more blocks.
  const auto plan = [&](const std::vector<std::int64_t>& counts) {
    std::vector<std::unique_ptr<Context>> contexts;
    std::vector<std::unique_ptr<LanguageModel>> models;
    std::vector<ModelStage> stages;
    std::int64_t begin = 0;
    for (const std::int64_t count : counts) {
      ContextConfig dry = config_from_environment();
      dry.dry_run = true;
      dry.memory_limit_bytes = std::size_t{64} << 20U;
      contexts.push_back(std::make_unique<Context>(dry));
      const LoadOptions options{.blocks = BlockRange{begin, begin + count}};
      begin += count;
      models.push_back(std::make_unique<LanguageModel>(*contexts.back(), files(), options));
      stages.push_back({models.back().get()});
    }
    return plan_cache(stages, config(), {});
  };
  const CachePlan whole = plan({6}), uneven = plan({2, 4}), even = plan({3, 3});
  EXPECT_EQ(uneven.position_bytes * 6, whole.position_bytes * 4);
  EXPECT_EQ(even.position_bytes * 6, whole.position_bytes * 3);
  EXPECT_LT(whole.fitting_positions, uneven.fitting_positions);
  EXPECT_LT(uneven.fitting_positions, even.fitting_positions);
}

TEST_F(StagedEngine, RequiresTheStagesOfAWholeModelInTheirOrder) {
  open("Llama", 3);
  const Adapter base = adapter({"q_proj"}, 7);
  const SplitModel split(files(), {1, 2}, &base);
  const auto error_of = [&](const std::vector<ModelStage>& stages, const EngineConfig& config) {
    return test::error_of([&] { Engine(stages, config); });
  };
  const std::vector<ModelStage>& stages = split.stages;
  EXPECT_THAT(error_of({}, config()), HasSubstr("at least one stage"));
  EXPECT_THAT(error_of({stages[0]}, config()), HasSubstr("must end with block 3"));
  EXPECT_THAT(error_of({stages[1]}, config()), HasSubstr("at block 0, got the blocks [1, 3)"));
  EXPECT_THAT(error_of({stages[1], stages[0]}, config()), HasSubstr("at block 0"));
  EXPECT_THAT(error_of({stages[0], {stages[1].model, &base}}, config()),
              HasSubstr("the adapter of the blocks [1, 3) must be on their device"));
  EngineConfig with = config();
  with.base_adapter = &base;
  EXPECT_THAT(error_of(stages, with), HasSubstr("is that of its stages"));
}

}  // namespace
}  // namespace clora
