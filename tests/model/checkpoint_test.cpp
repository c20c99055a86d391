// Checkpoints: what a run may resume from, and damaged files.
#include "clora/model/training/checkpoint.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "clora/lora/safetensors.hpp"
#include "lora/tensor_checksums.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/owned_records.hpp"
#include "tests/support/training_runs.hpp"

namespace clora {
namespace {

using testing::HasSubstr;

class Checkpoints : public test::TrainingRunTest {
 protected:
  // checkpoint-4 of a run of 9 steps.
  std::filesystem::path checkpoint(const TrainingRunConfig& c) {
    Adapter adapter = new_adapter();
    TrainingRunConfig saving = c;
    saving.save_every = 4;
    saving.adapter_out = folder_ / "saved";
    run(adapter, saving);
    return folder_ / "saved" / "checkpoint-4";
  }
  std::filesystem::path checkpoint() { return checkpoint(config("saved")); }

  // Changes the metadata and the values of each tensor in a state file. The checksums are updated
  // unless `checksums` is `stay`.
  using ChangeMetadata = std::function<void(SafetensorsMetadata&)>;
  using ChangeTensor = std::function<void(const std::string& name, std::vector<float>&)>;
  enum class Checksums { fit, stay };
  void rewrite(const std::filesystem::path& folder, const ChangeMetadata& change_metadata,
               const ChangeTensor& change_tensor = {}, Checksums checksums = Checksums::fit) {
    const std::filesystem::path path = folder / "training_state.safetensors";
    SafetensorsMetadata metadata;
    std::map<std::string, std::vector<float>> values;
    {
      const SafetensorsFile file = SafetensorsFile::open(path);
      metadata = file.metadata();
      for (const std::string& name : file.names()) {
        const StoredTensor tensor = file.find(name).value();
        values[name].resize(tensor.bytes.size() / sizeof(float));
        std::memcpy(values[name].data(), tensor.bytes.data(), tensor.bytes.size());
        if (change_tensor) change_tensor(name, values[name]);
      }
    }
    change_metadata(metadata);
    std::vector<StoredTensor> tensors;
    for (const auto& [name, of_tensor] : values) {
      tensors.push_back(
          {name, DType::f32, {std::ssize(of_tensor)}, std::as_bytes(std::span(of_tensor))});
    }
    if (checksums == Checksums::fit) metadata = with_checksums(metadata, tensors);
    write_safetensors(path, tensors, metadata);
  }
};

class OtherRuns : public Checkpoints {
 protected:
  // Expects that the checkpoint is refused with a message that names the setting, its old value and
  // its new one.
  void expect_refused(const std::string& named, const LanguageModel& model, const Adapter& adapter,
                      const Records& records, const TrainingRunConfig& c) {
    const auto error =
        test::caught([&] { (void)check_resume(checkpoint_, model, adapter, records, c); });
    ASSERT_TRUE(error.has_value()) << named;
    EXPECT_EQ(error->code, ErrorCode::invalid_argument);
    EXPECT_THAT(error->message, HasSubstr("comes from a run with different settings: "));
    EXPECT_THAT(error->message, HasSubstr(named));
    EXPECT_THAT(error->message, HasSubstr(" and is "));
  }
  void expect_adapter_refused(const std::string& named, const AdapterConfig& adapter,
                              const std::vector<AdapterSite>& sites) {
    expect_refused(named, open_->model, new_adapter(adapter, sites), records_, config("again"));
  }

  std::vector<AdapterSite> all_sites() const { return adapter_sites(open_->model.config()); }

  std::filesystem::path checkpoint_ = checkpoint();
};

TEST_F(OtherRuns, AreRefusedByTheNameOfTheSetting) {
  const std::vector<std::pair<std::string, std::function<void(TrainingRunConfig&)>>> changes{
      {"batch size was 4 and is 5", [](auto& c) { c.batch_size = 5; }},
      {"gradient accumulation was 1 and is 2", [](auto& c) { c.grad_accumulation = 2; }},
      {"shuffle was yes and is no", [](auto& c) { c.shuffle = false; }},
      {"seed was 5 and is 6", [](auto& c) { c.seed = 6; }},
      {"learning rate was 0.01 and is 0.02", [](auto& c) { c.learning_rate = 0.02; }},
      {"schedule was constant and is cosine", [](auto& c) { c.schedule = Schedule::cosine; }},
      {"warm-up steps was 0 and is 3", [](auto& c) { c.warmup_steps = 3; }},
      {"warm-up share was absent and is 0.1", [](auto& c) { c.warmup_share = 0.1; }},
      {"decay share was absent and is 0.2", [](auto& c) { c.schedule = Schedule::wsd; }},
      {"minimum rate share was absent and is 0.1",
       [](auto& c) { c.schedule = Schedule::linear, c.min_rate_share = 0.1; }},
      {"weight decay was 0 and is 0.1", [](auto& c) { c.weight_decay = 0.1; }},
      {"clip norm was 0 and is 1", [](auto& c) { c.clip_norm = 1; }},
      {"router aux loss coef was absent and is 0.5", [](auto& c) { c.router_aux_loss_coef = 0.5; }},
      {"max sequence length was 0 and is 64", [](auto& c) { c.max_seq_length = 64; }}};
  const Adapter adapter = new_adapter();
  for (const auto& [named, change] : changes) {
    TrainingRunConfig c = config("again");
    change(c);
    expect_refused(named, open_->model, adapter, records_, c);
  }
  TrainingRunConfig same = config("again");
  same.eval_every = 2;  // does not affect the result
  EXPECT_EQ(check_resume(checkpoint_, open_->model, adapter, records_, same).step, 4);
}

TEST_F(OtherRuns, WithAnotherAdapterAreRefused) {
  expect_adapter_refused("alpha was 16 and is 8", {.rank = 4, .alpha = 8}, all_sites());
  expect_adapter_refused("rank-stabilised scale (rsLoRA) was no and is yes",
                         {.rank = 4, .rank_stabilised = true}, all_sites());
  expect_adapter_refused("dropout was 0 and is 0.1", {.rank = 4, .dropout = 0.1}, all_sites());
  const ModelConfig& model = open_->model.config();
  // The same number of trainable parameters.
  const auto half = select_sites(model, {"all-linear"}, 1);
  EXPECT_EQ(new_adapter({.rank = 8}, half).trainable_parameters(),
            new_adapter().trainable_parameters());
  expect_adapter_refused("rank was 4 and is 8", {.rank = 8}, half);
  expect_adapter_refused("adapted layers was 0,1 and is 1", {.rank = 8}, half);
  auto without = all_sites();
  std::erase_if(without, [](const AdapterSite& s) { return s.path.ends_with("v_proj"); });
  expect_adapter_refused("target modules was q_proj,k_proj,v_proj,", {.rank = 4}, without);
  // Different ranks per layer.
  std::vector<AdapterModule> modules = new_adapter().modules();
  modules.front().rank = 5;
  const Adapter uneven(open_->model.context(), modules, {.rank = 4});
  expect_refused("adapted matrices with their ranks and scales", open_->model, uneven, records_,
                 config("again"));
}

TEST_F(OtherRuns, OnOtherDataAreRefused) {
  const auto expect_data_refused = [&](const std::string& named, auto change) {
    std::vector<Record> changed = test::owned(records_.records);
    change(changed);
    const Records records{.records = test::store_of(changed)};
    expect_refused(named, open_->model, new_adapter(), records, config("again"));
  };
  expect_data_refused("contents of the records was", [](auto& r) { ++r[13].ids[2]; });
  expect_data_refused("contents of the records was", [](auto& r) { r[13].is_target[2] = 0; });
  expect_data_refused("records was 22 and is 21", [](auto& r) { r.pop_back(); });
  expect_data_refused("settings: records in their order was",
                      [](auto& r) { std::swap(r[3], r[4]); });
}

TEST_F(OtherRuns, OfAnotherModelAreRefused) {
  ModelConfig model = test::tiny_models().front().config;
  const auto expect_model_refused = [&](const std::string& named, std::uint32_t seed) {
    test::write_tiny_model(folder_ / "other", model, DType::f32, seed);
    const test::OpenModel other(folder_ / "other");
    expect_refused(named, other.model, new_adapter(), records_, config("again"));
  };
  expect_model_refused("model weights was", 2);
  model.rope.base *= 2;
  expect_model_refused("model rope_theta was", 1);
  const WeightFiles files = WeightFiles::open(folder_ / "model");
  const LanguageModel portable(test::context_of(Variant::portable), files);
  if (open_->model.context().variant() == Variant::portable) return;
  expect_refused("kernel variant was", portable, new_adapter(), records_, config("again"));
}

TEST_F(Checkpoints, OfARunThatIsRefusedLeaveTheAdapterAsItIs) {
  const auto folder = checkpoint();
  Adapter adapter = new_adapter();
  const std::vector<float> before = parameters(adapter);
  TrainingRunConfig c = config("again");
  c.learning_rate = 5e-3;
  CLORA_EXPECT_ERROR(run(adapter, c, folder), ErrorCode::invalid_argument, "learning rate was");
  EXPECT_EQ(parameters(adapter), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "again"));
}

// ---- Other lengths

TEST_F(Checkpoints, OfAFinishedRunAreExtendedAsIfItHadBeenLongerFromTheStart) {
  Adapter longer = new_adapter();
  TrainingRunConfig c = config("longer");
  c.steps = 14;
  const std::vector<double> losses = run(longer, c);
  (void)checkpoint();  // 9 steps, so checkpoint-9 remains
  Adapter extended = new_adapter();
  c.adapter_out = folder_ / "extended";
  const std::vector<double> rest = run(extended, c, folder_ / "saved" / "checkpoint-9");
  EXPECT_EQ(rest, std::vector<double>(losses.begin() + 9, losses.end()));
  EXPECT_EQ(parameters(extended), parameters(longer));
  EXPECT_EQ(resumed_.step, 9);
  EXPECT_EQ(resumed_.steps_then, 9);
  EXPECT_EQ(resumed_.steps_now, 14);
}

TEST_F(Checkpoints, AreExtendedOnlyIfTheLearningRatesSoFarStayTheSame) {
  for (const auto& [warmup, allowed] : {std::pair{2, false}, {3, true}}) {
    TrainingRunConfig c = config("saved");
    c.schedule = Schedule::cosine;
    c.warmup_steps = warmup;
    const auto folder = checkpoint(c);
    c.steps = 12;
    Adapter adapter = new_adapter();
    c.adapter_out = folder_ / "again";
    if (allowed) {
      EXPECT_EQ(run(adapter, c, folder).size(), 8U);
    } else {
      CLORA_EXPECT_ERROR(run(adapter, c, folder), ErrorCode::invalid_argument,
                         "is from a run of 9 steps, but this run has 12: with the cosine schedule, "
                         "the learning rates");
    }
  }
}

TEST_F(Checkpoints, AreRefusedIfTheRunEndsBeforeThem) {
  const auto folder = checkpoint();
  Adapter adapter = new_adapter();
  TrainingRunConfig c = config("again");
  c.steps = 3;
  CLORA_EXPECT_ERROR(run(adapter, c, folder), ErrorCode::invalid_argument,
                     "is from step 4, but the run has only 3 steps");
}

// ---- Damage

TEST_F(Checkpoints, WithAStepThatTheRunCannotHaveReachedAreRefused) {
  const auto folder = checkpoint();
  Adapter adapter = new_adapter();
  const auto message_of = [&](const char* step) {
    rewrite(folder, [&](auto& metadata) { metadata["step"] = step; });
    const auto error = test::caught([&] { run(adapter, config("again"), folder); });
    EXPECT_TRUE(error.has_value()) << step;
    EXPECT_EQ(error.value_or(test::Caught{}).code, ErrorCode::invalid_file);
    return error.value_or(test::Caught{}).message;
  };
  EXPECT_THAT(message_of("1000000"), HasSubstr("must be from 0 to the 9 steps of its run"));
  for (const char* step : {"5abc", "-1", "", " 4", "4.0", "99999999999999999999", "nan"}) {
    EXPECT_THAT(message_of(step), HasSubstr("step of ")) << step;
    EXPECT_THAT(message_of(step), HasSubstr("must be an integer from 0")) << step;
  }
}

TEST_F(Checkpoints, WithAnInvalidStepCountAreRefused) {
  const auto folder = checkpoint();
  Adapter adapter = new_adapter();
  for (const char* steps : {"12x", "0", "-4", "9999999999999"}) {
    rewrite(folder, [&](auto& metadata) {
      Fingerprint fingerprint = fingerprint_from_json(metadata["fingerprint"], "test");
      for (FingerprintSetting& setting : fingerprint) {
        if (setting.name == "steps") setting.value = steps;
      }
      metadata["fingerprint"] = to_json(fingerprint);
    });
    CLORA_EXPECT_ERROR(run(adapter, config("again"), folder), ErrorCode::invalid_file,
                       "must be from 1 to 1000000000");
  }
  rewrite(folder, [&](auto& metadata) { metadata["fingerprint"] = std::string(50000, '['); });
  CLORA_EXPECT_ERROR(run(adapter, config("again"), folder), ErrorCode::invalid_file,
                     "the fingerprint of");
}

TEST_F(Checkpoints, AreNotWrittenOfAdaptersOrMomentsThatAreNotFinite) {
  Adapter adapter = new_adapter();
  Trainer trainer(open_->model, adapter, {});
  Trainer::State state = trainer.state();
  float& second = std::get<std::vector<float>>(state.optimizer.arrays.at(1).values)[5];
  second = std::nanf("");
  trainer.restore(state);
  CLORA_EXPECT_ERROR(save_checkpoint(folder_ / "out", adapter, trainer, {}), ErrorCode::diverged,
                     "the optimizer's second_moment is not finite");
  second = 0;
  trainer.restore(state);
  std::vector<float> values = parameters(adapter);
  values[adapter.modules()[2].bt_offset + 3] = HUGE_VALF;
  open_->model.context().write(adapter.parameters(), std::as_bytes(std::span(values)));
  CLORA_EXPECT_ERROR(save_checkpoint(folder_ / "out", adapter, trainer, {}), ErrorCode::diverged,
                     "lora_B of model.layers.0.self_attn.v_proj contains infinity at element 3");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Checkpoints, WithValuesThatAreNotFiniteAreRefused) {
  for (const std::string bad : {"first_moment", "parameters", "second_moment"}) {
    const auto folder = checkpoint();
    const auto poison = [&](const std::string& name, std::vector<float>& values) {
      if (name == bad) values[3] = std::nanf("");
    };
    rewrite(
        folder, [](auto&) {}, poison, Checksums::stay);
    CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                       "the tensor '" + bad + "' of '");
    CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                       "does not match its checksum");
    rewrite(
        folder, [](auto&) {}, poison);
    CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                       "the tensor '" + bad + "' of '");
    CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::invalid_file,
                       "contains NaN at element 3");
  }
}

TEST_F(Checkpoints, OfAnEarlierCloraReportHowToContinue) {
  const auto folder = checkpoint();
  rewrite(
      folder,
      [](auto& metadata) {
        metadata = {{"fingerprint", "records 22, batch size 4"}, {"step", "4"}};
      },
      {}, Checksums::stay);
  CLORA_EXPECT_ERROR(read_checkpoint(folder), ErrorCode::unsupported,
                     "start a new run from its adapter");
}

// CLORA_FLIPS sets the number of changed bytes; the default is 300.
TEST_F(Checkpoints, WithAByteChangedAreRefusedOrGiveTheSame) {
  const auto folder = checkpoint();
  const Checkpoint want = read_checkpoint(folder);
  const std::filesystem::path path = folder / "training_state.safetensors";
  const std::string original = test::read_file(path);
  std::uint64_t header = 0;
  std::memcpy(&header, original.data(), sizeof header);
  const char* wanted = std::getenv("CLORA_FLIPS");
  const int flips = wanted == nullptr ? 300 : std::atoi(wanted);
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < flips; ++i) {
    const std::size_t among = i % 2 == 0 ? original.size() : sizeof header + header;
    const std::size_t at = random() % among;
    std::string damaged = original;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << random() % 8));
    test::write_file(path, damaged);
    const auto error = test::caught([&] {
      const Checkpoint got = read_checkpoint(folder);
      EXPECT_TRUE(got.state == want.state && got.parameters == want.parameters &&
                  got.fingerprint == want.fingerprint)
          << "byte " << at;
    });
    if (!error.has_value()) continue;
    ++refused;
    EXPECT_THAT(error->message, HasSubstr("training_state.safetensors")) << "byte " << at;
  }
  RecordProperty("flips", flips);
  RecordProperty("refused", refused);
  std::printf("%d of %d damaged checkpoints were refused, the others gave the same\n", refused,
              flips);
  EXPECT_GT(refused, flips * 9 / 10);
}

}  // namespace
}  // namespace clora
