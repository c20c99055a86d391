#include "clora/model/training/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/fail.hpp"

namespace clora {

bool is_own(std::size_t n, const Communicator* ranks) {
  return ranks == nullptr ||
         n % static_cast<std::size_t>(ranks->size()) == static_cast<std::size_t>(ranks->rank());
}

bool any_rank(Communicator& ranks, bool value) {
  const std::vector<std::string> all = ranks.all_gather(value ? "1" : "0");
  return std::ranges::find(all, "1") != all.end();
}

void require_message(std::size_t got, std::size_t expected, int from) {
  if (got == expected) return;
  fail(
      ErrorCode::invalid_data,
      "ranks: a message of {} bytes was expected from rank {}, got {}; all ranks must run the same "
      "version with the same data",
      expected, from, got);
}

std::vector<double> gather_values(Communicator& ranks, double value) {
  const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
  std::vector<double> values;
  for (const std::string& of_rank : ranks.all_gather(bytes)) {
    require(of_rank.size() == sizeof value,
            "ranks: rank {} took part in another exchange; all ranks must run the same version",
            values.size());
    std::memcpy(&values.emplace_back(), of_rank.data(), sizeof value);
  }
  return values;
}

}  // namespace clora
