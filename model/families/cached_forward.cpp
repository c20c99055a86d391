#include "model/families/cached_forward.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "clora/ops/gemm/gemm.hpp"
#include "clora/ops/rowwise/embedding.hpp"
#include "clora/ops/rowwise/rms_norm.hpp"
#include "model/families/decoding_blocks.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Prompts run in chunks of these sizes; the last chunk is padded.
constexpr std::array<std::int64_t, 3> kChunkRows{256, 64, 16};

constexpr std::size_t kPinnedPart = 16 << 10U;  // bytes, of the upload of one row

}  // namespace

CachedForward::Rows::Rows(Context& context, std::int64_t rows) {
  const auto step = static_cast<std::int64_t>(context.device().base_alignment_bytes / 4);
  stride = round_up(rows, step);
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

CachedForward::Recorded::Recorded(Context& context, std::int64_t count)
    : rows(context, count),
      batch(context),
      staging{HostHold<Staging>(context), HostHold<Staging>(context)} {}

CachedForward::CachedForward(LanguageModel& model, const Adapter* adapter, std::int64_t positions)
    : model_(model), adapter_(adapter), context_(model.context()), max_positions_(positions) {
  require(positions >= 1, "generator: at least one position is required, got {}", positions);
  const ModelConfig& c = model.config();
  const Shape shape{positions, c.kv_heads, c.head_dim};
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    cache_.push_back({context_.allocate(shape, DType::f32, MemoryTag::cache),
                      context_.allocate(shape, DType::f32, MemoryTag::cache)});
    context_.commit(cache_.back().keys, MemoryTag::cache);
    context_.commit(cache_.back().values, MemoryTag::cache);
  }
  if (context_.device().kind == DeviceKind::gpu) {
    pinned_ = std::make_unique<PinnedMemory>(context_, 2 * kPinnedPart);
  }
  logits_ = context_.allocate({c.vocabulary}, DType::f32, MemoryTag::activations);
  token_ = context_.allocate({1}, DType::i32, MemoryTag::activations);
}

std::span<std::int32_t> CachedForward::staging_for(Recorded& f) const {
  const auto words = static_cast<std::size_t>(f.rows.buffer.elements());
  const std::size_t turn = f.turn++ % f.staging.size();
  if (pinned_ != nullptr && 4 * words <= kPinnedPart && f.rows.ids.elements() == 1) {
    const std::span<std::byte> bytes = pinned_->bytes().subspan(turn * kPinnedPart);
    const std::span part{reinterpret_cast<std::int32_t*>(bytes.data()), words};
    std::ranges::fill(part, 0);
    return part;
  }
  f.staging[turn]->assign(words, 0);
  return *f.staging[turn];
}

bool CachedForward::record_fused_layers(Recorded& f, const Tensor& x) {
  if (x.shape()[0] != 1) return false;
  const std::optional<DecodeLayers> decode =
      decode_layers_of(model_, adapter_, cache_, model_.rope_table(max_positions_),
                       {f.rows.positions, f.rows.first, f.rows.last});
  if (!decode.has_value()) return false;
  if (decodes_in_few_launches(context_, *decode)) {
    record_decode_layers_in_few_launches(f.batch, x, *decode);
    return true;
  }
  if (!decodes_in_one_launch(context_, *decode)) return false;
  f.grid_barrier = context_.upload<std::int32_t>({3}, DType::i32, std::array<std::int32_t, 3>{},
                                                 MemoryTag::activations);
  record_decode_layers(f.batch, x, *decode, f.grid_barrier);
  return true;
}

Tensor CachedForward::record_blocks(Recorded& f, Tensor x) {
  if (record_fused_layers(f, x)) return x;
  for (std::int64_t layer = 0; layer < model_.config().layers; ++layer) {
    Block block = block_of(model_, adapter_, layer);
    block.rope_table = model_.rope_table(max_positions_);
    block.rows = {f.rows.positions, f.rows.first, f.rows.last};
    const Tensor y = f.batch.temporary(x.shape(), DType::f32, "block output");
    record_block_with_cache(f.batch, y, x, block, cache_[static_cast<std::size_t>(layer)]);
    x = y;
  }
  return x;
}

void CachedForward::record(Recorded& f) {
  const ModelConfig& c = model_.config();
  const std::int64_t rows = f.rows.ids.shape()[0];
  const TraceSpan span(context_.trace(), "record", rows == 1 ? "decode" : "prefill");
  const auto activation = [&](std::int64_t n, std::string_view name) {
    return f.batch.temporary({n, c.hidden_size}, DType::f32, name);
  };
  const Tensor x = activation(rows, "embeddings");
  // A step of one row continues from the token sampled on the device.
  record_embedding(f.batch, x, rows == 1 ? token_ : f.rows.ids, model_.embeddings());
  Tensor last = record_blocks(f, x);
  if (rows > 1) {
    const Tensor all = last;
    last = activation(1, "last row");
    record_embedding(f.batch, last, f.rows.chosen, all);  // gathers one row
  }
  const Tensor normed = activation(1, "final norm");
  record_rms_norm(f.batch, normed, last, model_.final_norm(),
                  static_cast<float>(c.rms_norm_epsilon));
  record_gemm(f.batch, logits_.reshape({1, c.vocabulary}), normed, model_.head());
  f.batch.seal();
}

CachedForward::Recorded& CachedForward::forward(std::int64_t rows) {
  const auto found = forwards_.find(rows);
  if (found != forwards_.end()) return *found->second;
  auto recorded = std::make_unique<Recorded>(context_, rows);
  record(*recorded);  // stored only if recording succeeds
  return *forwards_.emplace(rows, std::move(recorded)).first->second;
}

// Uploads the rows of `ids` at consecutive positions from `position`; the rows after them are
// padding and have no effect.
void CachedForward::upload(Recorded& f, std::span<const std::int32_t> ids, std::int64_t position) {
  const Rows& rows = f.rows;
  const std::span<std::int32_t> staging = staging_for(f);
  const auto at = [&](std::int64_t part, std::size_t i) -> std::int32_t& {
    return staging[static_cast<std::size_t>(part * rows.stride) + i];
  };
  const std::int64_t window = model_.config().sliding_window.value_or(0);
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
  context_.write_async(rows.buffer, std::as_bytes(staging));
}

bool CachedForward::prefill(std::span<const std::int32_t> prompt,
                            const std::function<bool(std::int64_t)>& on_prompt) {
  const TraceSpan span(context_.trace(), "prefill");
  std::int64_t position = 0;
  while (!prompt.empty()) {
    if (on_prompt && !on_prompt(position)) return false;
    const auto left = static_cast<std::int64_t>(prompt.size());
    // The largest chunk that is filled; the next larger one if the rest fills more than half of it.
    const auto filled = std::ranges::find_if(kChunkRows, [&](std::int64_t n) { return n <= left; });
    std::int64_t rows = filled == kChunkRows.end() ? kChunkRows.back() : *filled;
    if (filled != kChunkRows.begin() && 2 * left > *(filled - 1)) rows = *(filled - 1);
    Recorded& f = forward(rows);
    context_.finish();  // the staging memory of this chunk size may still be read
    const auto count = static_cast<std::size_t>(std::min(rows, left));
    upload(f, prompt.first(count), position);
    f.batch.submit();
    position += static_cast<std::int64_t>(count);
    prompt = prompt.subspan(count);
  }
  return true;
}

void CachedForward::step(std::int64_t position) {
  constexpr std::array<std::int32_t, 1> kKnownOnTheDevice{};
  Recorded& one = forward(1);
  upload(one, kKnownOnTheDevice, position);
  one.batch.submit();
}

bool CachedForward::step_gave_up() const {
  const auto found = forwards_.find(1);
  return found != forwards_.end() && !found->second->grid_barrier.empty() &&
         context_.read<std::int32_t>(found->second->grid_barrier)[1] != 0;
}

}  // namespace clora
