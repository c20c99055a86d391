#include "tools/clora/training/optimizer_option.hpp"

namespace clora {
namespace {

constexpr const char* kAdamw = "adamw";
constexpr const char* kAdamw8Bit = "adamw-8bit";

}  // namespace

MomentType OptimizerOption::moments() const {
  return name == kAdamw8Bit ? MomentType::q8 : MomentType::f32;
}

void add_optimizer_option(CLI::App& command, OptimizerOption& option, const std::string& group) {
  command
      .add_option("--optimizer", option.name,
                  "adamw-8bit stores the two moments of AdamW in 8 bits: 2 bytes per trainable "
                  "parameter instead of 8")
      ->check(CLI::IsMember({kAdamw, kAdamw8Bit}))
      ->capture_default_str()
      ->group(group);
}

}  // namespace clora
