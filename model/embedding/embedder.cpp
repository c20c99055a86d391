#include "clora/model/embedding/embedder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "clora/model/transformer/recorded_rows.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "clora/ops/rowwise/segment_mean.hpp"
#include "model/transformer/recorded_model.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// Rows of a step; the smallest that holds what is left is taken.
constexpr std::array<std::int64_t, 4> kCpuRows{64, 256, 1024, 2048};
constexpr std::array<std::int64_t, 4> kGpuRows{64, 512, 4096, 16384};
constexpr float kSmallest = 1e-24F;  // of the mean square of a vector that is normalised

// Texts of a step, at most: those of fewer rows on average take another step.
constexpr std::int64_t texts_in(std::int64_t rows) { return rows / 4; }

bool is_causal(const ModelConfig& config) {
  return std::ranges::all_of(attentions_of(config),
                             [](const AttentionLayerSpec* each) { return each->is_causal; });
}

// Texts of one step, by their numbers, and their rows.
struct Packing {
  PackedRows rows;
  std::vector<std::size_t> texts;
  std::vector<std::int32_t> begin, end;  // of each text
};

struct Step {
  Step(Context& context, std::int64_t row_count)
      : texts(texts_in(row_count)),
        rows(context, row_count, texts),
        batch(context),
        staging(context) {}

  std::int64_t texts;  // B
  RecordedRows rows;
  Batch batch;
  Tensor begin, end;  // [B] i32
  Tensor vectors;     // [B, D]
  HostHold<std::vector<std::int32_t>> staging;
};

}  // namespace

struct Embedder::Impl {
  Impl(LanguageModel& m, const Adapter* a, const EmbedderOptions& o)
      : model(m), adapter(a), options(o), context(m.context()), causal(is_causal(m.config())) {}

  std::span<const std::int64_t> row_counts() const {
    return context.device().kind == DeviceKind::gpu ? kGpuRows : kCpuRows;
  }
  std::int64_t width() const { return model.config().hidden_size; }
  std::int64_t max_length() const {
    return std::min(model.config().max_positions, row_counts().back());
  }

  void check(std::span<const std::vector<std::int32_t>> texts) const;
  Tensor pooled(Step& step, const RecordedModel& recorded);
  void record(Step& step);
  Step& step_of(std::size_t rows, std::size_t texts);
  Packing pack(std::span<const std::vector<std::int32_t>> texts, std::size_t from) const;
  void add(Packing& packing, const std::vector<std::int32_t>& ids, std::size_t number) const;
  void run(Packing& packing, std::span<float> out);

  LanguageModel& model;
  const Adapter* adapter;
  EmbedderOptions options;
  Context& context;
  bool causal;                         // a row attends to no later one
  std::map<std::int64_t, Step> steps;  // by their rows
  Tensor unit_norm;                    // [D], the weights of an rms_norm that gives length 1
};

void Embedder::Impl::check(std::span<const std::vector<std::int32_t>> texts) const {
  const std::int64_t vocabulary = model.config().vocabulary;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    require(!texts[i].empty() && std::ssize(texts[i]) <= max_length(),
            "embedder: text {} must have 1 to {} tokens, got {}", i, max_length(), texts[i].size());
    for (const std::int32_t id : texts[i]) {
      require(id >= 0 && id < vocabulary, "embedder: ids must be in [0, {}), got {} in text {}",
              vocabulary, id, i);
    }
  }
}

Tensor Embedder::Impl::pooled(Step& step, const RecordedModel& recorded) {
  if (options.pooling != Pooling::mean) return recorded.output();  // the selected rows
  const Tensor means = step.batch.temporary({step.texts, width()}, DType::f32, "means");
  record_segment_mean(step.batch, means, recorded.output(), {step.begin, step.end});
  return means;
}

void Embedder::Impl::record(Step& step) {
  step.begin = context.allocate({step.texts}, DType::i32, MemoryTag::activations);
  step.end = context.allocate({step.texts}, DType::i32, MemoryTag::activations);
  step.vectors = context.allocate({step.texts, width()}, DType::f32, MemoryTag::activations);
  const RecordedRows& rows = step.rows;
  Recording recording(model, step.batch,
                      {.rows = {rows.positions(), rows.first(), rows.last()},
                       .positions = std::min(rows.rows(), model.config().max_positions),
                       .type = context.activation_type(),
                       .adapter = adapter});
  const bool selects = options.pooling != Pooling::mean;
  const RecordedModel recorded(
      recording, {.ids = rows.ids(), .selected = selects ? rows.labelled() : Tensor()});
  const Tensor vectors = pooled(step, recorded);
  if (options.normalises) {
    record_rms_norm(step.batch, step.vectors, vectors, unit_norm, kSmallest);
  } else {
    step.batch.copy(step.vectors, vectors);
  }
  step.batch.seal();
}

Step& Embedder::Impl::step_of(std::size_t rows, std::size_t texts) {
  for (const std::int64_t count : row_counts()) {
    if (std::cmp_less(count, rows) || std::cmp_less(texts_in(count), texts)) continue;
    const auto found = steps.find(count);
    if (found != steps.end()) return found->second;
    Step& step = steps.try_emplace(count, context, count).first->second;
    try {
      record(step);
    } catch (...) {  // an incomplete recording must not be replayed
      steps.erase(count);
      throw;
    }
    return step;
  }
  fail(ErrorCode::invalid_argument, "embedder: {} rows of {} texts exceed a step", rows, texts);
}

// Appends a text; the row that is its vector, if it is one row, is labelled.
void Embedder::Impl::add(Packing& packing, const std::vector<std::int32_t>& ids,
                         std::size_t number) const {
  PackedRows& rows = packing.rows;
  const auto begin = static_cast<std::int32_t>(rows.rows());
  const auto count = static_cast<std::int32_t>(ids.size());
  const std::int32_t pooled = options.pooling == Pooling::last_token ? count - 1 : 0;
  for (std::int32_t i = 0; i < count; ++i) {
    rows.ids.push_back(ids[static_cast<std::size_t>(i)]);
    rows.targets.push_back(i == pooled ? 0 : -1);
    rows.positions.push_back(i);
    rows.first.push_back(begin);
    rows.last.push_back(causal ? begin + i : begin + count - 1);
  }
  packing.begin.push_back(begin);
  packing.end.push_back(begin + count);
  packing.texts.push_back(number);
}

// As many texts as a step holds, from number `from` on.
Packing Embedder::Impl::pack(std::span<const std::vector<std::int32_t>> texts,
                             std::size_t from) const {
  const auto most_rows = static_cast<std::size_t>(row_counts().back());
  const auto most_texts = static_cast<std::size_t>(texts_in(row_counts().back()));
  Packing packing;
  for (std::size_t i = from; i < texts.size() && packing.texts.size() < most_texts; ++i) {
    if (packing.rows.rows() + texts[i].size() > most_rows) break;
    add(packing, texts[i], i);
  }
  return packing;
}

void Embedder::Impl::run(Packing& packing, std::span<float> out) {
  Step& step = step_of(packing.rows.rows(), packing.texts.size());
  pad_rows(packing.rows, static_cast<std::size_t>(step.rows.rows()));
  packing.begin.resize(static_cast<std::size_t>(step.texts));
  packing.end.resize(static_cast<std::size_t>(step.texts));
  context.write(step.begin, std::as_bytes(std::span(packing.begin)));
  context.write(step.end, std::as_bytes(std::span(packing.end)));
  step.rows.upload(context, packing.rows, {}, *step.staging);
  step.batch.submit();
  const std::vector<float> vectors = context.read<float>(step.vectors);
  const auto D = static_cast<std::size_t>(width());
  for (std::size_t i = 0; i < packing.texts.size(); ++i) {
    std::copy_n(&vectors[i * D], D, &out[packing.texts[i] * D]);
  }
}

Embedder::Embedder(LanguageModel& model, const Adapter* adapter, const EmbedderOptions& options)
    : impl_(std::make_unique<Impl>(model, adapter, options)) {
  const auto D = static_cast<std::size_t>(impl_->width());
  const std::vector<float> weights(D, 1 / std::sqrt(static_cast<float>(D)));
  impl_->unit_norm =
      impl_->context.upload<float>({impl_->width()}, DType::f32, weights, MemoryTag::activations);
}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

std::int64_t Embedder::width() const { return impl_->width(); }
std::int64_t Embedder::max_length() const { return impl_->max_length(); }

std::vector<float> Embedder::embed(std::span<const std::vector<std::int32_t>> texts) {
  impl_->check(texts);
  const auto D = static_cast<std::size_t>(width());
  std::vector<float> vectors(texts.size() * D);
  for (std::size_t from = 0; from < texts.size();) {
    Packing packing = impl_->pack(texts, from);
    from += packing.texts.size();
    impl_->run(packing, vectors);
  }
  return vectors;
}

}  // namespace clora
