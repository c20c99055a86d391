#include "clora/model/generation/stop_filter.hpp"

#include <algorithm>
#include <utility>

namespace clora {

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

// Returns the length of the longest suffix of held_ that is a prefix of a stop string.
std::size_t StopFilter::held_length() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

std::string StopFilter::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  stopped_ = first != std::string::npos;
  const std::size_t certain = stopped_ ? first : held_.size() - held_length();
  std::string text = held_.substr(0, certain);
  held_.erase(0, stopped_ ? held_.size() : certain);
  return text;
}

std::string StopFilter::finish() { return std::exchange(held_, {}); }

}  // namespace clora
