// TokenTrie: the bytes of all tokens as a prefix tree, so that the tokens that a grammar allows are
// found by following each common beginning once. Immutable; thread-safe.
//
// There are two trees under one numbering. The first has the tokens that are plain text, the second
// all others: inside a string, the first need not be visited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "clora/model/text/tokenizer.hpp"

namespace clora::grammar {

using NodeId = std::uint32_t;

// Whole characters that a JSON string contains as they are, and no line breaks of Unicode.
bool is_plain_text(std::string_view text);

class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);

  std::int32_t vocabulary_size() const { return static_cast<std::int32_t>(bytes_.size()); }
  const std::vector<std::int32_t>& end_ids() const { return end_ids_; }
  // Of a token that is text; else empty.
  const std::string& bytes(std::int32_t id) const { return bytes_[static_cast<std::size_t>(id)]; }

  // Nodes are numbered in preorder. The roots have no byte.
  struct Node {
    std::uint8_t byte = 0;
    std::uint32_t depth = 0;        // bytes from the root
    NodeId end = 0;                 // after the last node below this one
    std::uint32_t first_token = 0;  // see tokens()
    // The most characters of a token below this node after it; in the first tree only.
    std::uint32_t characters_below = 0;
  };
  const Node& node(NodeId id) const { return nodes_[id]; }
  NodeId plain_root() const { return 0; }
  NodeId other_root() const { return nodes_[0].end; }
  bool is_plain(NodeId id) const { return id < other_root(); }
  bool has_children(NodeId id) const { return nodes_[id].end > id + 1; }

  // The tokens that end at the node; the tokens that end at it or below it.
  std::span<const std::int32_t> tokens(NodeId id) const { return tokens_between(id, id + 1); }
  std::span<const std::int32_t> tokens_in(NodeId id) const {
    return tokens_between(id, nodes_[id].end);
  }

 private:
  std::span<const std::int32_t> tokens_between(NodeId first, NodeId end) const {
    const std::uint32_t begin = nodes_[first].first_token;
    return std::span(tokens_).subspan(begin, nodes_[end].first_token - begin);
  }
  void add_tree(std::vector<std::int32_t> ids);
  void count_characters();

  std::vector<std::string> bytes_;
  std::vector<std::int32_t> end_ids_;
  std::vector<Node> nodes_;  // and one more, whose first_token is the number of tokens
  std::vector<std::int32_t> tokens_;
};

}  // namespace clora::grammar
