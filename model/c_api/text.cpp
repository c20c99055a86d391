// clora.h: tokenizers and decoders.
#include <span>
#include <vector>

#include "clora/model/text/tokenizer_files.hpp"
#include "clora/runtime/files/json.hpp"
#include "model/c_api/boundary.hpp"
#include "model/c_api/handles.hpp"
#include "model/data/conversation.hpp"
#include "runtime/fail.hpp"

namespace clora::c_api {
namespace {

// A tokenizer without a known chat template is still usable; encode_chat() reports the reason.
void find_chat_template(clora_tokenizer& result) {
  if (result.tokenizer.chat_template().empty()) {
    result.chat_template_problem = "the model's files contain no chat template";
    return;
  }
  try {
    result.chat_template = ChatTemplate::of_model(result.tokenizer);
  } catch (const Error& error) {
    result.chat_template_problem = error.what();
  }
}

const Tokenizer& tokenizer_of(const clora_tokenizer* tokenizer, std::string_view who) {
  require_given(tokenizer, who, "tokenizer");
  return tokenizer->tokenizer;
}

std::vector<ChatMessage> messages_of(const clora_chat_message* messages, std::size_t count,
                                     std::string_view who) {
  std::vector<ChatMessage> turns;
  for (const clora_chat_message& message : std::span(messages, count)) {
    require_given(message.role, who, "a message's role");
    require_given(message.content, who, "a message's content");
    turns.push_back({message.role, message.content});
  }
  return turns;
}

const ChatTemplate& template_of(const clora_tokenizer& tokenizer, std::string_view who) {
  if (!tokenizer.chat_template.has_value())
    fail(ErrorCode::unsupported, "{}: {}", who, tokenizer.chat_template_problem);
  return *tokenizer.chat_template;
}

using Json = nlohmann::ordered_json;

// Of an object: more would take time quadratic in their number.
constexpr std::size_t kMaxKeys = 1024;

// Errors: invalid_argument for a key that is not read: it would change what the caller expects.
void require_known_keys(const Json& conversation, std::string_view who) {
  require(conversation.is_object(), "{}: the conversation must be a JSON object", who);
  for (const auto& [key, value] : conversation.items()) {
    const bool known = key == "messages" || key == "tools" || key == "chat_template_kwargs" ||
                       key == "add_generation_prompt";
    require(known, "{}: unknown key '{}' of the conversation", who, key);
  }
}

// The conversation as records of data have it. Errors: invalid_argument with the reason.
Conversation conversation_of(const Json& conversation, const ChatSupport& support,
                             std::string_view who) {
  try {
    return fitted(
        {.messages = clora::messages_of(conversation.value("messages", Json()), "messages"),
         .tools = tools_of(conversation),
         .arguments = arguments_of(conversation)},
        support);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_data) throw;
    fail(ErrorCode::invalid_argument, "{}: {}", who, error.what());
  }
}

std::vector<std::int32_t> encode_json(const clora_tokenizer& tokenizer, std::string_view text,
                                      std::string_view who) {
  const Json object = parse_json<Json>(text, who, {.keys = kMaxKeys});
  require_known_keys(object, who);
  const ChatTemplate& chat = template_of(tokenizer, who);
  Conversation conversation = conversation_of(object, chat.support(), who);
  const Json opens = object.value("add_generation_prompt", Json(true));
  require(opens.is_boolean(), "{}: \"add_generation_prompt\" must be true or false", who);
  return chat
      .encode(conversation.messages,
              {.add_generation_prompt = opens.get<bool>(),
               .tools = std::move(conversation.tools),
               .arguments = std::move(conversation.arguments)},
              tokenizer.tokenizer)
      .ids;
}

clora_decoder& decoder_of(clora_decoder* decoder, const char** text, std::string_view who) {
  require_given(decoder, who, "decoder");
  require_given(text, who, "text");
  return *decoder;
}

}  // namespace
}  // namespace clora::c_api

using namespace clora;
using namespace clora::c_api;

clora_status clora_tokenizer_load(const char* path, clora_tokenizer** tokenizer) {
  constexpr std::string_view kWho = "clora_tokenizer_load";
  return guarded_create(tokenizer, kWho, [&] {
    require_given(path, kWho, "path");
    auto result = std::make_unique<clora_tokenizer>(load_tokenizer(path));
    find_chat_template(*result);
    return result.release();
  });
}

void clora_tokenizer_release(clora_tokenizer* tokenizer) { delete tokenizer; }

clora_status clora_tokenizer_get_info(const clora_tokenizer* tokenizer,
                                      clora_tokenizer_info* info) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_get_info";
    const Tokenizer& own = tokenizer_of(tokenizer, kWho);
    clora_tokenizer_info result{};
    result.vocabulary = own.vocabulary_size();
    result.bos_id = own.bos().value_or(-1);
    result.eos_id = own.eos().value_or(-1);
    result.adds_bos = own.adds_bos() ? 1 : 0;
    result.has_chat_template = tokenizer->chat_template.has_value() ? 1 : 0;
    write_struct(info, result, kWho);
  });
}

clora_status clora_tokenizer_encode(const clora_tokenizer* tokenizer, const char* text,
                                    size_t text_bytes, int32_t parse_special, int32_t* ids,
                                    size_t capacity, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_encode";
    const Tokenizer& own = tokenizer_of(tokenizer, kWho);
    if (text_bytes > 0) require_given(text, kWho, "text");
    const std::string_view view = text_bytes > 0 ? std::string_view(text, text_bytes) : "";
    write_array(own.encode(view, {.parse_special = parse_special != 0}), ids, capacity, count,
                kWho);
  });
}

clora_status clora_tokenizer_encode_chat(const clora_tokenizer* tokenizer,
                                         const clora_chat_message* messages, size_t message_count,
                                         int32_t* ids, size_t capacity, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_encode_chat";
    const Tokenizer& own = tokenizer_of(tokenizer, kWho);
    if (message_count > 0) require_given(messages, kWho, "messages");
    const ChatTemplate& chat = template_of(*tokenizer, kWho);
    const auto turns = messages_of(messages, message_count, kWho);
    write_array(chat.encode(turns, true, own).ids, ids, capacity, count, kWho);
  });
}

clora_status clora_tokenizer_encode_chat_json(const clora_tokenizer* tokenizer,
                                              const char* conversation, size_t conversation_bytes,
                                              int32_t* ids, size_t capacity, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_encode_chat_json";
    tokenizer_of(tokenizer, kWho);
    require_given(conversation, kWho, "conversation");
    const std::string_view text(conversation, conversation_bytes);
    write_array(encode_json(*tokenizer, text, kWho), ids, capacity, count, kWho);
  });
}

clora_status clora_tokenizer_decode(const clora_tokenizer* tokenizer, const int32_t* ids,
                                    size_t id_count, int32_t keep_special, char* text,
                                    size_t capacity, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_decode";
    const Tokenizer& own = tokenizer_of(tokenizer, kWho);
    if (id_count > 0) require_given(ids, kWho, "ids");
    write_array(own.decode(std::span(ids, id_count), {.keep_special = keep_special != 0}), text,
                capacity, count, kWho);
  });
}

clora_status clora_tokenizer_end_ids(const clora_tokenizer* tokenizer, int32_t* ids,
                                     size_t capacity, size_t* count) {
  return guarded([&] {
    constexpr std::string_view kWho = "clora_tokenizer_end_ids";
    write_array(tokenizer_of(tokenizer, kWho).end_of_generation(), ids, capacity, count, kWho);
  });
}

clora_status clora_decoder_create(const clora_tokenizer* tokenizer, int32_t keep_special,
                                  clora_decoder** decoder) {
  constexpr std::string_view kWho = "clora_decoder_create";
  return guarded_create(decoder, kWho, [&] {
    return new clora_decoder{StreamDecoder(tokenizer_of(tokenizer, kWho), keep_special != 0), {}};
  });
}

clora_status clora_decoder_push(clora_decoder* decoder, int32_t id, const char** text) {
  return guarded([&] {
    clora_decoder& own = decoder_of(decoder, text, "clora_decoder_push");
    own.text = own.decoder.push(id);
    *text = own.text.c_str();
  });
}

clora_status clora_decoder_finish(clora_decoder* decoder, const char** text) {
  return guarded([&] {
    clora_decoder& own = decoder_of(decoder, text, "clora_decoder_finish");
    own.text = own.decoder.finish();
    *text = own.text.c_str();
  });
}

void clora_decoder_release(clora_decoder* decoder) { delete decoder; }
