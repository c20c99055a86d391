#include "tools/clora/adapters/validation_losses.hpp"

#include "clora/model/training/evaluator.hpp"

namespace clora {

ValidationLosses::ValidationLosses(const ResultOptions& options, Output& output,
                                   const std::string& model)
    : output_(&output) {
  if (options.data.data.empty()) return;
  CommonOptions common = options.common;
  if (!model.empty()) common.model = model;
  const ModelText text(common.model, options.data.chat_template);
  records_ = read_records(unweighted_files_of(options.data, "adapters"), options.data,
                          options.data.limit, text, output);
  loaded_ = std::make_unique<LoadedModel>(common, output, options.data.max_seq_length);
}

void ValidationLosses::add(const std::string& name, const std::string& folder) {
  if (loaded_ == nullptr) return;
  const std::optional<Adapter> adapter = loaded_->adapter(folder);
  const EvalResult result =
      Evaluator(loaded_->model(), adapter ? &*adapter : nullptr).evaluate(*records_);
  output_->result("loss {:.6f}  {}", result.loss, name);
  losses_.push_back({{"name", name}, {"loss", result.loss}});
}

void ValidationLosses::add_to(nlohmann::ordered_json& object) const {
  if (loaded_ == nullptr) return;
  for (const auto& loss : losses_) object["losses"].push_back(loss);
}

}  // namespace clora
