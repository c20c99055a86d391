// The commit that this program was built from, "-dirty" after it where files had changed, or
// "unknown" without git. Its source is written at build time (cmake/write_commit.cmake).
#pragma once

#include <string_view>

namespace clora::bench {

std::string_view built_commit();

}  // namespace clora::bench
