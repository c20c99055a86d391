#include "model/data/line_reader.hpp"

#include "runtime/fail.hpp"

namespace clora {

bool LineReader::next(std::string& line) {
  line.clear();
  bool any = false;
  for (std::string_view rest = source_.available(); !rest.empty(); rest = source_.available()) {
    if (!any) ++number_;
    any = true;
    const std::size_t feed = rest.find('\n');
    const std::size_t count = std::min(feed, rest.size());
    if (line.size() + count > max_line_bytes_) {
      fail(ErrorCode::invalid_data, "{}: line {}: a line must have at most {} bytes",
           source_.path(), number_, max_line_bytes_);
    }
    line.append(rest, 0, count);
    source_.consume(count + (feed != std::string_view::npos ? 1 : 0));
    if (feed != std::string_view::npos) break;
  }
  return any;
}

}  // namespace clora
