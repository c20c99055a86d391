// Forms of training against the usual step, adapters of rank N and the loss of the next token, on
// the same tokens and in one run:
//   training_dora/fused/bf16/BATCHxLENGTH/rN  DoRA
//   training_dpo/fused/bf16/BATCHxLENGTH/rN   DPO on BATCH / 2 pairs, whose answers are the second
//                                             half of their documents; only these are labelled
//   training_WHAT/fused/bf16/BATCHxLENGTH/rN  besides, WHAT of the model is trained in full: its
//                                             norms, embeddings, head, biases, or linears, the
//                                             down_proj of all blocks, without adapters of these
// The model is that of CLORA_BENCH_FOLDER. Times are medians of rounds that alternate; ratio:
// median_us / plain_us. memory_mb and plain_memory_mb: what the adapter, its optimizer and the step
// take of the device, without the model. reference_us: of DPO, the pass over the records that
// computes the log-probabilities of the reference, once in a run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "bench/support/loaded_model.hpp"
#include "bench/support/name.hpp"
#include "bench/support/prepared.hpp"
#include "bench/support/random_rows.hpp"
#include "clora/model/training/trainer.hpp"
#include "clora/model/transformer/column_scales.hpp"
#include "clora/model/transformer/saved_tensors.hpp"
#include "lora/saved_tensors.hpp"
#include "model/training/preference_run.hpp"
#include "runtime/fail.hpp"

namespace clora::bench {
namespace {

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.7;
constexpr int kSteps = 4;  // in which a loss must fall
constexpr double kLearningRate = 1e-4;
constexpr double kLossTolerance = 2e-3;

// Ops, and the modules that they train in full.
constexpr std::pair<const char*, const char*> kModules[] = {{"training_norms", "norm"},
                                                            {"training_embeddings", "embed_tokens"},
                                                            {"training_head", "lm_head"},
                                                            {"training_linears", "down_proj"}};

struct Job {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t rank = 16;
};

// An adapter with its trainer and a micro-batch.
class Training {
 public:
  Training(LanguageModel& model, const AdapterConfig& config,
           std::optional<PreferenceLoss> preference = {})
      : pool_(model.context().pool()),
        bytes_before_(pool_.in_use_bytes()),
        adapter_(adapter_of(model, config)) {
    adapter_.initialise(1);
    initialise_magnitudes(model, adapter_);
    initialise_saved_tensors(model, adapter_);
    trainer_.emplace(model, adapter_, TrainerConfig{.clip_norm = 1, .preference = preference});
  }
  Adapter& adapter() { return adapter_; }
  std::shared_ptr<Arena> arena() const { return trainer_->arena(); }
  void set_rows(PackedRows rows) { rows_ = std::move(rows); }

  double loss_of_a_step() {
    step(kLearningRate);
    return trainer_->drain()->loss;
  }
  // After first_loss(). REQUIRES: nothing else was allocated since the construction.
  double memory_mb() const { return memory_mb_; }
  double first_loss() {
    const double loss = loss_of_a_step();
    memory_mb_ = static_cast<double>(pool_.in_use_bytes() - bytes_before_) * 1e-6;
    return loss;
  }
  // Whether the first loss is the expected one, and falls.
  bool learns(double expected) {
    const double first = first_loss();
    double last = first;
    for (int i = 1; i < kSteps; ++i) last = loss_of_a_step();
    return std::abs(first / expected - 1) < kLossTolerance && last < first;
  }
  // Without a change of the adapter: gradients that have vanished would take less power.
  double seconds_of_step(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step(0);
    trainer_->drain();
    return seconds_since(begin) / steps;
  }

 private:
  // Of all linear layers of blocks but those that are trained in full.
  static Adapter adapter_of(LanguageModel& model, const AdapterConfig& config) {
    std::vector<AdapterSite> sites = adapter_sites(model.config());
    std::erase_if(sites, [&](const AdapterSite& site) {
      return std::ranges::any_of(config.modules_to_save,
                                 [&](const auto& name) { return site.path.ends_with(name); });
    });
    auto trained =
        select_trained_tensors(savable_tensors(model.config()), config, sites, "training bench");
    return Adapter(model.context(), sites, config, std::move(trained));
  }
  void step(double learning_rate) { trainer_->step(std::span(&rows_, 1), learning_rate); }

  const BufferPool& pool_;
  std::size_t bytes_before_;
  double memory_mb_ = 0;
  Adapter adapter_;
  PackedRows rows_;
  std::optional<Trainer> trainer_;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Prompts with two answers each, all of equal lengths.
Records pairs_of(const Job& job, std::int64_t vocabulary) {
  const auto half = static_cast<std::size_t>(job.length / 2);
  Records records;
  for (std::int64_t i = 0; i < job.batch / 2; ++i) {
    Record record;
    record.ids = some_ids(3 * half, vocabulary, static_cast<std::size_t>(17 + 1000 * i));
    record.is_target.assign(half, 0);
    record.is_target.resize(2 * half, kChosen);
    record.is_target.resize(3 * half, kRejected);
    records.records.push_back(record);
  }
  return records;
}

// The documents of the pairs with the loss of the next token over the answers.
PackedRows labelled_answers(const Records& pairs) {
  std::vector<Record> documents;
  std::size_t rows = 0;
  for (const RecordView pair : pairs.records) {
    const PromptAnswers of = answers_of(pair);
    for (const auto& answer : {of.chosen, of.rejected}) {
      Record document;
      document.ids.assign(of.prompt.begin(), of.prompt.end());
      document.ids.insert(document.ids.end(), answer.begin(), answer.end());
      document.is_target.assign(of.prompt.size(), 0);
      document.is_target.resize(document.ids.size(), 1);
      rows += document.ids.size();
      documents.push_back(document);
    }
  }
  return pack_rows(std::span<const Record>(documents), rows);
}

class FormBench : public Prepared {
 public:
  FormBench(Arithmetic arithmetic, const Job& job)
      : loaded_(arithmetic, std::getenv("CLORA_BENCH_FOLDER")), job_(job) {}

  void time(benchmark::State& state) override {
    if (!learns_) return state.SkipWithError("the loss is not the expected one, or does not fall");
    for (auto _ : state) state.SetIterationTime(form_seconds_);
    state.counters["median_us"] = form_seconds_ * 1e6;
    state.counters["plain_us"] = plain_seconds_ * 1e6;
    state.counters["ratio"] = form_seconds_ / plain_seconds_;
    if (form_->memory_mb() > 0 && plain_->memory_mb() > 0) {
      state.counters["memory_mb"] = form_->memory_mb();
      state.counters["plain_memory_mb"] = plain_->memory_mb();
    }
    state.counters["tokens_per_s"] = static_cast<double>(job_.batch * job_.length) / form_seconds_;
    if (reference_seconds_ > 0) state.counters["reference_us"] = reference_seconds_ * 1e6;
    loaded_.print_profile([&] { plain_->loss_of_a_step(); });
    loaded_.print_profile([&] { form_->loss_of_a_step(); });
  }

 protected:
  void measure(double expected_loss) {
    learns_ = form_->learns(expected_loss);
    if (!learns_) return;
    (void)plain_->seconds_of_step(2);
    const double once = plain_->seconds_of_step(2);
    const int steps = std::max(3, static_cast<int>(std::ceil(kRoundSeconds / once)));
    std::vector<double> of_plain, of_form;
    for (int round = 0; round < kRounds; ++round) {
      of_plain.push_back(plain_->seconds_of_step(steps));
      of_form.push_back(form_->seconds_of_step(steps));
    }
    plain_seconds_ = median(of_plain);
    form_seconds_ = median(of_form);
  }

  LoadedModel loaded_;
  Job job_;
  std::optional<Training> plain_, form_;
  double reference_seconds_ = 0;

 private:
  bool learns_ = false;
  double plain_seconds_ = 0, form_seconds_ = 0;
};

// Both begin as the base model, so their first losses are equal.
class AdapterBench : public FormBench {
 public:
  // The form's configuration, of which the rank is the job's.
  AdapterBench(Arithmetic arithmetic, const Job& job, AdapterConfig form)
      : FormBench(arithmetic, job) {
    form.rank = job.rank;
    const PackedRows rows =
        random_rows(static_cast<std::size_t>(job.batch), static_cast<std::size_t>(job.length),
                    loaded_.model.config().vocabulary);
    plain_.emplace(loaded_.model, AdapterConfig{.rank = job.rank});
    plain_->set_rows(rows);
    const double loss = plain_->first_loss();
    form_.emplace(loaded_.model, form);
    form_->set_rows(rows);
    const bool wants_full = !form.modules_to_save.empty() || form.biases != TrainedBiases::none;
    require(!wants_full || !form_->adapter().saved_tensors().empty(),
            "training bench: the model of CLORA_BENCH_FOLDER has no such tensors");
    measure(loss);
  }
};

// The first loss of a model that is its own reference is log 2.
class DpoBench : public FormBench {
 public:
  DpoBench(Arithmetic arithmetic, const Job& job)
      : FormBench(arithmetic, job), pairs_(pairs_of(job, loaded_.model.config().vocabulary)) {
    const PreferenceLoss loss{};
    plain_.emplace(loaded_.model, AdapterConfig{.rank = job.rank});
    form_.emplace(loaded_.model, AdapterConfig{.rank = job.rank}, loss);
    plain_->set_rows(labelled_answers(pairs_));
    TrainingRunConfig config;
    config.batch_size = job.batch / 2;
    config.preference = loss;
    PreferenceRun run(loaded_.model, form_->adapter(), form_->arena(), pairs_, nullptr, config);
    run.compute_reference([] { return false; });  // records its step
    const auto begin = std::chrono::steady_clock::now();
    run.compute_reference([] { return false; });
    reference_seconds_ = seconds_since(begin);
    std::vector<std::size_t> all(pairs_.records.size());
    std::iota(all.begin(), all.end(), 0);
    form_->set_rows(run.pack(all));
    measure(std::log(2));
  }

 private:
  Records pairs_;
};

template <class Bench, class... Form>
void add_rows(const std::string& op, const Job& job, const Form&... form) {
  for (const Arithmetic arithmetic : {Arithmetic::f32, Arithmetic::bf16}) {
    if (!has(arithmetic)) continue;
    const Name name{.op = op, .type = "bf16", .shape = {job.batch, job.length}, .rank = job.rank};
    const Name own = arithmetic == Arithmetic::f32 ? name : name.with("bf16");
    add_prepared(own.text(), [=] { return std::make_unique<Bench>(arithmetic, job, form...); });
  }
}

const bool kAdded = add_family([] {
  if (std::getenv("CLORA_BENCH_FOLDER") == nullptr) return;
  for (const Job job : {Job{4, 1024}, Job{8, 1024}, Job{2, 32}}) {  // the last to try on a CPU
    add_rows<AdapterBench>("training_dora", job, AdapterConfig{.use_dora = true});
    add_rows<DpoBench>("training_dpo", job);
    for (const auto& [what, name] : kModules) {
      add_rows<AdapterBench>(what, job, AdapterConfig{.modules_to_save = {name}});
    }
    add_rows<AdapterBench>("training_biases", job, AdapterConfig{.biases = TrainedBiases::all});
  }
});

}  // namespace
}  // namespace clora::bench
