// GrammarState of token_grammar.hpp.
#include <algorithm>

#include "model/generation/grammar/compiled_grammar.hpp"
#include "model/generation/grammar/mask_walk.hpp"
#include "runtime/fail.hpp"

namespace clora {

using grammar::MaskWalk;
using grammar::Position;
using grammar::Positions;
using grammar::Stacks;

struct GrammarState::Progress {
  std::shared_ptr<const TokenGrammar> of;
  std::vector<std::int32_t> end_ids;
  Stacks stacks;
  Positions positions;  // not expanded
  bool is_complete = false;
  bool has_ended = false;  // by an end token

  grammar::CompiledGrammar& compiled() const { return *of->compiled_; }
  bool is_end(std::int32_t id) const { return std::ranges::find(end_ids, id) != end_ids.end(); }

  // Takes over positions, whose frames are in `from`.
  void move_to(const Stacks& from, Positions to) {
    stacks = from;
    positions = std::move(to);
    stacks.compact(positions);
    Stacks scratch = stacks;
    Positions expanded = positions;
    scratch.expand(expanded);
    is_complete = expanded.left;
  }

  // The positions after a text, with their frames in `frames`; none if it may not follow.
  Positions after(const std::string& text, Stacks& frames) const {
    Positions now = positions, next;
    if (text.empty() || has_ended) return {};
    for (const char c : text) {
      frames.expand(now);
      frames.step(now, static_cast<std::uint8_t>(c), next);
      std::swap(now, next);
      if (now.empty()) break;
    }
    return now;
  }

  void add_tokens_after(const Position& position, Stacks& frames, MaskWalk& walk,
                        std::span<std::uint32_t> mask) const;
};

// The kept mask of the position's state has all tokens except those that end in another rule than
// they begin in, and those that follow if the rule ends here.
void GrammarState::Progress::add_tokens_after(const Position& position, Stacks& frames,
                                              MaskWalk& walk, std::span<std::uint32_t> mask) const {
  const bool with_caller =
      compiled().automaton.is_in_fragment(position.state) && position.frame != Stacks::kBottom;
  const grammar::FrameId frame = with_caller ? frames.parent(position.frame) : position.frame;
  std::optional<grammar::StateId> return_state;
  if (with_caller) return_state = frames.return_state(position.frame);
  const auto kept = compiled().masks.mask_of(position.state, return_state);
  if (frames.depth(frame) + kept->depth_used() > grammar::kMaxDepth)
    return walk.run_all({.list = {position}}, mask, nullptr);
  kept->add_to(mask);
  if (frame == Stacks::kBottom) return;
  Positions returned;
  frames.add({frames.return_state(frame), frames.parent(frame)}, returned);
  walk.run(kept->exits(), returned, mask, nullptr);
  if (!kept->may_leave()) return;
  for (const Position& next : returned.list) add_tokens_after(next, frames, walk, mask);
}

GrammarState::GrammarState(std::shared_ptr<const TokenGrammar> of,
                           std::optional<std::vector<std::int32_t>> end_ids) {
  require(of != nullptr, "grammar: a grammar is needed, got none");
  const grammar::CompiledGrammar& compiled = *of->compiled_;
  const GrammarVocabulary& vocabulary = compiled.vocabulary;
  if (!end_ids) end_ids = vocabulary.end_ids();
  for (const std::int32_t id : *end_ids) {
    require(id >= 0 && id < vocabulary.size(),
            "grammar: an end token must be one of {} tokens, got {}", vocabulary.size(), id);
  }
  Stacks stacks(compiled.automaton);
  progress_ = std::make_unique<Progress>(
      Progress{std::move(of), std::move(*end_ids), stacks, {}, false, false});
  Positions start;
  stacks.add({compiled.automaton.start(), Stacks::kBottom}, start);
  progress_->move_to(stacks, std::move(start));
}

GrammarState::~GrammarState() = default;
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;
GrammarState::GrammarState(const GrammarState& other)
    : progress_(std::make_unique<Progress>(*other.progress_)) {}
GrammarState& GrammarState::operator=(const GrammarState& other) {
  if (this != &other) progress_ = std::make_unique<Progress>(*other.progress_);
  return *this;
}

bool GrammarState::allows(std::int32_t id) const {
  if (id < 0 || id >= progress_->of->vocabulary().size()) return false;
  if (progress_->is_end(id)) return is_complete();
  Stacks frames = progress_->stacks;
  return !progress_->after(progress_->compiled().vocabulary.trie().bytes(id), frames).empty();
}

void GrammarState::accept(std::int32_t id) {
  const GrammarVocabulary& vocabulary = progress_->of->vocabulary();
  require(id >= 0 && id < vocabulary.size(), "grammar: a token must be one of {}, got {}",
          vocabulary.size(), id);
  const std::string& text = vocabulary.trie().bytes(id);
  if (progress_->is_end(id)) {
    require(is_complete(), "grammar: the reply must be complete before end token {}", id);
    progress_->has_ended = true;
    return;
  }
  Stacks frames = progress_->stacks;
  Positions next = progress_->after(text, frames);
  require(!next.empty(), "grammar: token {} may not come next; take one of write_mask()", id);
  progress_->move_to(frames, std::move(next));
}

void GrammarState::write_mask(std::span<std::uint32_t> mask) const {
  const std::int32_t size = progress_->of->vocabulary().size();
  const std::size_t words = (static_cast<std::size_t>(size) + 31) / 32;
  require(mask.size() >= words, "grammar: a mask of {} tokens must have {} words, got {}", size,
          words, mask.size());
  std::ranges::fill(mask, 0U);
  Stacks frames = progress_->stacks;
  const grammar::CompiledGrammar& compiled = progress_->compiled();
  MaskWalk walk(compiled.automaton, compiled.vocabulary.trie(), frames);
  if (!progress_->has_ended) {
    for (const Position& position : progress_->positions.list)
      progress_->add_tokens_after(position, frames, walk, mask);
  }
  for (const std::int32_t id : progress_->end_ids) {
    const auto bit = static_cast<std::uint32_t>(id);
    mask[bit / 32] &= ~(1U << (bit % 32));
    if (is_complete()) grammar::mark(mask, id);
  }
  const bool is_empty = std::ranges::all_of(mask, [](std::uint32_t word) { return word == 0; });
  if (is_empty && !is_complete()) {
    fail(ErrorCode::unsupported,
         "grammar: the vocabulary must have a token for each single byte, and has none that may "
         "come next; use another tokenizer");
  }
}

bool GrammarState::is_complete() const noexcept { return progress_->is_complete; }

bool GrammarState::must_end() const noexcept {
  return progress_->has_ended || (progress_->is_complete && progress_->positions.list.empty());
}

}  // namespace clora
