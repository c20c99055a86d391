#include "clora/model/generation/generator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>

#include "clora/ops/sample.hpp"
#include "lora/finite_values.hpp"
#include "model/transformer/cached_forward.hpp"
#include "model/transformer/finite_check.hpp"
#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {
namespace {

// A step takes longer than this if a grid barrier fails (cl/grid_barrier*.clh).
constexpr double kLateSeconds = 0.5;

constexpr std::size_t kStagingBytes = 3 * sizeof(SampleSettings);

// The choice of the next token, recorded once for each number of alternatives.
struct RecordedSampler {
  Batch batch;
  Tensor top_ids = {}, top_logprobs = {};
};

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

DType kv_cache_type_of(const Context& context, std::optional<DType> wanted) {
  if (!wanted) return context.precision() == Precision::f32 ? DType::f32 : DType::bf16;
  require(*wanted == DType::f32 || *wanted == DType::bf16 || *wanted == DType::f16,
          "generator: the type of the KV cache must be f32, bf16 or f16, got {}", name_of(*wanted));
  return *wanted;
}

std::optional<DType> named_kv_cache_type(std::string_view name) {
  if (name == "auto") return {};
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    if (name == name_of(type)) return type;
  }
  fail(ErrorCode::invalid_argument,
       "generator: the type of the KV cache must be auto, f32, bf16 or f16, got '{}'", name);
}

struct Generator::Impl {
  Impl(LanguageModel& m, const Adapter* a, std::int64_t positions, DType cache_type);

  void upload_counts(std::span<const std::int32_t> prompt);
  void check_prompt(std::span<const std::int32_t> prompt) const;
  RecordedSampler& sampler(const GenerationConfig& config);
  RecordedSampler record_sampler(std::int64_t top_logprobs, bool with_logprobs);
  // Enqueues the draw of token number `step`.
  void sample(RecordedSampler& sampler, const GenerationConfig& config, std::uint32_t step);
  // Host memory for the token, then for the settings of two steps: one upload may be in progress.
  std::span<std::byte> staging() const;
  // Whether the next step is enqueued before the previous token has been read: otherwise a GPU
  // would idle while the host processes the token. If the token is the last one, the extra step has
  // no effect: cache rows after the end are overwritten. False if more than the token is read.
  bool runs_ahead(const GenerationConfig& config) const;
  // Returns the last sampled token. then(), if given, is called after the read is enqueued.
  std::int32_t read_token(const std::function<void()>& then);
  // The sampler marks logits that are not finite, so a healthy run needs no extra read.
  [[noreturn]] void fail_at_logits(std::size_t position) const;
  void read_logprobs(const GenerationConfig& config, const RecordedSampler& from,
                     Generation& generation);

  LanguageModel& model;
  const Adapter* adapter;
  Context& context;
  CachedForward forward;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  Tensor counts, settings, logits, logprob;
  HostHold<std::array<std::byte, kStagingBytes>> plain_staging;
  std::unique_ptr<PinnedMemory> pinned_staging;      // GPUs only: transfers do not block the host
  Fence settings_upload;                             // the last one
  std::map<std::int64_t, RecordedSampler> samplers;  // by top_logprobs; -1: no log-probabilities
};

Generator::Impl::Impl(LanguageModel& m, const Adapter* a, std::int64_t positions, DType cache_type)
    : model(m),
      adapter(a),
      context(m.context()),
      forward(m, a, positions, cache_type),
      plain_staging(context) {
  if (context.device().kind == DeviceKind::gpu) {
    pinned_staging = std::make_unique<PinnedMemory>(context, kStagingBytes);
  }
  const std::int64_t vocabulary = model.config().vocabulary;
  logits = forward.logits().slice(0, {1, vocabulary}, DType::f32);
  counts = context.allocate({1, vocabulary}, DType::u32, MemoryTag::activations);
  settings = context.allocate({1, kSampleSettingWords}, DType::u32, MemoryTag::activations);
  logprob = context.allocate({1}, DType::f32, MemoryTag::activations);
}

void Generator::Impl::check_prompt(std::span<const std::int32_t> prompt) const {
  require(!prompt.empty(), "generator: the prompt must have at least one token");
  require(static_cast<std::int64_t>(prompt.size()) < forward.max_positions(),
          "generator: the prompt must be shorter than the {} positions of the cache, got {} tokens",
          forward.max_positions(), prompt.size());
  for (const std::int32_t id : prompt) {
    require(id >= 0 && id < model.config().vocabulary,
            "generator: prompt ids must be in [0, {}), got {}", model.config().vocabulary, id);
  }
}

void Generator::Impl::upload_counts(std::span<const std::int32_t> prompt) {
  const auto of_prompt = token_counts(model.config().vocabulary, prompt);
  context.write(counts, std::as_bytes(std::span(of_prompt)));
}

std::span<std::byte> Generator::Impl::staging() const {
  return pinned_staging != nullptr ? pinned_staging->bytes() : std::span(*plain_staging);
}

void Generator::Impl::sample(RecordedSampler& sampler, const GenerationConfig& config,
                             std::uint32_t step) {
  // An extra step of the last generation may still be uploading. Later ones: runs_ahead().
  if (step == 0) settings_upload.wait();
  const SampleSettings values{.temperature = static_cast<float>(config.temperature),
                              .top_k = static_cast<std::int32_t>(config.top_k),
                              .top_p = static_cast<float>(config.top_p),
                              .min_p = static_cast<float>(config.min_p),
                              .repetition_penalty = static_cast<float>(config.repetition_penalty),
                              .seed = config.seed,
                              .step = step};
  const std::size_t at = (1 + step % 2) * sizeof values;
  const std::span<std::byte> bytes = staging().subspan(at, sizeof values);
  std::memcpy(bytes.data(), &values, sizeof values);
  settings_upload = context.write_async(settings, bytes);
  sampler.batch.submit();
}

RecordedSampler Generator::Impl::record_sampler(std::int64_t count, bool with_logprobs) {
  RecordedSampler recorded{.batch = Batch(context, arena)};
  record_sample(recorded.batch, forward.token(), settings, logits, {.counts = counts});
  if (with_logprobs) {
    if (count > 0) {
      recorded.top_ids = context.allocate({1, count}, DType::i32, MemoryTag::activations);
      recorded.top_logprobs = context.allocate({1, count}, DType::f32, MemoryTag::activations);
    }
    record_logprobs(
        recorded.batch,
        {.logprob = logprob, .top_ids = recorded.top_ids, .top_logprobs = recorded.top_logprobs},
        logits, forward.token());
  }
  recorded.batch.seal();
  return recorded;
}

RecordedSampler& Generator::Impl::sampler(const GenerationConfig& config) {
  const bool with_logprobs = config.logprobs || config.top_logprobs > 0;
  const std::int64_t key = with_logprobs ? config.top_logprobs : -1;
  const auto found = samplers.find(key);
  if (found != samplers.end()) return found->second;
  return samplers.emplace(key, record_sampler(config.top_logprobs, with_logprobs)).first->second;
}

bool Generator::Impl::runs_ahead(const GenerationConfig& config) const {
  return context.device().kind == DeviceKind::gpu && !config.logprobs && config.top_logprobs == 0;
}

std::int32_t Generator::Impl::read_token(const std::function<void()>& then) {
  const auto begin = std::chrono::steady_clock::now();
  const std::span<std::byte> bytes = staging().first(sizeof(std::int32_t));
  if (then) {
    const Fence read = context.read_async(forward.token(), bytes);
    then();
    const TraceSpan span(context.trace(), "read");  // the name of a blocking read
    read.wait();
  } else {
    context.read(forward.token(), bytes);
  }
  std::int32_t id = 0;
  std::memcpy(&id, bytes.data(), sizeof id);
  // A failed barrier has waited for seconds, and reading its flag costs a GPU a tenth of a step.
  const bool late = seconds_since(begin) > kLateSeconds;
  if (late && forward.step_gave_up()) {
    fail(ErrorCode::device,
         "generator: the {} work-groups of a decoding step on '{}' did not run concurrently within "
         "a few seconds; give the process more CPU time or use the variant cpu, which does not "
         "require this",
         context.device().compute_units, context.device().name);
  }
  return id;
}

void Generator::Impl::fail_at_logits(std::size_t position) const {
  const std::string text = fmt::format("generator: a logit of the token at position {}", position);
  fail_not_finite(text, model, adapter,
                  "every weight is finite; activations are too large for 32-bit floats, or the "
                  "repetition penalty is too close to 0");
}

void Generator::Impl::read_logprobs(const GenerationConfig& config, const RecordedSampler& from,
                                    Generation& generation) {
  if (!config.logprobs && config.top_logprobs == 0) return;
  generation.logprobs.push_back(static_cast<double>(context.read<float>(logprob).front()));
  if (config.top_logprobs == 0) return;
  const std::vector<std::int32_t> ids = context.read<std::int32_t>(from.top_ids);
  const std::vector<float> values = context.read<float>(from.top_logprobs);
  auto& alternatives = generation.top_logprobs.emplace_back();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    alternatives.push_back({ids[i], static_cast<double>(values[i])});
  }
}

Generator::Generator(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions,
                     std::optional<DType> cache_type)
    : impl_(std::make_unique<Impl>(model, adapter, max_positions,
                                   kv_cache_type_of(model.context(), cache_type))) {}

Generator::~Generator() = default;

Generation Generator::generate(std::span<const std::int32_t> prompt, const GenerationConfig& config,
                               const std::function<bool(std::int32_t)>& on_token) {
  Impl& impl = *impl_;
  impl.check_prompt(prompt);
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most = std::min(config.max_tokens, impl.forward.max_positions() - length);
  RecordedSampler& sampler = impl.sampler(config);
  if (config.repetition_penalty != 1) impl.upload_counts(prompt);
  impl.forward.record_step();

  Generation generation;
  const auto begin = std::chrono::steady_clock::now();
  if (!impl.forward.prefill(prompt, config.on_prompt)) {
    generation.finish_reason = FinishReason::cancelled;
    generation.prompt_seconds = seconds_since(begin);
    return generation;
  }
  impl.sample(sampler, config, 0);
  auto prompt_end = begin;
  const bool ahead = impl.runs_ahead(config);
  for (std::int64_t n = 0; n < most; ++n) {
    const auto go_on = [&] {
      if (n + 1 >= most) return;
      impl.forward.step(length + n);
      impl.sample(sampler, config, static_cast<std::uint32_t>(n + 1));
    };
    const std::int32_t id = impl.read_token(ahead ? go_on : std::function<void()>());
    if (id == kNoToken) impl.fail_at_logits(prompt.size() + generation.ids.size());
    if (n == 0) {
      generation.prompt_seconds = seconds_since(begin);
      prompt_end = std::chrono::steady_clock::now();
    }
    if (std::ranges::find(config.end_ids, id) != config.end_ids.end()) {
      generation.finish_reason = FinishReason::stop;
      break;
    }
    generation.ids.push_back(id);
    impl.read_logprobs(config, sampler, generation);
    if (!ahead) go_on();  // the next step runs while the caller processes this token
    if (on_token && !on_token(id)) {
      generation.finish_reason = FinishReason::cancelled;
      break;
    }
  }
  generation.decode_seconds = seconds_since(prompt_end);
  return generation;
}

std::vector<float> Generator::logits(std::span<const std::int32_t> prompt) {
  impl_->check_prompt(prompt);
  impl_->forward.prefill(prompt);
  std::vector<float> logits = impl_->context.read<float>(impl_->forward.logits());
  if (!all_finite(logits)) impl_->fail_at_logits(prompt.size());
  return logits;
}

}  // namespace clora
