// The programs of clora's cache on disk with their own descriptions, for commands that report them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "clora/runtime/programs/program_store.hpp"
#include "runtime/programs/program_entry.hpp"

namespace clora {

struct CachedProgram {
  DiskProgramStore::Listed listed;
  std::optional<ProgramEntryFacts> facts;  // empty if the entry is damaged
  std::string damage;                      // the reason; empty if the entry is intact

  // Why the entry is not used; empty if it is.
  std::string problem() const;
};

// Reads every byte of the entry.
CachedProgram read_cached_program(const DiskProgramStore::Listed& listed);

// The store in a cache folder (default_cache_folder()).
DiskProgramStore program_store_in(const std::filesystem::path& cache_folder);

// All programs in a cache folder, the most recently used first; reads every byte.
std::vector<CachedProgram> cached_programs(const std::filesystem::path& cache_folder);

}  // namespace clora
