#include "tools/command_line/cached_programs.hpp"

#include <fstream>
#include <iterator>
#include <span>

#include "clora/runtime/context.hpp"
#include "clora/runtime/error.hpp"

namespace clora {

std::string CachedProgram::problem() const {
  if (!damage.empty()) return damage;
  return listed.held_back ? "disabled: a process died while the driver loaded it" : "";
}

CachedProgram read_cached_program(const DiskProgramStore::Listed& listed) {
  CachedProgram program{.listed = listed, .facts = {}, .damage = {}};
  std::ifstream stream(listed.path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  try {
    program.facts = describe_program_entry(std::as_bytes(std::span(text)));
    if (program.facts->key.name() != listed.name) program.damage = "it belongs to another program";
  } catch (const Error& error) {
    program.damage = error.what();
  }
  return program;
}

DiskProgramStore program_store_in(const std::filesystem::path& cache_folder) {
  return {cache_folder / "programs", ContextConfig{}.cache_limit_bytes};
}

std::vector<CachedProgram> cached_programs(const std::filesystem::path& cache_folder) {
  std::vector<CachedProgram> all;
  for (const auto& listed : program_store_in(cache_folder).list()) {
    all.push_back(read_cached_program(listed));
  }
  return all;
}

}  // namespace clora
