#include "model/data/record_keys.hpp"

#include <algorithm>
#include <array>

#include "clora/runtime/files/json.hpp"

namespace clora {

namespace {

constexpr std::array<std::string_view, 18> kRecordKeys = {
    "tool_choice", "function_call", "documents", "images",         "image", "audio",
    "audios",      "videos",        "chosen",    "rejected",       "label", "labels",
    "input_ids",   "loss_mask",     "weight",    "attention_mask", "train", "train_on"};
constexpr std::array<std::string_view, 5> kConversationKeys = {"tools", "functions", "system",
                                                               "history", "chat_template_kwargs"};
constexpr std::size_t kMaxNames = 200;  // bytes

}  // namespace

bool is_blank(const RecordJson& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

const RecordJson* find_filled(const RecordJson& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  return found == object.end() || is_blank(*found) ? nullptr : &*found;
}

std::string string_of(const RecordJson& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end()) bad_record("\"{}\" is missing", key);
  if (!found->is_string()) {
    bad_record("\"{}\" must be a string, got {}", key, json_excerpt(*found));
  }
  return found->get<std::string>();
}

std::string filled_string_of(const RecordJson& object, std::string_view key) {
  std::string text = string_of(object, key);
  if (text.empty()) bad_record("\"{}\" is empty", key);
  return text;
}

std::string string_or_empty(const RecordJson& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  return found == object.end() || found->is_null() ? std::string() : string_of(object, key);
}

void refuse_keys(const RecordJson& object, std::span<const std::string_view> keys,
                 std::string_view where) {
  for (const std::string_view key : keys) {
    const RecordJson* const value = find_filled(object, key);
    if (value == nullptr) continue;
    bad_record(
        "\"{}\" of {} is not supported, got {}; remove it if the record does not depend on it", key,
        where, json_excerpt(*value));
  }
}

void refuse_keys_of_record(const RecordJson& record,
                           std::initializer_list<std::string_view> known) {
  for (const std::string_view key : kRecordKeys) {
    const bool is_known = std::ranges::find(known, key) != known.end();
    if (!is_known) refuse_keys(record, std::span(&key, 1), "a record");
  }
}

void refuse_keys_of_conversation(const RecordJson& record) {
  refuse_keys(record, kConversationKeys, "a record without messages");
}

std::string names_of_keys(const RecordJson& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : ", ") + key;
  if (keys.size() > kMaxNames) keys = keys.substr(0, kMaxNames) + "...";
  return keys.empty() ? "none" : keys;
}

}  // namespace clora
