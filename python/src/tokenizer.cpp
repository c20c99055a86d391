// Tokenizers and chat templates. Texts that a decoder returns are bytes, since a token may be a
// part of a character.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/files/json.hpp"
#include "lora/hub_cache.hpp"
#include "model/data/conversation.hpp"
#include "python/src/bindings.hpp"
#include "python/src/text.hpp"
#include "runtime/fail.hpp"

namespace nb = nanobind;

namespace clora::python {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr const char* kSource = "apply_chat_template";

// The conversation of a JSON object with messages and, perhaps, tools and chat_template_kwargs.
Conversation conversation_in(const std::string& json, const ChatSupport& support) {
  const auto object = parse_json<nlohmann::ordered_json>(json, kSource);
  try {
    return fitted({.messages = messages_of(object.at("messages"), "messages"),
                   .tools = tools_of(object),
                   .arguments = arguments_of(object)},
                  support);
  } catch (const Error& error) {
    fail(ErrorCode::invalid_argument, "{}: {}", kSource, error.what());
  }
}

ChatOptions options_of(const Conversation& conversation, bool add_generation_prompt,
                       bool enable_thinking) {
  ChatOptions options{.add_generation_prompt = add_generation_prompt,
                      .enable_thinking = enable_thinking};
  if (!conversation.tools.is_null()) options.tools = conversation.tools;
  if (!conversation.arguments.is_null()) options.arguments = conversation.arguments;
  return options;
}

std::string render(const Text& self, const std::string& json, bool add_generation_prompt,
                   bool enable_thinking) {
  const ChatTemplate& chat = self.required_template();
  const Conversation conversation = conversation_in(json, chat.support());
  return chat
      .render(conversation.messages,
              options_of(conversation, add_generation_prompt, enable_thinking))
      .text;
}

Ids encode_chat(const Text& self, const std::string& json, bool add_generation_prompt,
                bool enable_thinking) {
  const ChatTemplate& chat = self.required_template();
  const Conversation conversation = conversation_in(json, chat.support());
  return chat
      .encode(conversation.messages,
              options_of(conversation, add_generation_prompt, enable_thinking), self.tokenizer)
      .ids;
}

Ids encode(const Text& self, const std::string& text, bool add_special_tokens, bool parse_special) {
  return self.tokenizer.encode(
      text, {.parse_special = parse_special,
             .add_bos = add_special_tokens ? AddBos::model_default : AddBos::no});
}

nb::bytes decode(const Text& self, const Ids& ids, bool skip_special_tokens) {
  const std::string text = self.tokenizer.decode(ids, {.keep_special = !skip_special_tokens});
  return nb::bytes(text.data(), text.size());
}

std::optional<ChatTemplate> chosen_template(const std::string& chosen, const Tokenizer& tokenizer) {
  if (chosen.empty()) return ChatTemplate::of_model(tokenizer);
  const auto names = chat_template_names();
  if (std::ranges::find(names, std::string_view(chosen)) != names.end()) {
    return ChatTemplate::named(chosen, tokenizer);
  }
  return ChatTemplate::parse(chosen, tokenizer);
}

}  // namespace

Text::Text(const std::string& model, const std::string& chosen)
    : tokenizer(load_tokenizer(resolve_hub_path(model))) {
  try {
    chat_template = chosen_template(chosen, tokenizer);
  } catch (const Error& error) {
    if (!chosen.empty()) throw;
    chat_template_problem = error.what();
  }
}

const ChatTemplate& Text::required_template() const {
  require(chat_template.has_value(),
          "{}: the model has no chat template that can be used ({}); "
          "give one by chat_template",
          kSource, chat_template_problem);
  return *chat_template;
}

void bind_tokenizer(nb::module_& module) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<Text>(module, "Text")
      .def("encode", &encode, nb::arg("text"), nb::arg("add_special_tokens"),
           nb::arg("parse_special"), Release())
      .def("decode", &decode, nb::arg("ids"), nb::arg("skip_special_tokens"))
      .def("render", &render, nb::arg("json"), nb::arg("add_generation_prompt"),
           nb::arg("enable_thinking"), Release())
      .def("encode_chat", &encode_chat, nb::arg("json"), nb::arg("add_generation_prompt"),
           nb::arg("enable_thinking"), Release())
      .def(
          "token_of",
          [](const Text& self, std::int32_t id) { return self.tokenizer.token_text(id); },
          nb::arg("id"))
      .def(
          "id_of",
          [](const Text& self, const std::string& token) { return self.tokenizer.id_of(token); },
          nb::arg("token"))
      .def_prop_ro("vocab_size", [](const Text& self) { return self.tokenizer.vocabulary_size(); })
      .def_prop_ro("bos", [](const Text& self) { return self.tokenizer.bos(); })
      .def_prop_ro("eos", [](const Text& self) { return self.tokenizer.eos(); })
      .def_prop_ro("end_ids", [](const Text& self) { return self.tokenizer.end_of_generation(); })
      .def_prop_ro("chat_template",
                   [](const Text& self) { return self.tokenizer.chat_template(); });
  module.def(
      "load_text",
      [](const std::string& model, const std::string& chat_template) {
        return std::make_shared<Text>(model, chat_template);
      },
      nb::arg("model"), nb::arg("chat_template"), Release());
}

}  // namespace clora::python
