#include "tools/clora/loaded_model.hpp"

#include <algorithm>
#include <chrono>

#include "lora/peft_files.hpp"

namespace clora {
namespace {

std::unique_ptr<Context> make_context(const CommonOptions& options) {
  auto context = std::make_unique<Context>(context_config(options));
  require_precision(options, context->device());
  return context;
}

}  // namespace

LoadedModel::LoadedModel(const CommonOptions& options, Output& output)
    : context_(make_context(options)), files_(WeightFiles::open(options.model)) {
  const auto started = std::chrono::steady_clock::now();
  model_ = std::make_unique<LanguageModel>(*context_, files_);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  output.detail("{}: {} of weights to '{}' in {:.2f} s", options.model,
                readable_bytes(static_cast<double>(model_->weight_bytes())),
                context_->device().name, taken.count());
}

std::optional<Adapter> LoadedModel::adapter(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  return load_adapter(*context_, folder, adapter_sites(model_->config()));
}

std::vector<std::int32_t> LoadedModel::end_ids(const ModelText& text) const {
  std::vector<std::int32_t> ids = model_->config().eos_ids;
  if (text.has_tokenizer()) {
    const auto& more = text.tokenizer().end_of_generation();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

void LoadedModel::print_profile() {
  if (!context_->profiling()) return;
  const std::string table = context_->profiler().table();
  std::fwrite(table.data(), 1, table.size(), stderr);
}

}  // namespace clora
