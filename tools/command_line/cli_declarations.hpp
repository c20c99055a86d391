// CLI11's classes by name, for headers whose functions take a command. CLI11's own headers take
// seconds to compile, so only sources that add or read options include them.
#pragma once

namespace CLI {
class App;
class Option;
}  // namespace CLI
