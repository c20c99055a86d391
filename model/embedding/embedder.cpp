#include "clora/model/embedding/embedder.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "model/data/text_packing.hpp"
#include "model/embedding/text_vectors.hpp"
#include "runtime/fail.hpp"
#include "runtime/memory/host_hold.hpp"

namespace clora {
namespace {

// Rows of a step; the smallest that holds what is left is taken.
constexpr std::array<std::int64_t, 4> kCpuRows{64, 256, 1024, 2048};
constexpr std::array<std::int64_t, 4> kGpuRows{64, 512, 4096, 16384};

// Texts of a step, at most: those of fewer rows on average take another step.
constexpr std::int64_t texts_in(std::int64_t rows) { return rows / 4; }

// Texts of one step, by their numbers, and their rows.
struct Packing {
  PackedRows rows;
  std::vector<std::size_t> texts;
};

struct Step {
  Step(Context& context, std::int64_t row_count)
      : texts(texts_in(row_count)),
        rows(context, row_count, texts, RowsOf::texts),
        batch(context),
        staging(context) {}

  std::int64_t texts;  // B
  RecordedRows rows;
  Batch batch;
  Tensor vectors;  // [B, D]
  HostHold<std::vector<std::int32_t>> staging;
};

}  // namespace

struct Embedder::Impl {
  Impl(LanguageModel& m, const Adapter* a, const EmbedderOptions& o)
      : model(m),
        adapter(a),
        options(o),
        context(m.context()),
        scales(m, a),
        packing(text_packing(m.config(), o.pooling)) {}

  std::span<const std::int64_t> row_counts() const {
    return context.device().kind == DeviceKind::gpu ? kGpuRows : kCpuRows;
  }
  std::int64_t width() const { return model.config().hidden_size; }
  std::int64_t max_length() const {
    return std::min(model.config().max_positions, row_counts().back());
  }

  void check(std::span<const std::vector<std::int32_t>> texts) const;
  void record(Step& step);
  Step& step_of(std::size_t rows, std::size_t texts);
  Packing pack(std::span<const std::vector<std::int32_t>> texts, std::size_t from) const;
  void run(Packing& some, std::span<float> out);

  LanguageModel& model;
  const Adapter* adapter;
  EmbedderOptions options;
  Context& context;
  ColumnScales scales;
  TextPacking packing;
  std::map<std::int64_t, Step> steps;  // by their rows
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

void Embedder::Impl::record(Step& step) {
  step.vectors = context.allocate({step.texts, width()}, DType::f32, MemoryTag::activations);
  const RecordedRows& rows = step.rows;
  Recording recording(model, step.batch,
                      {.rows = {rows.positions(), rows.first(), rows.last()},
                       .positions = std::min(rows.rows(), model.config().max_positions),
                       .type = context.activation_type(),
                       .adapter = adapter,
                       .column_scales = &scales});
  const TextVectors texts(recording, rows, options);
  step.batch.copy(step.vectors, texts.vectors());
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

// As many texts as a step holds, from number `from` on.
Packing Embedder::Impl::pack(std::span<const std::vector<std::int32_t>> texts,
                             std::size_t from) const {
  const auto most_rows = static_cast<std::size_t>(row_counts().back());
  const auto most_texts = static_cast<std::size_t>(texts_in(row_counts().back()));
  Packing some;
  for (std::size_t i = from; i < texts.size() && some.texts.size() < most_texts; ++i) {
    if (some.rows.rows() + texts[i].size() > most_rows) break;
    append_text(some.rows, texts[i], 0, packing);
    some.texts.push_back(i);
  }
  return some;
}

void Embedder::Impl::run(Packing& some, std::span<float> out) {
  Step& step = step_of(some.rows.rows(), some.texts.size());
  pad_rows(some.rows, static_cast<std::size_t>(step.rows.rows()));
  step.rows.upload(context, some.rows, {}, *step.staging);
  step.batch.submit();
  const std::vector<float> vectors = context.read<float>(step.vectors);
  const auto D = static_cast<std::size_t>(width());
  for (std::size_t i = 0; i < some.texts.size(); ++i) {
    std::copy_n(&vectors[i * D], D, &out[some.texts[i] * D]);
  }
}

Embedder::Embedder(LanguageModel& model, const Adapter* adapter, const EmbedderOptions& options)
    : impl_(std::make_unique<Impl>(model, adapter, options)) {}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

std::int64_t Embedder::width() const { return impl_->width(); }
std::int64_t Embedder::max_length() const { return impl_->max_length(); }

std::vector<float> Embedder::embed(std::span<const std::vector<std::int32_t>> texts) {
  impl_->check(texts);
  const auto D = static_cast<std::size_t>(width());
  std::vector<float> vectors(texts.size() * D);
  impl_->scales.update();  // the adapter may have been trained since
  for (std::size_t from = 0; from < texts.size();) {
    Packing some = impl_->pack(texts, from);
    from += some.texts.size();
    impl_->run(some, vectors);
  }
  return vectors;
}

}  // namespace clora
