#include <algorithm>
#include <optional>
#include <set>

#include "clora/model/files/gguf.hpp"
#include "clora/model/transformer/adapter_sites.hpp"
#include "lora/end_modules.hpp"
#include "lora/finite_values.hpp"
#include "model/adapter_files/found_modules.hpp"
#include "model/adapter_files/gguf_adapter.hpp"
#include "model/adapter_files/gguf_adapter_keys.hpp"
#include "model/adapter_files/gguf_matrices.hpp"
#include "model/files/dequantise.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using namespace gguf_adapter;

constexpr std::string_view kInvocationTokens = "adapter.alora.invocation_tokens";
// Keys that say nothing about what the adapter computes.
constexpr std::string_view kDescriptive[] = {"adapter.lora.task_name",
                                             "adapter.lora.prompt_prefix"};

void require_text(const GgufFile& file, std::string_view key, std::string_view wanted) {
  const auto value = file.text(key);
  if (value && *value == wanted) return;
  fail(ErrorCode::invalid_file, "adapter '{}': {} must be '{}', got {}; is it a model?",
       file.path().string(), key, wanted, value ? "'" + std::string(*value) + "'" : "none");
}

void require_keys(const GgufFile& file, const ModelConfig& config) {
  require_text(file, kType, kIsAdapter);
  require_text(file, kAdapterType, kIsLora);
  const auto architecture = file.text(kArchitecture);
  require(architecture && *architecture == gguf_architecture(config),
          "adapter '{}': it is for the architecture '{}', but the base model's is '{}'",
          file.path().string(), architecture.value_or(""), gguf_architecture(config));
  for (const GgufFile::Entry& entry : file.metadata()) {
    if (!entry.key.starts_with("adapter.") || entry.key == kAdapterType || entry.key == kAlpha)
      continue;
    if (std::ranges::find(kDescriptive, entry.key) != std::end(kDescriptive)) continue;
    fail(ErrorCode::unsupported, "adapter '{}': {} = {} is not supported{}", file.path().string(),
         entry.key, entry.value.summary(),
         entry.key == kInvocationTokens ? " (an adapter that is active only after these tokens)"
                                        : "");
  }
}

// The tensors of the file that belong to no matrix of the model.
void refuse_other_tensors(const GgufFile& file, const GgufMatrices& matrices) {
  std::set<std::string_view> names;
  for (const auto& [path, matrix] : matrices) names.insert(matrix.name);
  for (const GgufTensor& tensor : file.tensors()) {
    const bool is_pair = tensor.name.ends_with(kSuffixA) || tensor.name.ends_with(kSuffixB);
    if (!is_pair) {
      fail(ErrorCode::unsupported,
           "adapter '{}': tensor '{}' is not supported; only NAME{} and NAME{} are",
           file.path().string(), tensor.name, kSuffixA, kSuffixB);
    }
    require(names.contains(tensor.name.substr(0, tensor.name.size() - kSuffixA.size())),
            "adapter '{}': tensor '{}' matches no matrix of this base model; is it an adapter for "
            "another model?",
            file.path().string(), tensor.name);
  }
}

const GgufTensor& tensor_named(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    fail(ErrorCode::invalid_file, "adapter '{}': tensor '{}' is missing", file.path().string(),
         name);
  }
  if (!tensor->type) {
    fail(ErrorCode::unsupported, "adapter '{}': tensor '{}' is {}, which is not supported",
         file.path().string(), name, ggml_type_name(tensor->type_number));
  }
  return *tensor;
}

// The tensors of the matrices, of which one may hold several experts.
struct StoredPair {
  const GgufTensor* a = nullptr;
  const GgufTensor* b = nullptr;
  std::int64_t rank = 0;
};

// ggml drops leading dimensions of 1.
bool has_shape(const GgufTensor& tensor, const Shape& wanted) {
  const int missing = wanted.rank() - tensor.shape.rank();
  if (missing < 0) return false;
  for (int d = 0; d < wanted.rank(); ++d) {
    if (wanted[d] != (d < missing ? 1 : tensor.shape[d - missing])) return false;
  }
  return true;
}

void require_shape(const GgufFile& file, const GgufTensor& tensor, const Shape& wanted) {
  if (has_shape(tensor, wanted)) return;
  fail(ErrorCode::invalid_file,
       "adapter '{}': tensor '{}' must be {} to fit the base model and the rank, got {}",
       file.path().string(), tensor.name, wanted.text(), tensor.shape.text());
}

Shape with_stack(const GgufMatrix& matrix, std::int64_t rows, std::int64_t columns) {
  if (matrix.stack.count == 0) return {rows, columns};
  return {matrix.stack.count, rows, columns};
}

StoredPair pair_of(const GgufFile& file, const GgufMatrix& matrix, const AdapterSite& site) {
  StoredPair pair{&tensor_named(file, matrix.name + std::string(kSuffixA)),
                  &tensor_named(file, matrix.name + std::string(kSuffixB))};
  pair.rank = pair.b->shape.rank() == 0 ? 0 : pair.b->shape[pair.b->shape.rank() - 1];
  if (pair.rank < 1 || pair.rank > Adapter::kMaxRank) {
    fail(ErrorCode::invalid_file, "adapter '{}': the rank of '{}' must be from 1 to {}, got {}",
         file.path().string(), pair.b->name, Adapter::kMaxRank, pair.rank);
  }
  require_shape(file, *pair.a,
                is_embedding(site.path) ? Shape{site.inputs, pair.rank}
                                        : with_stack(matrix, pair.rank, site.inputs));
  require_shape(file, *pair.b, with_stack(matrix, site.outputs, pair.rank));
  return pair;
}

// All values of one expert of a stack, or of a tensor without a stack.
std::vector<float> values_of_part(const GgufFile& file, const GgufTensor& tensor,
                                  const GgufMatrix& matrix) {
  const std::int64_t parts = std::max<std::int64_t>(matrix.stack.count, 1);
  const std::size_t bytes = tensor.bytes.size() / static_cast<std::size_t>(parts);
  std::vector<float> values =
      to_float(*tensor.type,
               tensor.bytes.subspan(static_cast<std::size_t>(matrix.stack.index) * bytes, bytes),
               static_cast<std::size_t>(tensor.shape.elements() / parts));
  const auto at = first_not_finite(values);
  if (!at) return values;
  fail(ErrorCode::invalid_file,
       "adapter '{}': tensor '{}' contains {} at element {}; is the file damaged?",
       file.path().string(), tensor.name, name_of_not_finite(values[*at]), *at);
}

// out[row, column] = in[row_of(row), column_of(column)]
template <class RowOf, class ColumnOf>
std::vector<float> reordered(const std::vector<float>& in, std::int64_t columns,
                             const RowOf& row_of, const ColumnOf& column_of) {
  std::vector<float> out(in.size());
  const std::int64_t rows = std::ssize(in) / columns;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      out[static_cast<std::size_t>(r * columns + c)] =
          in[static_cast<std::size_t>(row_of(r) * columns + column_of(c))];
    }
  }
  return out;
}

ModuleValues read_module(const GgufFile& file, const GgufMatrix& matrix, const AdapterSite& site,
                         float alpha) {
  const StoredPair pair = pair_of(file, matrix, site);
  const auto same = [](std::int64_t index) { return index; };
  std::vector<float> a = values_of_part(file, *pair.a, matrix);
  if (is_embedding(site.path)) a = transposed(a, site.inputs, pair.rank);
  a = reordered(a, site.inputs, same, [&](std::int64_t k) { return gguf_column(matrix, k); });
  std::vector<float> b = reordered(
      values_of_part(file, *pair.b, matrix), pair.rank,
      [&](std::int64_t n) { return gguf_row(matrix, n); }, same);
  const float scale = alpha == 0 ? 1 : alpha / static_cast<float>(pair.rank);
  return {site, pair.rank, scale, std::move(a), std::move(b), {}};
}

float alpha_in(const GgufFile& file) {
  const auto alpha = static_cast<float>(file.number(kAlpha).value_or(0));
  if (!all_finite(std::span(&alpha, 1))) {
    fail(ErrorCode::invalid_file, "adapter '{}': {} must be finite", file.path().string(), kAlpha);
  }
  return alpha;
}

// llama.cpp would apply them to both uses of a matrix that is embeddings and head.
void refuse_tied_ends(const GgufFile& file, const ModelConfig& config,
                      const std::string& matrix_name, std::string_view path) {
  const bool is_end = path == kEmbeddingsPath || path == kHeadPath;
  if (!is_end || !config.has_head || !config.tied_head) return;
  fail(
      ErrorCode::unsupported,
      "adapter '{}': matrices of '{}' are not supported for a model with one matrix for embeddings "
      "and head",
      file.path().string(), matrix_name);
}

}  // namespace

AdapterValues read_gguf_adapter(const std::filesystem::path& path, const ModelConfig& config) {
  const GgufFile file = GgufFile::open(path);
  require_keys(file, config);
  const GgufMatrices matrices = gguf_matrices(config);
  refuse_other_tensors(file, matrices);
  const float alpha = alpha_in(file);
  std::vector<ModuleValues> modules;
  for (const AdapterSite& site : all_adapter_sites(config)) {
    const auto matrix = matrices.find(site.path);
    if (matrix == matrices.end()) continue;
    const std::string& name = matrix->second.name;
    if (file.find_tensor(name + std::string(kSuffixA)) == nullptr &&
        file.find_tensor(name + std::string(kSuffixB)) == nullptr)
      continue;
    refuse_tied_ends(file, config, name, site.path);
    modules.push_back(read_module(file, matrix->second, site, alpha));
  }
  return adapter_of_found(std::move(modules), config, {.source = path.string(), .alpha = alpha});
}

}  // namespace clora
