#include "model/generation/grammar/token_trie.hpp"

#include <algorithm>

#include "clora/model/generation/grammar/grammar_vocabulary.hpp"
#include "model/text/utf8.hpp"

namespace clora::grammar {
namespace {

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const std::size_t size = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first -
      a.begin());
}

bool begins_character(std::uint8_t byte) { return (byte & 0xC0U) != 0x80U; }

}  // namespace

bool is_plain_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    const bool breaks_line = c.code_point == 0x2028 || c.code_point == 0x2029;
    if (c.code_point < 0x20 || c.code_point == '"' || c.code_point == '\\' || breaks_line)
      return false;
    at += c.length;
  }
  return true;
}

TokenTrie::TokenTrie(const Tokenizer& tokenizer)
    : bytes_(static_cast<std::size_t>(tokenizer.vocabulary_size())),
      end_ids_(tokenizer.end_of_generation()) {
  std::vector<std::int32_t> plain, other;
  for (std::int32_t id = 0; id < vocabulary_size(); ++id) {
    if (tokenizer.is_special(id) || tokenizer.token_bytes(id).empty()) continue;
    bytes_[static_cast<std::size_t>(id)] = tokenizer.token_bytes(id);
    (is_plain_text(bytes(id)) ? plain : other).push_back(id);
  }
  add_tree(std::move(plain));
  add_tree(std::move(other));
  nodes_.push_back({.first_token = static_cast<std::uint32_t>(tokens_.size())});
  count_characters();
}

// The ids are sorted by their bytes, so that each differs from the one before in its last nodes.
void TokenTrie::add_tree(std::vector<std::int32_t> ids) {
  std::ranges::stable_sort(ids, {},
                           [&](std::int32_t id) -> const std::string& { return bytes(id); });
  std::vector<NodeId> path;  // from the root to the last node
  const auto open = [&](std::uint8_t byte) {
    nodes_.push_back({.byte = byte,
                      .depth = static_cast<std::uint32_t>(path.size()),
                      .first_token = static_cast<std::uint32_t>(tokens_.size())});
    path.push_back(static_cast<NodeId>(nodes_.size() - 1));
  };
  const auto close_to = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].end = static_cast<NodeId>(nodes_.size());
  };
  open(0);
  std::string_view before;
  for (const std::int32_t id : ids) {
    const std::string& now = bytes(id);
    const std::size_t common = common_prefix(before, now);
    close_to(common + 1);
    for (std::size_t at = common; at < now.size(); ++at) open(static_cast<std::uint8_t>(now[at]));
    tokens_.push_back(id);
    before = now;
  }
  close_to(0);
}

// From the last node to the first, so that the nodes below come before the one above.
void TokenTrie::count_characters() {
  for (NodeId id = other_root(); id-- > 0;) {
    std::uint32_t most = 0;
    for (NodeId child = id + 1; child < nodes_[id].end; child = nodes_[child].end)
      most = std::max(
          most, nodes_[child].characters_below + (begins_character(nodes_[child].byte) ? 1U : 0U));
    nodes_[id].characters_below = most;
  }
}

}  // namespace clora::grammar

namespace clora {

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer)
    : trie_(std::make_shared<const grammar::TokenTrie>(tokenizer)) {}

std::int32_t GrammarVocabulary::size() const { return trie_->vocabulary_size(); }

const std::vector<std::int32_t>& GrammarVocabulary::end_ids() const { return trie_->end_ids(); }

}  // namespace clora
