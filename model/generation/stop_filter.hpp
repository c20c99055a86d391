// StopFilter: text that arrives in pieces, ended by the first of some stop strings. The stop string
// and what follows it are not part of the text. Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

class StopFilter {
 public:
  // Empty strings are ignored.
  explicit StopFilter(std::vector<std::string> stops);

  // The text that is certain now: what may turn out to begin a stop string is held back.
  std::string push(std::string_view piece);
  // What was held back; nothing after a stop.
  std::string finish();

  bool stopped() const noexcept { return stopped_; }

 private:
  std::size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace clora
