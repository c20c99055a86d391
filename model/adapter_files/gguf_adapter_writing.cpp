#include <algorithm>
#include <cmath>
#include <limits>

#include "clora/model/files/gguf_writing.hpp"
#include "lora/end_modules.hpp"
#include "model/adapter_files/gguf_adapter.hpp"
#include "model/adapter_files/gguf_adapter_keys.hpp"
#include "model/adapter_files/gguf_matrices.hpp"
#include "model/adapter_files/scale_folding.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using namespace gguf_adapter;

// A module, or the experts of a stack, with one rank.
struct Pair {
  std::string name;
  bool is_embedding = false;
  bool is_stack = false;
  std::int64_t rank = 0;  // the largest of the parts
  std::int64_t inputs = 0, outputs = 0;
  // nullptr: an expert without an adapter, whose matrices are zero in the file.
  std::vector<const ModuleValues*> parts;
  std::vector<GgufMatrix> orders;  // of the parts
};

Pair& pair_named(std::vector<Pair>& pairs, const GgufMatrix& matrix, const ModuleValues& module) {
  const auto at = std::ranges::find(pairs, matrix.name, &Pair::name);
  if (at != pairs.end()) return *at;
  const auto parts = static_cast<std::size_t>(std::max<std::int64_t>(matrix.stack.count, 1));
  pairs.push_back({.name = matrix.name,
                   .is_embedding = is_embedding(module.site.path),
                   .is_stack = matrix.stack.count > 0,
                   .rank = 0,
                   .inputs = module.site.inputs,
                   .outputs = module.site.outputs,
                   .parts = std::vector<const ModuleValues*>(parts),
                   .orders = std::vector<GgufMatrix>(parts)});
  return pairs.back();
}

std::vector<Pair> pairs_of(const AdapterValues& adapter, const GgufMatrices& matrices) {
  std::vector<Pair> pairs;
  for (const ModuleValues& module : adapter.modules) {
    const GgufMatrix& matrix = matrices.find(module.site.path)->second;
    Pair& pair = pair_named(pairs, matrix, module);
    const auto part = static_cast<std::size_t>(matrix.stack.index);
    pair.parts[part] = &module;
    pair.orders[part] = matrix;
    pair.rank = std::max(pair.rank, module.rank);
  }
  return pairs;
}

// What the reader computes.
float stored_scale(float alpha, std::int64_t rank) { return alpha / static_cast<float>(rank); }

// The factor of B that gives a module its scale. A scale that differs by one rounding, as where no
// alpha gives it exactly, is left: multiplying B would round every value instead.
double factor_of(float scale, float alpha, std::int64_t rank) {
  constexpr double kRounding = std::numeric_limits<float>::epsilon();
  const double factor = double{scale} / double{stored_scale(alpha, rank)};
  return std::abs(factor - 1) <= kRounding ? 1 : factor;
}

// The alpha that gives most modules their scale exactly. scale * rank may need more bits than f32
// has; then one of its neighbours is usually the right one.
float alpha_of(const std::vector<Pair>& pairs) {
  std::vector<double> products;
  for (const Pair& pair : pairs) {
    for (const ModuleValues* part : pair.parts) {
      if (part != nullptr) products.push_back(double{part->scale} * static_cast<double>(pair.rank));
    }
  }
  const double wanted = most_frequent_nonzero(products);
  if (wanted == 0) return 1;
  const auto nearest = static_cast<float>(wanted);
  for (const float alpha :
       {nearest, std::nextafter(nearest, INFINITY), std::nextafter(nearest, -INFINITY)}) {
    const auto fits = [&](const Pair& pair) {
      return std::ranges::all_of(pair.parts, [&](const ModuleValues* part) {
        return part == nullptr || double{part->scale} * static_cast<double>(pair.rank) != wanted ||
               stored_scale(alpha, pair.rank) == part->scale;
      });
    };
    if (std::ranges::all_of(pairs, fits)) return alpha;
  }
  return nearest;
}

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Row-major [rows, columns] of part `part` of a tensor of such matrices.
struct PartView {
  std::vector<float>& values;
  std::int64_t part, rows, columns;
  float& at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>((part * rows + row) * columns + column)];
  }
};

std::vector<float> zeros_for(const Pair& pair, std::int64_t rows, std::int64_t columns) {
  return std::vector<float>(pair.parts.size() * static_cast<std::size_t>(rows * columns));
}

std::vector<float> matrix_a(const Pair& pair) {
  std::vector<float> all = zeros_for(pair, pair.rank, pair.inputs);
  for (std::size_t p = 0; p < pair.parts.size(); ++p) {
    const ModuleValues* part = pair.parts[p];
    if (part == nullptr) continue;
    const PartView out{all, static_cast<std::int64_t>(p), pair.rank, pair.inputs};
    for (std::int64_t r = 0; r < part->rank; ++r) {
      for (std::int64_t k = 0; k < pair.inputs; ++k) {
        out.at(r, gguf_column(pair.orders[p], k)) =
            part->a[static_cast<std::size_t>(r * pair.inputs + k)];
      }
    }
  }
  return pair.is_embedding ? transposed(all, pair.rank, pair.inputs) : all;
}

std::vector<float> matrix_b(const Pair& pair, float alpha, ConversionNotes& notes) {
  std::vector<float> all = zeros_for(pair, pair.outputs, pair.rank);
  for (std::size_t p = 0; p < pair.parts.size(); ++p) {
    const ModuleValues* part = pair.parts[p];
    if (part == nullptr) continue;
    std::vector<float> b = part->b;
    fold_scale(b, factor_of(part->scale, alpha, pair.rank), part->site.path, notes);
    if (part->rank != pair.rank) ++notes.padded;
    const PartView out{all, static_cast<std::int64_t>(p), pair.outputs, pair.rank};
    for (std::int64_t n = 0; n < pair.outputs; ++n) {
      for (std::int64_t r = 0; r < part->rank; ++r) {
        out.at(gguf_row(pair.orders[p], n), r) = b[static_cast<std::size_t>(n * part->rank + r)];
      }
    }
  }
  return all;
}

Shape shape_of(const Pair& pair, std::int64_t rows, std::int64_t columns) {
  if (!pair.is_stack) return {rows, columns};
  return {static_cast<std::int64_t>(pair.parts.size()), rows, columns};
}

// Two tensors for each pair, A first.
std::vector<GgufTensorDescription> descriptions_of(const std::vector<Pair>& pairs) {
  std::vector<GgufTensorDescription> tensors;
  for (const Pair& pair : pairs) {
    const Shape a =
        pair.is_embedding ? Shape{pair.inputs, pair.rank} : shape_of(pair, pair.rank, pair.inputs);
    tensors.push_back({pair.name + std::string(kSuffixA), DType::f32, a});
    tensors.push_back(
        {pair.name + std::string(kSuffixB), DType::f32, shape_of(pair, pair.outputs, pair.rank)});
  }
  return tensors;
}

[[noreturn]] void refuse(std::string_view what, std::string_view why) {
  fail(ErrorCode::unsupported,
       "adapter: a GGUF adapter cannot hold {}: {}; merge it into the model (clora fuse) or keep "
       "PEFT's format",
       what, why);
}

}  // namespace

void require_gguf_holds(const AdapterConfig& adapter, const std::vector<AdapterModule>& modules,
                        const std::vector<SavedTensor>& saved, const ModelConfig& config) {
  if (adapter.use_dora) refuse("the magnitudes of DoRA (use_dora)", "llama.cpp computes LoRA only");
  if (!saved.empty()) {
    refuse(
        fmt::format("{}, which is trained in full (modules_to_save or bias)", saved.front().name),
        "llama.cpp ignores or rejects such tensors");
  }
  const GgufMatrices matrices = gguf_matrices(config);
  for (const AdapterModule& module : modules) {
    const std::string& path = module.site.path;
    const bool is_end = path == kEmbeddingsPath || path == kHeadPath;
    if (is_end && config.has_head && config.tied_head) {
      refuse(path,
             "the model has one matrix for embeddings and head, and llama.cpp one adapter "
             "for it");
    }
    require(matrices.contains(path), "adapter: {} is not a matrix of a {} model", path,
            config.family);
  }
}

ConversionNotes write_gguf_adapter(const AdapterValues& adapter, const ModelConfig& config,
                                   const std::filesystem::path& path) {
  std::vector<SavedTensor> saved;
  for (const SavedValues& each : adapter.saved) saved.push_back(each.tensor);
  require_gguf_holds(adapter.config, modules_of(adapter), saved, config);
  const std::vector<Pair> pairs = pairs_of(adapter, gguf_matrices(config));
  const float alpha = alpha_of(pairs);
  GgufMetadata metadata;
  metadata.set_text(kArchitecture, gguf_architecture(config));
  metadata.set_text(kType, kIsAdapter);
  metadata.set_text(kAdapterType, kIsLora);
  metadata.set_float32(kAlpha, alpha);
  ConversionNotes notes;
  write_gguf(path, metadata, descriptions_of(pairs), [&](std::size_t i) {
    const Pair& pair = pairs[i / 2];
    return bytes_of(i % 2 == 0 ? matrix_a(pair) : matrix_b(pair, alpha, notes));
  });
  return notes;
}

}  // namespace clora
