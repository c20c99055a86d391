// The commit that this program was built from, followed by "-dirty" if files had changed, or
// "unknown" without git. Its source file is generated at build time (cmake/write_commit.cmake).
#pragma once

#include <string_view>

namespace clora::bench {

std::string_view built_commit();

}  // namespace clora::bench
