#include "clora/model/transformer/model_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "clora/model/configuration/block_range.hpp"
#include "lora/end_modules.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

// Elements [from, from + count) of the whole adapter's buffer, which become those at `to`.
struct Piece {
  std::size_t from, to, count;
};

std::size_t elements(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

void add_pieces(std::vector<Piece>& pieces, const Adapter& whole, const Adapter& part) {
  for (const AdapterModule& to : part.modules()) {
    const AdapterModule& from = *whole.find(to.site.path);
    pieces.push_back({from.a_offset, to.a_offset, elements(to.rank, to.site.inputs)});
    pieces.push_back({from.bt_offset, to.bt_offset, elements(to.rank, to.site.outputs)});
    if (!part.config().use_dora) continue;
    pieces.push_back({from.magnitude_offset, to.magnitude_offset, elements(1, to.site.outputs)});
  }
  for (const SavedTensor& to : part.saved_tensors()) {
    const auto from = std::ranges::find(whole.saved_tensors(), to.name, &SavedTensor::name);
    pieces.push_back({from->offset, to.offset, static_cast<std::size_t>(to.shape.elements())});
  }
}

void copy_values(const Adapter& whole, const Adapter& part) {
  std::vector<Piece> pieces;
  add_pieces(pieces, whole, part);
  const std::vector<float> values = whole.context().read<float>(whole.parameters());
  std::vector<float> own(static_cast<std::size_t>(part.parameters().elements()));
  for (const Piece& piece : pieces) {
    std::ranges::copy(std::span(values).subspan(piece.from, piece.count),
                      own.begin() + static_cast<std::ptrdiff_t>(piece.to));
  }
  part.context().write(part.parameters(), std::as_bytes(std::span(own)));
}

}  // namespace

void require_stages(std::span<const ModelStage> stages) {
  require(!stages.empty(), "model stages: at least one stage is required, got none");
  std::int64_t next = 0;
  for (const ModelStage& stage : stages) {
    const auto& [begin, end] = stage.model->range();
    require(begin == next,
            "model stages: each stage must begin where the one before it ends, at block {}, got "
            "the blocks [{}, {})",
            next, begin, end);
    next = end;
    const Context* device = &stage.model->context();
    require(stage.adapter == nullptr || &stage.adapter->context() == device,
            "model stages: the adapter of the blocks [{}, {}) must be on their device, '{}'", begin,
            end, device->device().name);
  }
  const std::int64_t layers = stages.front().model->config().layers;
  require(next == layers && stages.back().model->is_last(),
          "model stages: the last stage must end with block {} of the model, got {}", layers, next);
}

std::span<const BlockSpec> block_specs(const LanguageModel& stage) {
  const BlockRange& range = stage.range();
  return std::span(stage.config().blocks)
      .subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.count()));
}

bool has_module(const LanguageModel& stage, std::string_view path) {
  if (path == kEmbeddingsPath) return stage.is_first();
  return holds_tensor(stage.config(), stage.range(), fmt::format("{}.weight", path));
}

std::size_t stage_of(std::span<const ModelStage> stages, std::string_view path) {
  const auto found = std::ranges::find_if(
      stages, [&](const ModelStage& stage) { return has_module(*stage.model, path); });
  return found == stages.end() ? 0 : static_cast<std::size_t>(found - stages.begin());
}

std::optional<Adapter> part_of_adapter(const Adapter& whole, const LanguageModel& stage) {
  std::vector<AdapterModule> modules = whole.modules();
  std::erase_if(modules, [&](const AdapterModule& m) { return !has_module(stage, m.site.path); });
  std::vector<SavedTensor> saved = whole.saved_tensors();
  std::erase_if(saved, [&](const SavedTensor& s) { return !has_module(stage, s.module()); });
  if (modules.empty() && saved.empty()) return std::nullopt;
  Adapter part(stage.context(), std::move(modules), whole.config(), std::move(saved));
  copy_values(whole, part);
  return part;
}

}  // namespace clora
