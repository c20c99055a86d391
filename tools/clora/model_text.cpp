#include "tools/clora/model_text.hpp"

#include <algorithm>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/model/weights/weights.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

bool is_chat_template_name(std::string_view name) {
  const auto names = chat_template_names();
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

ModelText::ModelText(const std::filesystem::path& model, const std::string& chat_template)
    : model_(model) {
  try {
    tokenizer_ = load_tokenizer(model);
  } catch (const Error& error) {
    if (!chat_template.empty()) throw;
    tokenizer_problem_ = error.what();
    template_problem_ = error.what();
    return;
  }
  find_template(chat_template);
}

void ModelText::find_template(const std::string& name) {
  if (!name.empty() && is_chat_template_name(name)) {
    template_ = ChatTemplate::named(name, *tokenizer_);
    return;
  }
  if (!name.empty()) {
    template_text_ = MappedFile::open(name).text();
    template_ = ChatTemplate::parse(template_text_, *tokenizer_);
    return;
  }
  try {
    template_ = ChatTemplate::of_model(*tokenizer_);
    template_text_ = tokenizer_->chat_template() + tokenizer_->tool_chat_template();
  } catch (const Error& error) {
    template_problem_ = fmt::format("{}: {}", model_.string(), error.what());
  }
}

// The weight files are memory-mapped, not read. Errors in them are reported when they are loaded.
std::int64_t ModelText::max_positions() const {
  try {
    return WeightFiles::open(model_).config().max_positions;
  } catch (const Error&) {
    return 0;
  }
}

std::vector<std::int32_t> ModelText::end_ids(const ModelConfig& config) const {
  std::vector<std::int32_t> ids = config.eos_ids;
  if (tokenizer_) {
    const auto& more = tokenizer_->end_of_generation();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

const Tokenizer& ModelText::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::unsupported, "{}", tokenizer_problem_);
  return *tokenizer_;
}

const ChatTemplate& ModelText::chat_template() const {
  if (!template_) fail(ErrorCode::unsupported, "{}", template_problem_);
  return *template_;
}

const ChatTemplate* ModelText::find_chat_template() const noexcept {
  return template_ ? &*template_ : nullptr;
}

}  // namespace clora
