#include "model/generation/token_sampler.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

bool uses_state(const GenerationRequest& request) {
  return has_penalties(request.sampling) || !request.sampling.logit_bias.empty() ||
         request.grammar != nullptr;
}

std::int64_t top_logprobs_of(const OutputRow& output) {
  const GenerationRequest& request = output.sequence->request;
  if (!output.draws()) return request.prompt_logprobs;
  const SamplingConfig& s = request.sampling;
  return s.logprobs || s.top_logprobs > 0 ? s.top_logprobs : -1;
}

// The parts of a Transfer's memory, in bytes.
struct Parts {
  std::size_t settings, targets, sources, tokens, logprob, top_ids, top_logprobs, end;
  Parts(std::int64_t outputs, std::int64_t alternatives) {
    const auto n = static_cast<std::size_t>(outputs);
    const auto k = n * static_cast<std::size_t>(std::max<std::int64_t>(alternatives, 0));
    settings = 0;
    targets = settings + n * sizeof(SampleSettings);
    sources = targets + 4 * n;
    tokens = sources + 4 * n;
    logprob = tokens + 4 * n;
    top_ids = logprob + 4 * n;
    top_logprobs = top_ids + 4 * k;
    end = top_logprobs + 4 * k;
  }
};

SampleSettings settings_of(const OutputRow& output) {
  if (!output.draws()) return {.slot = -1};
  const Sequence& sequence = *output.sequence;
  const SamplingConfig& s = sequence.request.sampling;
  const auto f = [](double value) { return static_cast<float>(value); };
  return {.temperature = f(s.temperature),
          .top_k = i32(s.top_k),
          .top_p = f(s.top_p),
          .min_p = f(s.min_p),
          .typical_p = f(s.typical_p),
          .repetition_penalty = f(s.repetition_penalty),
          .presence_penalty = f(s.presence_penalty),
          .frequency_penalty = f(s.frequency_penalty),
          .seed = s.seed,
          .step = u32(output.drawn),
          .slot = sequence.slot,
          .bias_count = i32(std::ssize(s.logit_bias)),
          .uses_mask = 0,
          .keeps_latest = 1};
}

}  // namespace

TokenSampler::TokenSampler(LanguageModel& model, PagedForward& forward)
    : model_(model), forward_(forward), context_(model.context()) {}

// Batches recorded before do not use it.
void TokenSampler::allocate_state() {
  if (!counts_.empty()) return;
  const std::int64_t slots = forward_.config().sequences;
  const auto allocate = [&](Shape shape, DType type) {
    return context_.allocate(shape, type, MemoryTag::activations);
  };
  counts_ = allocate({slots, model_.config().vocabulary}, DType::u32);
  bias_ids_ = allocate({slots, kMaxLogitBiases}, DType::i32);
  bias_values_ = allocate({slots, kMaxLogitBiases}, DType::f32);
}

void TokenSampler::set_sequence(const Sequence& sequence) {
  const SamplingConfig& sampling = sequence.request.sampling;
  if (!uses_state(sequence.request)) return;
  allocate_state();
  const std::int64_t slot = sequence.slot;
  if (has_penalties(sampling)) {
    const std::span<const std::int32_t> tokens = sequence.tokens;
    const auto prompt = static_cast<std::size_t>(sequence.prompt_tokens());
    const std::vector<std::uint32_t> counts =
        token_counts(model_.config().vocabulary, tokens.first(prompt), tokens.subspan(prompt));
    context_.write(counts_.rows(slot, 1), std::as_bytes(std::span(counts)));
  }
  if (sampling.logit_bias.empty()) return;
  std::vector<std::int32_t> ids;
  std::vector<float> values;
  for (const auto& [id, value] : sampling.logit_bias) {
    ids.push_back(id);
    values.push_back(value);
  }
  const auto begin = static_cast<std::size_t>(slot * kMaxLogitBiases) * 4;
  const Shape shape{std::ssize(ids)};
  context_.write(bias_ids_.slice(begin, shape, DType::i32), std::as_bytes(std::span(ids)));
  context_.write(bias_values_.slice(begin, shape, DType::f32), std::as_bytes(std::span(values)));
}

TokenSampler::Form TokenSampler::form_of(const StepLayout& layout) const {
  Form form{.outputs = layout.shape().outputs};
  for (const OutputRow& output : layout.outputs()) {
    const bool draws = output.draws();
    form.uses_state = form.uses_state || (draws && uses_state(output.sequence->request));
    form.top_logprobs = std::max(form.top_logprobs, top_logprobs_of(output));
    form.measures = form.measures || !draws;
  }
  return form;
}

SampleState TokenSampler::state(const Form& form) {
  SampleState state{.latest = forward_.latest()};
  if (!form.uses_state) return state;
  allocate_state();
  const std::int64_t words = divide_up(model_.config().vocabulary, std::int64_t{32});
  state.counts = counts_;
  state.bias_ids = bias_ids_;
  state.bias_values = bias_values_;
  state.mask = context_.allocate({form.outputs, words}, DType::u32, MemoryTag::activations);
  return state;
}

TokenSampler::Recorded& TokenSampler::recorded(const Form& form) {
  const auto found = recorded_.find(form);
  if (found != recorded_.end()) return found->second;
  Recorded r(Batch(context_, forward_.arena()));
  const std::int64_t N = form.outputs;
  const auto allocate = [&](Shape shape, DType type) {
    return context_.allocate(shape, type, MemoryTag::activations);
  };
  r.tokens = allocate({N}, DType::i32);
  r.settings = allocate({N, kSampleSettingWords}, DType::u32);
  const Tensor& logits = forward_.logits(N);
  const SampleState state = this->state(form);
  r.mask = state.mask;
  record_sample(r.batch, r.tokens, r.settings, logits, state);
  if (form.top_logprobs >= 0) {
    r.logprob = allocate({N}, DType::f32);
    if (form.top_logprobs > 0) {
      r.top_ids = allocate({N, form.top_logprobs}, DType::i32);
      r.top_logprobs = allocate({N, form.top_logprobs}, DType::f32);
    }
    Tensor tokens = r.tokens;
    if (form.measures) {
      r.targets = allocate({N}, DType::i32);
      r.sources = allocate({N}, DType::i32);
      tokens = r.batch.temporary({N}, DType::i32, "tokens to measure");
      record_pick_ids(r.batch, tokens, r.targets, r.sources, r.tokens);
    }
    record_logprobs(r.batch, {r.logprob, r.top_ids, r.top_logprobs}, logits, tokens);
  }
  r.batch.seal();
  return recorded_.emplace(form, std::move(r)).first->second;
}

void TokenSampler::write_settings(const StepLayout& layout, std::span<SampleSettings> rows) const {
  std::ranges::fill(rows, SampleSettings{.slot = -1});
  const std::vector<OutputRow>& outputs = layout.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    rows[i] = settings_of(outputs[i]);
    // Of the rows of one sequence only the first one is certain to count.
    const bool is_draft =
        i > 0 && outputs[i].sequence == outputs[i - 1].sequence && outputs[i - 1].draws();
    if (is_draft) rows[i].keeps_latest = 0;
  }
}

void TokenSampler::write_targets(const StepLayout& layout, const Recorded& recorded,
                                 const Transfer& transfer) {
  const Parts parts(transfer.form.outputs, transfer.form.top_logprobs);
  const auto bytes = static_cast<std::size_t>(transfer.form.outputs) * 4;
  const auto words = [&](std::size_t begin) {
    auto* first = reinterpret_cast<std::int32_t*>(transfer.memory->bytes().data() + begin);
    return std::span(first, static_cast<std::size_t>(transfer.form.outputs));
  };
  std::ranges::fill(words(parts.targets), 0);
  std::ranges::fill(words(parts.sources), -1);
  for (std::size_t i = 0; i < layout.outputs().size(); ++i) {
    const OutputRow& output = layout.outputs()[i];
    if (output.draws()) {
      words(parts.sources)[i] = i32(static_cast<std::int64_t>(i));
    } else {
      words(parts.targets)[i] = output.target;
    }
  }
  context_.write_async(recorded.targets, transfer.memory->bytes().subspan(parts.targets, bytes));
  context_.write_async(recorded.sources, transfer.memory->bytes().subspan(parts.sources, bytes));
}

void TokenSampler::write_masks(const Tensor& mask, const StepLayout& layout,
                               const WriteMask& write_mask, std::span<SampleSettings> rows) {
  const auto words = static_cast<std::size_t>(mask.shape()[1]);
  std::vector<std::uint32_t> masks(rows.size() * words);
  bool any = false;
  for (std::size_t i = 0; i < layout.outputs().size(); ++i) {
    const auto row = std::span(masks).subspan(i * words, words);
    const OutputRow& output = layout.outputs()[i];
    rows[i].uses_mask = output.draws() && write_mask(*output.sequence, row) ? 1 : 0;
    any = any || rows[i].uses_mask != 0;
  }
  if (any) context_.write(mask, std::as_bytes(std::span(masks)));
}

void TokenSampler::draw(const StepLayout& layout, const WriteMask& write_mask) {
  require(drawn_ - read_ < transfers_.size(), "token sampler: two steps are not read yet");
  const Form form = form_of(layout);
  Recorded& recorded = this->recorded(form);
  Transfer& transfer = transfers_[drawn_++ % transfers_.size()];
  const Parts parts(form.outputs, form.top_logprobs);
  if (!transfer.memory || transfer.memory->bytes().size() < parts.end) {
    transfer.memory = std::make_unique<PinnedMemory>(context_, parts.end);
  }
  transfer.form = form;
  transfer.outputs.clear();
  for (const OutputRow& output : layout.outputs()) {
    transfer.outputs.push_back({top_logprobs_of(output), output.target});
  }
  const std::span rows(reinterpret_cast<SampleSettings*>(transfer.memory->bytes().data()),
                       static_cast<std::size_t>(form.outputs));
  write_settings(layout, rows);
  if (form.uses_state && write_mask) write_masks(recorded.mask, layout, write_mask, rows);
  context_.write_async(recorded.settings, std::as_bytes(rows));
  if (form.measures) write_targets(layout, recorded, transfer);
  recorded.batch.submit();
  enqueue_reads(transfer, recorded);
}

void TokenSampler::enqueue_reads(Transfer& transfer, const Recorded& recorded) {
  const Parts parts(transfer.form.outputs, transfer.form.top_logprobs);
  const auto read = [&](const Tensor& tensor, std::size_t begin) {
    if (tensor.empty()) return;
    transfer.fence =
        context_.read_async(tensor, transfer.memory->bytes().subspan(begin, tensor.bytes()));
  };
  read(recorded.tokens, parts.tokens);
  read(recorded.logprob, parts.logprob);
  read(recorded.top_ids, parts.top_ids);
  read(recorded.top_logprobs, parts.top_logprobs);
}

std::vector<GeneratedToken> TokenSampler::read() {
  require(read_ < drawn_, "token sampler: no step is drawn");
  Transfer& transfer = transfers_[read_++ % transfers_.size()];
  {
    const TraceSpan span(context_.trace(), "read");  // the name of a blocking read
    transfer.fence.wait();
  }
  const Parts parts(transfer.form.outputs, transfer.form.top_logprobs);
  const auto at = [&]<class T>(T value, std::size_t begin, std::size_t i) {
    std::memcpy(&value, transfer.memory->bytes().data() + begin + i * sizeof value, sizeof value);
    return value;
  };
  const auto width =
      static_cast<std::size_t>(std::max<std::int64_t>(transfer.form.top_logprobs, 0));
  std::vector<GeneratedToken> tokens;
  for (std::size_t i = 0; i < transfer.outputs.size(); ++i) {
    const auto [top_logprobs, target] = transfer.outputs[i];
    GeneratedToken& token = tokens.emplace_back();
    token.id = target >= 0 ? target : at(std::int32_t{}, parts.tokens, i);
    if (top_logprobs < 0) continue;
    token.logprob = static_cast<double>(at(float{}, parts.logprob, i));
    for (std::size_t k = 0; k < static_cast<std::size_t>(top_logprobs); ++k) {
      token.top_logprobs.push_back(
          {at(std::int32_t{}, parts.top_ids, i * width + k),
           static_cast<double>(at(float{}, parts.top_logprobs, i * width + k))});
    }
  }
  return tokens;
}

}  // namespace clora
