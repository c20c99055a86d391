// ProgramStore: storage of built programs across processes. An embedding program may supply its
// own; a Context creates a DiskProgramStore by default.
//
// A store keeps bytes by name and need not interpret them: the program cache checks them for damage
// (runtime/programs/program_entry.hpp). The bytes are machine code, and their checksum has no key,
// so it does not prove their origin: anyone who can write to a store runs code in the processes
// that read it. Names are 32 hexadecimal digits. Threads: one store may serve several Contexts on
// several threads.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace clora {

// Exceptions from these functions never reach the caller of a Context: they cause one warning and a
// build from source.
class ProgramStore {
 public:
  virtual ~ProgramStore() = default;

  // Returns the bytes last saved under `name`; nothing if there are none or if they must not be
  // used.
  virtual std::optional<std::vector<std::byte>> load(const std::string& name) = 0;
  virtual void save(const std::string& name, std::span<const std::byte> bytes) = 0;
  // Called before `bytes`, loaded under `name`, are passed to the driver; the returned object is
  // destroyed when the driver has accepted or refused them. If the process dies in between, a store
  // that records attempts withholds these bytes from then on. May return null.
  virtual std::shared_ptr<void> begin_attempt(const std::string& name,
                                              std::span<const std::byte> bytes) = 0;
};

// A folder:
//   NAME.program             an entry, created by an atomic rename; its time is that of last use
//   NAME.crashed             the digest of an entry that crashed a process: withheld while equal
//   attempts/NAME.PID-COUNT  an entry passed to a driver, locked (flock) while the process lives
// Several processes may use one folder. Readers take no lock. The folder is created when needed,
// with mode 0700. It and its entries are used only if they are private to the process's user
// (runtime/files/private_folder.hpp).
class DiskProgramStore : public ProgramStore {
 public:
  // An entry of the folder. held_back: the entry crashed a process and is withheld.
  struct Listed {
    std::string name;
    std::filesystem::path path;
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type used;
    bool held_back = false;
  };

  // limit_bytes: total of all entries; the least recently used are removed first.
  DiskProgramStore(std::filesystem::path folder, std::size_t limit_bytes);

  // Errors: io; invalid_file if others may write, and once for each entry that is found to have
  // crashed an earlier process.
  std::optional<std::vector<std::byte>> load(const std::string& name) override;
  // Errors: io; the existing entry is then unchanged.
  void save(const std::string& name, std::span<const std::byte> bytes) override;
  // Errors: io.
  std::shared_ptr<void> begin_attempt(const std::string& name,
                                      std::span<const std::byte> bytes) override;

  // All entries, the most recently used first; empty if there is no folder.
  std::vector<Listed> list() const;
  // Removes an entry and its crash record; no-op if there is none. Errors: io.
  void remove(const std::string& name);

 private:
  std::filesystem::path entry(const std::string& name) const;
  std::filesystem::path crashed(const std::string& name) const;
  void find_crashes();
  void evict() const;

  std::filesystem::path folder_;
  std::size_t limit_bytes_;
  std::once_flag searched_;
  std::mutex mutex_;                  // guards unreported_
  std::set<std::string> unreported_;  // crashes found that load() has not reported yet
};

}  // namespace clora
