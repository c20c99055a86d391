#include "model/transformer/cached_forward.hpp"

#include <algorithm>
#include <utility>

#include "model/transformer/fused_decoding.hpp"
#include "model/transformer/recorded_model.hpp"
#include "model/transformer/sub_layer.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// Prompts run in chunks of these sizes; the last chunk is padded.
constexpr std::array<std::int64_t, 3> kChunkRows{256, 64, 16};

constexpr std::size_t kPinnedPart = 16 << 10U;  // bytes, of the upload of one row

}  // namespace

CachedForward::Recorded::Recorded(Context& context, std::int64_t count)
    : rows(context, count, 1),
      batch(context),
      staging{HostHold<Staging>(context), HostHold<Staging>(context)} {}

CachedForward::CachedForward(LanguageModel& model, const Adapter* adapter, std::int64_t positions,
                             DType cache_type)
    : model_(model), adapter_(adapter), context_(model.context()), max_positions_(positions) {
  require(positions >= 1, "generator: at least one position is required, got {}", positions);
  model.require_context(positions);
  allocate_caches(cache_type);
  if (context_.device().kind == DeviceKind::gpu) {
    pinned_ = std::make_unique<PinnedMemory>(context_, 2 * kPinnedPart);
  }
  logits_ = context_.allocate({model.config().vocabulary}, DType::f32, MemoryTag::activations);
  token_ = context_.allocate({1}, DType::i32, MemoryTag::activations);
}

void CachedForward::allocate_caches(DType kv_cache_type) {
  for (const BlockSpec& block : model_.config().blocks) {
    for (const SubLayerSpec& layer : block) {
      const std::vector<Shape> shapes = cache_shapes(layer, max_positions_);
      if (shapes.empty()) continue;
      CacheTensors& cache = caches_.emplace_back();
      for (const Shape& shape : shapes) {
        const DType type = cache_type(layer, kv_cache_type);
        cache.push_back(context_.allocate(shape, type, MemoryTag::cache));
        context_.commit(cache.back(), MemoryTag::cache);
      }
    }
  }
}

std::span<std::int32_t> CachedForward::staging_for(Recorded& f) const {
  const std::size_t words = f.rows.staging_words();
  const std::size_t turn = f.turn++ % f.staging.size();
  if (pinned_ != nullptr && 4 * words <= kPinnedPart && f.rows.rows() == 1) {
    const std::span<std::byte> bytes = pinned_->bytes().subspan(turn * kPinnedPart);
    return {reinterpret_cast<std::int32_t*>(bytes.data()), words};
  }
  f.staging[turn]->resize(words);
  return *f.staging[turn];
}

bool CachedForward::record_fused_blocks(Recorded& f, Recording& recording, const Tensor& x) {
  if (x.shape()[0] != 1) return false;
  const auto form = decode_layers_of(recording);
  if (const auto* why = std::get_if<std::string>(&form)) {
    context_.hooks().log_message(LogLevel::debug,
                                 fmt::format("decoding is not one launch of all blocks: {}", *why));
    return false;
  }
  const auto& decode = std::get<DecodeLayers>(form);
  if (decodes_in_few_launches(context_, decode)) {
    record_decode_layers_in_few_launches(f.batch, x, decode);
    return true;
  }
  if (!decodes_in_one_launch(context_, decode)) return false;
  f.grid_barrier = context_.upload<std::int32_t>({3}, DType::i32, std::array<std::int32_t, 3>{},
                                                 MemoryTag::activations);
  record_decode_layers(f.batch, x, decode, f.grid_barrier);
  return true;
}

void CachedForward::record(Recorded& f) {
  const std::int64_t rows = f.rows.rows();
  const TraceSpan span(context_.trace(), "record", rows == 1 ? "decode" : "prefill");
  Recording recording(model_, f.batch,
                      {.rows = {f.rows.positions(), f.rows.first(), f.rows.last()},
                       .positions = max_positions_,
                       .adapter = adapter_,
                       .caches = caches_});
  // A step of one row continues from the token sampled on the device.
  const RecordedModel model(recording, {.ids = rows == 1 ? token_ : f.rows.ids(),
                                        .selected = rows == 1 ? Tensor() : f.rows.labelled(),
                                        .fused_blocks = [&](const Tensor& x) {
                                          return record_fused_blocks(f, recording, x);
                                        }});
  model.record_logits(logits_.reshape({1, model_.config().vocabulary}));
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
  const auto rows = static_cast<std::size_t>(f.rows.rows());
  PackedRows packed{.ids = {ids.begin(), ids.end()},
                    .targets = std::vector(rows, -1),
                    .positions = std::vector(rows, -1),
                    .first = std::vector(rows, 0),
                    .last = std::vector(rows, 0),
                    .text = {}};
  packed.ids.resize(rows);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    packed.positions[i] = packed.last[i] =
        static_cast<std::int32_t>(position) + static_cast<std::int32_t>(i);
  }
  packed.targets[ids.size() - 1] = 0;  // the row whose logits are computed
  f.rows.upload(context_, packed, {}, staging_for(f));
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
