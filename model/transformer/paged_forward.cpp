#include "model/transformer/paged_forward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "clora/model/transformer/model_stage.hpp"
#include "clora/ops/sample.hpp"
#include "model/transformer/fused_decoding.hpp"
#include "model/transformer/recorded_model.hpp"
#include "model/transformer/sub_layer.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

// In q8_0 a head must be a number of blocks.
void require_heads(const SubLayerSpec& layer, DType cache_type) {
  const auto* attention = std::get_if<AttentionLayerSpec>(&layer.f);
  const std::int64_t block = facts_of(cache_type).block_elements;
  require(attention == nullptr || attention->head_dim % block == 0,
          "KV cache: the type {} requires heads of a multiple of {} elements, the model's have {}; "
          "use bf16 or f16",
          name_of(cache_type), block, attention == nullptr ? 0 : attention->head_dim);
}

}  // namespace

PagedForward::Recorded::Recorded(Context& context, const StepShape& shape, const TableShape& tables,
                                 std::shared_ptr<Arena> arena)
    : inputs(context, shape, tables),
      batch(context, std::move(arena)),
      staging{PinnedMemory(context, 4 * inputs.staging_words()),
              PinnedMemory(context, 4 * inputs.staging_words())} {}

std::span<std::int32_t> PagedForward::Recorded::words() const {
  return {reinterpret_cast<std::int32_t*>(staging[turn].bytes().data()), inputs.staging_words()};
}

PagedForward::PagedForward(LanguageModel& model, const PagedForwardConfig& config)
    : model_(model), context_(model.context()), config_(config), scales_(model, config.adapter) {
  require(config.max_positions >= 1, "generation: at least one position is required, got {}",
          config.max_positions);
  model.require_context(config.max_positions);
  allocate_caches();
  latest_ = context_.allocate({config.sequences}, DType::i32, MemoryTag::activations);
}

std::int64_t PagedForward::table_pages() const {
  return divide_up(config_.max_positions, config_.page_positions);
}

void PagedForward::allocate_caches() {
  const std::int64_t rows = config_.pages * config_.page_positions;
  for (const BlockSpec& block : block_specs(model_)) {
    for (const SubLayerSpec& layer : block) {
      require_heads(layer, config_.cache_type);
      const std::vector<Shape> shapes = cache_shapes(layer, rows);
      if (shapes.empty()) continue;
      CacheTensors& cache = caches_.emplace_back();
      for (const Shape& shape : shapes) {
        const DType type = cache_type(layer, config_.cache_type);
        cache.push_back(context_.allocate(shape, type, MemoryTag::cache));
        context_.commit(cache.back(), MemoryTag::cache);
      }
    }
  }
}

bool PagedForward::record_fused_blocks(Recorded& f, Recording& recording, const Tensor& x) {
  const StepShape& shape = f.inputs.shape();
  if (shape.prompt_rows != 0 || !decodes_rows(context_, shape.rows())) return false;
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

// Those of the tokens, or of the sequences' latest ones.
Tensor PagedForward::record_ids(Recorded& f) {
  const Tensor ids = f.batch.temporary({f.inputs.shape().rows()}, DType::i32, "ids");
  record_pick_ids(f.batch, ids, f.inputs.part(StepInputs::kIds),
                  f.inputs.part(StepInputs::kSources), latest_);
  return ids;
}

void PagedForward::record(Recorded& f) {
  const StepShape& shape = f.inputs.shape();
  const TraceSpan span(context_.trace(), "record", shape.prompt_rows == 0 ? "decode" : "prefill");
  // One row is decoded in one launch, in f32.
  const DType type = shape.rows() == 1 ? DType::f32 : context_.activation_type();
  Recording recording(model_, f.batch,
                      {.rows = f.inputs.rows(),
                       .positions = config_.max_positions,
                       .type = type,
                       .adapter = config_.adapter,
                       .column_scales = &scales_,
                       .stacks = shape.adapted ? config_.stacks : nullptr,
                       .row_groups = f.inputs.row_groups(),
                       .caches = caches_,
                       .places = f.inputs.places(config_.page_positions)});
  bool is_in_place = false;  // the blocks overwrite the stream that they read
  const RecordedModel model(
      recording,
      {.ids = model_.is_first() ? record_ids(f) : Tensor(),
       .stream = model_.is_first() ? Tensor() : stream(shape.rows()),
       .selected =
           shape.selects && model_.is_last() ? f.inputs.part(StepInputs::kOutputs) : Tensor(),
       .selected_groups = f.inputs.output_groups(),
       .fused_blocks =
           [&](const Tensor& x) {
             const bool fused = record_fused_blocks(f, recording, x);
             is_in_place = fused && !model_.is_first();
             return fused;
           },
       .output_type = type});
  if (model_.is_last() && shape.outputs > 0) model.record_logits(logits(shape.outputs));
  if (!model_.is_last() && !is_in_place) f.batch.copy(stream(shape.rows()), model.output());
  f.batch.seal();
  if (shape.adapted) f.generation = config_.stacks->generation();
}

// Whether stacks were allocated for more layers since it was recorded.
bool PagedForward::is_outdated(const Recorded& f) const {
  return f.inputs.shape().adapted && f.generation != config_.stacks->generation();
}

PagedForward::Recorded& PagedForward::forward(const StepShape& shape) {
  const auto found = forwards_.find(shape);
  if (found != forwards_.end() && !is_outdated(*found->second)) return *found->second;
  if (found != forwards_.end()) {
    context_.finish();
    forwards_.erase(found);
  }
  const TableShape tables{std::min(shape.paged_rows, config_.sequences), table_pages()};
  auto recorded = std::make_unique<Recorded>(context_, shape, tables, arena_);
  record(*recorded);  // stored only if recording succeeds
  return *forwards_.emplace(shape, std::move(recorded)).first->second;
}

PagedForward::Staged PagedForward::begin(const StepShape& shape) {
  Recorded& f = forward(shape);
  f.turn = (f.turn + 1) % f.uploads.size();
  f.uploads[f.turn].wait();
  f.inputs.clear(f.words());
  return staged(shape);
}

PagedForward::Staged PagedForward::staged(const StepShape& shape) {
  const Recorded& f = forward(shape);
  return {f.inputs, f.words()};
}

void PagedForward::submit(const StepShape& shape) {
  Recorded& f = forward(shape);
  f.uploads[f.turn] = f.inputs.upload(context_, f.words());
  f.batch.submit();
}

const Tensor& PagedForward::logits(std::int64_t outputs) {
  Tensor& logits = logits_[outputs];
  if (logits.empty()) {
    logits = context_.allocate({outputs, model_.config().vocabulary}, DType::f32,
                               MemoryTag::activations);
  }
  return logits;
}

const Tensor& PagedForward::stream(std::int64_t rows) {
  Tensor& stream = streams_[rows];
  if (stream.empty()) {
    stream =
        context_.allocate({rows, model_.config().hidden_size}, DType::f32, MemoryTag::activations);
  }
  return stream;
}

bool PagedForward::gave_up(const StepShape& shape) const {
  const Tensor& barrier = forwards_.at(shape)->grid_barrier;
  return !barrier.empty() && context_.read<std::int32_t>(barrier)[1] != 0;
}

}  // namespace clora
