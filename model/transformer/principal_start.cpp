#include "clora/model/transformer/principal_start.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lora/end_modules.hpp"
#include "lora/truncated_svd.hpp"
#include "model/weights/stored_order.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

using Eigen::MatrixXd;

// The base model's weight [N, K], as Hugging Face has it.
MatrixXd weight_of(const LanguageModel& model, const AdapterSite& site) {
  const std::vector<WeightView>& stored = model.stored_weights();
  const bool is_tied = model.config().tied_head && site.path == kHeadPath;
  const std::string name = fmt::format("{}.weight", is_tied ? kEmbeddingsPath : site.path);
  const auto view = std::ranges::find(stored, name, &WeightView::name);
  require(view != stored.end() && view->shape == Shape{site.outputs, site.inputs},
          "initialise_principal: the model stores no weight '{}' [{}, {}]; leave the module out of "
          "the target modules",
          name, site.outputs, site.inputs);
  const std::vector<float> values = hugging_face_values(*view);
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const RowMajor>(values.data(), site.outputs, site.inputs).cast<double>();
}

// scale * b at^T approximates the weight.
LowRank first_matrices(const MatrixXd& weight, std::int64_t rank, double scale,
                       PrincipalStart start) {
  if (start == PrincipalStart::olora) {
    MatrixXd q = orthonormal_basis(weight.leftCols(rank));
    MatrixXd at = weight.transpose() * q;
    return {.b = std::move(q), .at = std::move(at)};
  }
  LowRank product = truncated(leading_decomposition(weight, rank), rank);
  product.b /= std::sqrt(scale);
  product.at /= std::sqrt(scale);
  return product;
}

// Writes the columns to the first rows of `to` [2 R, M], and factor times them to the others.
void write_twice(Context& context, const Tensor& to, const MatrixXd& columns, double factor) {
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(to.elements()));
  for (const double times : {1.0, factor}) {
    for (Eigen::Index r = 0; r < columns.cols(); ++r) {
      for (const double x : columns.col(r)) values.push_back(static_cast<float>(times * x));
    }
  }
  context.write(to, std::as_bytes(std::span(values)));
}

}  // namespace

std::optional<PrincipalStart> principal_start_of(std::string_view name) {
  if (name == "pissa") return PrincipalStart::pissa;
  if (name == "olora") return PrincipalStart::olora;
  return std::nullopt;
}

void check_principal_start(const Adapter& adapter) {
  const auto refuse = [](std::string_view what) {
    fail(ErrorCode::unsupported,
         "adapter: a start with principal components of the weights, which PiSSA and OLoRA have, "
         "is not supported with {}",
         what);
  };
  if (adapter.config().use_dora) refuse("DoRA");
  if (adapter.config().dropout > 0) refuse("dropout, which would also drop parts of the weights");
  for (const AdapterModule& module : adapter.modules()) {
    const AdapterSite& site = module.site;
    const std::int64_t rank = module.rank;
    if (is_embedding(site.path)) refuse("token embeddings");
    const std::int64_t most = 2 * std::min(site.inputs, site.outputs);
    if (rank % 2 != 0 || rank > most) {
      refuse(fmt::format("{} ranks of {}: they must be even, half of them new, and at most {}",
                         rank, site.path, most));
    }
  }
}

void initialise_principal(const LanguageModel& model, Adapter& adapter, PrincipalStart start) {
  check_principal_start(adapter);
  Context& context = adapter.context();
  if (context.config().dry_run) return;
  for (const AdapterModule& module : adapter.modules()) {
    const LowRank first = first_matrices(weight_of(model, module.site), module.rank / 2,
                                         static_cast<double>(module.scale), start);
    const LoraWeights weights = adapter.weights(module.site.path);
    write_twice(context, weights.a, first.at, 1);
    write_twice(context, weights.bt, first.b, -1);
  }
}

}  // namespace clora
