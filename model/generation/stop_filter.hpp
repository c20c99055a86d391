// StopFilter: ends text that arrives in pieces at the first of several stop strings. The stop
// string and the text after it are dropped. Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clora {

class StopFilter {
 public:
  // Empty strings are ignored.
  explicit StopFilter(std::vector<std::string> stops);

  // Returns the text that is final; text that may be the beginning of a stop string is held back.
  std::string push(std::string_view piece);
  // Returns the text held back; nothing after a stop.
  std::string finish();

  bool stopped() const noexcept { return stopped_; }

 private:
  std::size_t held_length() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace clora
