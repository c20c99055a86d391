// ReplyText: the text of a reply as its tokens arrive, up to the first of its stop texts. Threads:
// one at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "clora/model/generation/stop_filter.hpp"
#include "clora/model/text/tokenizer.hpp"

namespace clora {

class ReplyText {
 public:
  // Without a tokenizer all texts are empty. REQUIRES: then there are no stop texts.
  ReplyText(const Tokenizer* tokenizer, std::vector<std::string> stop_texts);

  // Returns the text that is final with this token.
  std::string push(std::int32_t id);
  // Returns what was held back; nothing after a stop text.
  std::string finish();
  bool stopped() const { return filter_.stopped(); }

 private:
  std::optional<StreamDecoder> decoder_;
  StopFilter filter_;
};

}  // namespace clora
