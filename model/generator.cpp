#include "model/generator.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "model/block.hpp"
#include "model/decoding_blocks.hpp"
#include "ops/embedding.hpp"
#include "ops/gemm.hpp"
#include "ops/rms_norm.hpp"
#include "ops/sample.hpp"
#include "runtime/error.hpp"
#include "runtime/host_hold.hpp"
#include "runtime/pinned_memory.hpp"

namespace clora {
namespace {

// Prompts run in chunks of these sizes, largest first; the last one is filled up.
constexpr std::array<std::int64_t, 3> kChunkRows{256, 64, 16};

constexpr std::size_t kPinnedPart = 16 << 10U;  // bytes: an upload of one row
// A step whose work-groups do not meet takes longer than this (cl/group_meeting*.clh).
constexpr double kLateSeconds = 0.5;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What a recorded forward over the cache reads, filled by one upload.
struct CacheRows {
  Tensor buffer;     // the parts below, one after another
  Tensor ids;        // [T]
  Tensor positions;  // [T]; -1: a row that only fills up
  Tensor first, last;
  Tensor chosen;  // [1]: the row whose logits are wanted

  CacheRows(Context& context, std::int64_t rows) {
    const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
    stride = (rows + step - 1) / step * step;
    buffer = context.allocate({5 * stride}, DType::i32, MemoryTag::activations);
    const auto part = [&](std::int64_t i, std::int64_t n) {
      return buffer.slice(static_cast<std::size_t>(i * stride) * 4, {n}, DType::i32);
    };
    ids = part(0, rows);
    positions = part(1, rows);
    first = part(2, rows);
    last = part(3, rows);
    chosen = part(4, 1);
  }
  std::int64_t stride = 0;
};

// A forward of T rows over the cache, recorded once.
struct RecordedForward {
  RecordedForward(Context& context, std::int64_t count)
      : rows(context, count),
        batch(context),
        staging{HostHold<Staging>(context), HostHold<Staging>(context)} {}
  using Staging = std::vector<std::int32_t>;
  CacheRows rows;
  Batch batch;
  Tensor meeting;  // of a step in one launch (ops/decode_layers.hpp), else empty
  std::array<HostHold<Staging>, 2> staging;  // by turns: one upload may still be read
  std::size_t turn = 0;
};

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

struct Generator::Impl {
  Impl(LanguageModel& m, const Adapter* a, std::int64_t positions);

  RecordedForward& forward(std::int64_t rows);
  void record_forward(RecordedForward& f);
  // All blocks; gives their output.
  Tensor record_blocks(RecordedForward& f, Tensor x);
  bool record_in_one_launch(RecordedForward& f, const Tensor& x);
  // False where `on_prompt` said so between two chunks.
  bool prefill(std::span<const std::int32_t> prompt,
               const std::function<bool(std::int64_t)>& on_prompt = {});
  void upload(RecordedForward& f, std::span<const std::int32_t> ids, std::int64_t position);
  void upload_settings(std::span<const std::int32_t> prompt, const GenerationConfig& config);
  void check_prompt(std::span<const std::int32_t> prompt) const;
  RecordedSampler& sampler(const GenerationConfig& config);
  RecordedSampler record_sampler(std::int64_t top_logprobs, bool with_logprobs);
  // Enqueues a step of one row at `position` and the choice of its token.
  void submit_step(RecordedForward& step, RecordedSampler& from, std::int64_t position);
  // Whether the step behind a token is enqueued before that token is known: a card would be idle
  // while the host looks. It leaves no trace where the token is the last: cache rows behind the end
  // are written anew. Not where more than the token is read.
  bool runs_ahead(const GenerationConfig& config) const;
  // The token that `step` led to; then(), where there is one, is called once its way to the
  // host is enqueued.
  std::int32_t read_token(const RecordedForward& step, const std::function<void()>& then);
  void read_logprobs(const GenerationConfig& config, const RecordedSampler& from,
                     Generation& generation);

  LanguageModel& model;
  const Adapter* adapter;
  Context& context;
  std::int64_t max_positions;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::vector<CacheTensors> cache;
  Tensor logits, token, seen, settings, logprob;
  std::map<std::int64_t, std::unique_ptr<RecordedForward>> forwards;  // by rows
  HostHold<std::array<std::int32_t, 1>> token_on_host;
  // Of cards, whose transfers must not keep the host: the token and what two steps upload.
  std::unique_ptr<PinnedMemory> pinned;
  std::span<std::int32_t> pinned_part(std::size_t part, std::size_t words) const;
  // Where a step's upload is put together, zeros.
  std::span<std::int32_t> staging_for(RecordedForward& f) const;
  std::map<std::int64_t, RecordedSampler> samplers;  // by top_logprobs; -1: no log-probabilities
};

Generator::Impl::Impl(LanguageModel& m, const Adapter* a, std::int64_t positions)
    : model(m), adapter(a), context(m.context()), max_positions(positions), token_on_host(context) {
  require(positions >= 1, "generator: at least one position is needed, got {}", positions);
  const ModelConfig& c = model.config();
  const Shape shape{positions, c.kv_heads, c.head_width};
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    cache.push_back({context.allocate(shape, DType::f32, MemoryTag::cache),
                     context.allocate(shape, DType::f32, MemoryTag::cache)});
    context.commit(cache.back().keys, MemoryTag::cache);
    context.commit(cache.back().values, MemoryTag::cache);
  }
  if (context.device().kind == DeviceKind::gpu) {
    pinned = std::make_unique<PinnedMemory>(context, 3 * kPinnedPart);
  }
  logits = context.allocate({c.vocabulary}, DType::f32, MemoryTag::activations);
  token = context.allocate({1}, DType::i32, MemoryTag::activations);
  seen = context.allocate({c.vocabulary}, DType::u8, MemoryTag::activations);
  settings = context.allocate({8}, DType::u32, MemoryTag::activations);
  logprob = context.allocate({1}, DType::f32, MemoryTag::activations);
}

// Parts lie kPinnedPart apart.
std::span<std::int32_t> Generator::Impl::pinned_part(std::size_t part, std::size_t words) const {
  const std::span<std::byte> bytes = pinned->bytes().subspan(part * kPinnedPart);
  return {reinterpret_cast<std::int32_t*>(bytes.data()), words};
}

std::span<std::int32_t> Generator::Impl::staging_for(RecordedForward& f) const {
  const auto words = static_cast<std::size_t>(f.rows.buffer.elements());
  const std::size_t turn = f.turn++ % f.staging.size();
  if (pinned != nullptr && 4 * words <= kPinnedPart && f.rows.ids.elements() == 1) {
    const std::span<std::int32_t> part = pinned_part(1 + turn, words);
    std::ranges::fill(part, 0);
    return part;
  }
  f.staging[turn]->assign(words, 0);
  return *f.staging[turn];
}

bool Generator::Impl::record_in_one_launch(RecordedForward& f, const Tensor& x) {
  if (x.shape()[0] != 1) return false;
  const std::optional<DecodeLayers> decode =
      decode_layers_of(model, adapter, cache, model.rope_table(max_positions),
                       {f.rows.positions, f.rows.first, f.rows.last});
  if (!decode.has_value() || !decodes_in_one_launch(context, *decode)) return false;
  f.meeting = context.upload<std::int32_t>({3}, DType::i32, std::array<std::int32_t, 3>{},
                                           MemoryTag::activations);
  record_decode_layers(f.batch, x, *decode, f.meeting);
  return true;
}

Tensor Generator::Impl::record_blocks(RecordedForward& f, Tensor x) {
  if (record_in_one_launch(f, x)) return x;
  for (std::int64_t layer = 0; layer < model.config().layers; ++layer) {
    Block block = block_of(model, adapter, layer);
    block.rope_table = model.rope_table(max_positions);
    block.rows = {f.rows.positions, f.rows.first, f.rows.last};
    const Tensor y = f.batch.temporary(x.shape(), DType::f32, "block output");
    record_block_with_cache(f.batch, y, x, block, cache[static_cast<std::size_t>(layer)]);
    x = y;
  }
  return x;
}

void Generator::Impl::record_forward(RecordedForward& f) {
  const ModelConfig& c = model.config();
  const std::int64_t rows = f.rows.ids.shape()[0];
  const TraceSpan span(context.trace(), "record", rows == 1 ? "decode" : "prefill");
  const auto activation = [&](std::int64_t n, std::string_view name) {
    return f.batch.temporary({n, c.model_width}, DType::f32, name);
  };
  const Tensor x = activation(rows, "embeddings");
  // A step of one row continues from the token that was sampled on the device.
  record_embedding(f.batch, x, rows == 1 ? token : f.rows.ids, model.embeddings());
  Tensor last = record_blocks(f, x);
  if (rows > 1) {
    const Tensor all = last;
    last = activation(1, "last row");
    record_embedding(f.batch, last, f.rows.chosen, all);  // gathers one row
  }
  const Tensor normed = activation(1, "final norm");
  record_rms_norm(f.batch, normed, last, model.final_norm(),
                  static_cast<float>(c.rms_norm_epsilon));
  record_gemm(f.batch, logits.reshape({1, c.vocabulary}), normed, model.head());
  f.batch.seal();
}

RecordedForward& Generator::Impl::forward(std::int64_t rows) {
  const auto found = forwards.find(rows);
  if (found != forwards.end()) return *found->second;
  auto made = std::make_unique<RecordedForward>(context, rows);
  record_forward(*made);  // kept only where it is whole
  return *forwards.emplace(rows, std::move(made)).first->second;
}

// Rows of `ids` at positions from `position` on; rows beyond them fill up and leave no trace.
void Generator::Impl::upload(RecordedForward& f, std::span<const std::int32_t> ids,
                             std::int64_t position) {
  const CacheRows& rows = f.rows;
  const std::span<std::int32_t> staging = staging_for(f);
  const auto at = [&](std::int64_t part, std::size_t i) -> std::int32_t& {
    return staging[static_cast<std::size_t>(part * rows.stride) + i];
  };
  const std::int64_t window = model.config().sliding_window.value_or(0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.ids.elements()); ++i) {
    const std::int64_t own = position + static_cast<std::int64_t>(i);
    const bool real = i < ids.size();
    at(0, i) = real ? ids[i] : 0;
    at(1, i) = real ? static_cast<std::int32_t>(own) : -1;
    at(2, i) = real && window > 0
                   ? static_cast<std::int32_t>(std::max<std::int64_t>(0, own - window + 1))
                   : 0;
    at(3, i) = real ? static_cast<std::int32_t>(own) : 0;
  }
  at(4, 0) = static_cast<std::int32_t>(ids.size()) - 1;
  context.write_async(rows.buffer, std::as_bytes(staging));
}

bool Generator::Impl::prefill(std::span<const std::int32_t> prompt,
                              const std::function<bool(std::int64_t)>& on_prompt) {
  const TraceSpan span(context.trace(), "prefill");
  std::int64_t position = 0;
  while (!prompt.empty()) {
    if (on_prompt && !on_prompt(position)) return false;
    const auto left = static_cast<std::int64_t>(prompt.size());
    // The largest chunk that is filled, else the smallest that holds the rest.
    const auto filled = std::ranges::find_if(kChunkRows, [&](std::int64_t n) { return n <= left; });
    std::int64_t rows = filled == kChunkRows.end() ? kChunkRows.back() : *filled;
    if (filled != kChunkRows.begin() && 2 * left > *(filled - 1)) rows = *(filled - 1);
    RecordedForward& f = forward(rows);
    context.finish();  // the staging of this chunk's size may still be read
    const auto count = static_cast<std::size_t>(std::min(rows, left));
    upload(f, prompt.first(count), position);
    f.batch.submit();
    position += static_cast<std::int64_t>(count);
    prompt = prompt.subspan(count);
  }
  return true;
}

void Generator::Impl::check_prompt(std::span<const std::int32_t> prompt) const {
  require(!prompt.empty(), "generator: the prompt must hold at least one token");
  require(static_cast<std::int64_t>(prompt.size()) < max_positions,
          "generator: the prompt must be shorter than the {} positions of the cache, got {} tokens",
          max_positions, prompt.size());
  for (const std::int32_t id : prompt) {
    require(id >= 0 && id < model.config().vocabulary,
            "generator: prompt ids must be in [0, {}), got {}", model.config().vocabulary, id);
  }
}

void Generator::Impl::upload_settings(std::span<const std::int32_t> prompt,
                                      const GenerationConfig& config) {
  const SampleSettings sample{.temperature = static_cast<float>(config.temperature),
                              .top_k = static_cast<std::int32_t>(config.top_k),
                              .top_p = static_cast<float>(config.top_p),
                              .min_p = static_cast<float>(config.min_p),
                              .repetition_penalty = static_cast<float>(config.repetition_penalty),
                              .seed = config.seed};
  context.write(settings, std::as_bytes(std::span(&sample, 1)));
  std::vector<std::uint8_t> marks(static_cast<std::size_t>(model.config().vocabulary));
  for (const std::int32_t id : prompt) marks[static_cast<std::size_t>(id)] = 1;
  context.write(seen, std::as_bytes(std::span(marks)));
}

RecordedSampler Generator::Impl::record_sampler(std::int64_t count, bool with_logprobs) {
  RecordedSampler made{.batch = Batch(context, arena)};
  record_sample(made.batch, token, seen, settings, logits);
  if (with_logprobs) {
    if (count > 0) {
      made.top_ids = context.allocate({count}, DType::i32, MemoryTag::activations);
      made.top_logprobs = context.allocate({count}, DType::f32, MemoryTag::activations);
    }
    record_logprobs(
        made.batch,
        {.logprob = logprob, .top_ids = made.top_ids, .top_logprobs = made.top_logprobs}, logits,
        token);
  }
  made.batch.seal();
  return made;
}

RecordedSampler& Generator::Impl::sampler(const GenerationConfig& config) {
  const bool with_logprobs = config.logprobs || config.top_logprobs > 0;
  const std::int64_t key = with_logprobs ? config.top_logprobs : -1;
  const auto found = samplers.find(key);
  if (found != samplers.end()) return found->second;
  return samplers.emplace(key, record_sampler(config.top_logprobs, with_logprobs)).first->second;
}

void Generator::Impl::submit_step(RecordedForward& step, RecordedSampler& from,
                                  std::int64_t position) {
  constexpr std::array<std::int32_t, 1> kKnownOnTheDevice{};
  upload(step, kKnownOnTheDevice, position);
  step.batch.submit();
  from.batch.submit();
}

bool Generator::Impl::runs_ahead(const GenerationConfig& config) const {
  return context.device().kind == DeviceKind::gpu && !config.logprobs && config.top_logprobs == 0;
}

std::int32_t Generator::Impl::read_token(const RecordedForward& step,
                                         const std::function<void()>& then) {
  const auto begin = std::chrono::steady_clock::now();
  const std::span<std::int32_t> word =
      pinned != nullptr ? pinned_part(0, 1) : std::span<std::int32_t>(*token_on_host);
  const std::span<std::byte> bytes = std::as_writable_bytes(word);
  if (then) {
    const Fence read = context.read_async(token, bytes);
    then();
    const TraceSpan span(context.trace(), "read");  // as a read that waits has it
    read.wait();
  } else {
    context.read(token, bytes);
  }
  const std::int32_t id = word.front();
  // Who gives up has waited for seconds; a read of the outcome costs a card's tenth of a step.
  const bool late = seconds_since(begin) > kLateSeconds;
  if (late && !step.meeting.empty() && context.read<std::int32_t>(step.meeting)[1] != 0) {
    fail(ErrorCode::device,
         "generator: the {} work-groups of a decoding step on '{}' did not run at once within some "
         "seconds; let the process run, or take the variant cpu, which does not ask for that",
         context.device().compute_units, context.device().name);
  }
  return id;
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

Generator::Generator(LanguageModel& model, const Adapter* adapter, std::int64_t max_positions)
    : impl_(std::make_unique<Impl>(model, adapter, max_positions)) {}

Generator::~Generator() = default;

Generation Generator::generate(std::span<const std::int32_t> prompt, const GenerationConfig& config,
                               const std::function<bool(std::int32_t)>& on_token) {
  Impl& impl = *impl_;
  impl.check_prompt(prompt);
  const auto length = static_cast<std::int64_t>(prompt.size());
  const std::int64_t most = std::min(config.max_tokens, impl.max_positions - length);
  RecordedSampler& sampler = impl.sampler(config);
  impl.upload_settings(prompt, config);
  RecordedForward& decode = impl.forward(1);

  Generation generation;
  const auto begin = std::chrono::steady_clock::now();
  if (!impl.prefill(prompt, config.on_prompt)) {
    generation.finish_reason = FinishReason::cancelled;
    generation.prompt_seconds = seconds_since(begin);
    return generation;
  }
  sampler.batch.submit();
  auto prompt_end = begin;
  const bool ahead = impl.runs_ahead(config);
  for (std::int64_t n = 0; n < most; ++n) {
    const auto go_on = [&] {
      if (n + 1 < most) impl.submit_step(decode, sampler, length + n);
    };
    const std::int32_t id = impl.read_token(decode, ahead ? go_on : std::function<void()>());
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
    if (!ahead) go_on();  // the next step runs while the caller looks at this token
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
  impl_->prefill(prompt);
  return impl_->context.read<float>(impl_->logits);
}

}  // namespace clora
