// Symbol merging for both tokenizers: in a row of symbols, the best adjacent pair is merged until
// no pair can be merged.
//
//   find_merge(left, right) -> SymbolMerge; id < 0: the pair is not merged
//
// The highest priority is merged first, the leftmost of equal ones. Short rows are scanned, long
// ones use a heap; both give the same symbols.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

namespace clora {

struct Symbol {
  std::uint32_t offset, length;  // bytes of the text
  std::int32_t id;               // token, or -1: no token has this text
};

struct SymbolMerge {
  std::int32_t id = -1;
  float priority = 0;
};

namespace merging {

inline Symbol joined(const Symbol& left, const Symbol& right, std::int32_t id) {
  return {left.offset, left.length + right.length, id};
}

// O(n^2) with a small constant: each round scans all pairs, but looks up only two new merges.
template <class FindMerge>
void scan(std::vector<Symbol>& symbols, const FindMerge& find_merge) {
  static thread_local std::vector<SymbolMerge> merges;  // merges[i]: of symbols i and i + 1
  merges.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    merges.push_back(find_merge(symbols[i], symbols[i + 1]));
  }
  while (!merges.empty()) {
    std::size_t best = merges.size();
    for (std::size_t i = 0; i < merges.size(); ++i) {
      if (merges[i].id < 0) continue;
      if (best == merges.size() || merges[i].priority > merges[best].priority) best = i;
    }
    if (best == merges.size()) return;
    symbols[best] = joined(symbols[best], symbols[best + 1], merges[best].id);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    merges.erase(merges.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) merges[best - 1] = find_merge(symbols[best - 1], symbols[best]);
    if (best < merges.size()) merges[best] = find_merge(symbols[best], symbols[best + 1]);
  }
}

struct Candidate {
  float priority;
  std::int32_t left, right, id;
  std::uint32_t length;  // of both together when it was found: detects an outdated candidate

  bool operator<(const Candidate& other) const {
    return priority != other.priority ? priority < other.priority : left > other.left;
  }
};

// O(n log n): a linked list and a heap; outdated candidates are skipped when popped.
template <class FindMerge>
class HeapMerging {
 public:
  HeapMerging(std::vector<Symbol>& symbols, const FindMerge& find_merge)
      : symbols_(symbols), find_merge_(find_merge), next_(symbols.size()), prev_(symbols.size()) {
    const auto n = static_cast<std::int32_t>(symbols.size());
    for (std::int32_t i = 0; i < n; ++i) {
      prev_[at(i)] = i - 1;
      next_[at(i)] = i + 1 < n ? i + 1 : -1;
    }
    for (std::int32_t i = 0; i + 1 < n; ++i) push(i, i + 1);
  }

  void run() {
    while (!heap_.empty()) {
      const Candidate c = heap_.top();
      heap_.pop();
      if (next_[at(c.left)] != c.right || length(c.left) + length(c.right) != c.length) continue;
      merge(c);
    }
    compact();
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::uint32_t length(std::int32_t i) const { return symbols_[at(i)].length; }

  void push(std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const SymbolMerge m = find_merge_(symbols_[at(left)], symbols_[at(right)]);
    if (m.id >= 0) heap_.push({m.priority, left, right, m.id, length(left) + length(right)});
  }

  void merge(const Candidate& c) {
    symbols_[at(c.left)] = joined(symbols_[at(c.left)], symbols_[at(c.right)], c.id);
    symbols_[at(c.right)].length = 0;  // merged away
    const std::int32_t after = next_[at(c.right)];
    next_[at(c.left)] = after;
    next_[at(c.right)] = -1;
    if (after >= 0) prev_[at(after)] = c.left;
    push(prev_[at(c.left)], c.left);
    push(c.left, after);
  }

  void compact() {
    std::size_t kept = 0;
    for (std::int32_t i = 0; i >= 0; i = next_[at(i)]) symbols_[kept++] = symbols_[at(i)];
    symbols_.resize(kept);
  }

  std::vector<Symbol>& symbols_;
  const FindMerge& find_merge_;
  std::vector<std::int32_t> next_, prev_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace merging

constexpr std::size_t kScanLimit = 48;  // symbols; above it the heap is faster

// Merges `symbols` in place. Rows of up to scan_limit symbols are scanned; tests change it.
template <class FindMerge>
void merge_symbols(std::vector<Symbol>& symbols, const FindMerge& find_merge,
                   std::size_t scan_limit = kScanLimit) {
  if (symbols.size() < 2) return;
  if (symbols.size() <= scan_limit) {
    merging::scan(symbols, find_merge);
  } else {
    merging::HeapMerging<FindMerge>(symbols, find_merge).run();
  }
}

}  // namespace clora
