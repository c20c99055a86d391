// ProgramStore: where built programs are kept from one process to the next. A host may supply its
// own; DiskProgramStore is the one that a Context makes for itself.
//
// A store keeps bytes by name and need not understand them: the program cache checks them for
// damage (runtime/program_entry.hpp). The bytes are machine code, and their checksum has no key, so
// that it is no proof of where they are from: whoever can write to a store runs code in the
// processes that read it. Names are 32 hexadecimal digits. Threads: one store may serve several
// Contexts on several threads.
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

// What these functions throw never reaches the caller of a Context: it means one warning and a
// build from source.
class ProgramStore {
 public:
  virtual ~ProgramStore() = default;

  // The bytes last saved under `name`; nothing where there are none or where they must not be used.
  virtual std::optional<std::vector<std::byte>> load(const std::string& name) = 0;
  virtual void save(const std::string& name, std::span<const std::byte> bytes) = 0;
  // Called before `bytes`, loaded under `name`, go to the driver; what is returned is destroyed
  // when the driver has taken or refused them. A process that dies in between leaves a trace here,
  // if the store keeps one, and the store then holds these bytes back. May be null.
  virtual std::shared_ptr<void> begin_attempt(const std::string& name,
                                              std::span<const std::byte> bytes) = 0;
};

// A folder:
//   NAME.program             an entry, put there by an atomic rename; its time is that of last use
//   NAME.crashed             the digest of an entry that a process died of: held back while equal
//   attempts/NAME.PID-COUNT  an entry in a driver's hands, locked (flock) while the process lives
// Several processes may use one folder. Readers take no lock. The folder is made when needed, with
// mode 0700. It and its entries are used only where they are private to the process's user
// (runtime/private_folder.hpp).
class DiskProgramStore : public ProgramStore {
 public:
  // An entry as it lies there; held back: a process died of it.
  struct Listed {
    std::string name;
    std::filesystem::path path;
    std::uintmax_t bytes = 0;
    std::filesystem::file_time_type used;
    bool held_back = false;
  };

  // limit_bytes: of all entries together; the least recently used go first.
  DiskProgramStore(std::filesystem::path folder, std::size_t limit_bytes);

  // Errors: io; invalid_file where others may write, and once for each entry that an earlier
  // process is seen to have died of.
  std::optional<std::vector<std::byte>> load(const std::string& name) override;
  // Errors: io; what was there stays.
  void save(const std::string& name, std::span<const std::byte> bytes) override;
  // Errors: io.
  std::shared_ptr<void> begin_attempt(const std::string& name,
                                      std::span<const std::byte> bytes) override;

  // All entries, the last used first; none where there is no folder.
  std::vector<Listed> list() const;
  // Removes an entry and what is known of it. No error where it is not there. Errors: io.
  void remove(const std::string& name);

 private:
  std::filesystem::path entry(const std::string& name) const;
  std::filesystem::path crashed(const std::string& name) const;
  void find_crashes();
  void evict() const;

  std::filesystem::path folder_;
  std::size_t limit_bytes_;
  std::once_flag searched_;
  std::mutex mutex_;              // guards untold_
  std::set<std::string> untold_;  // crashes found, of which load() has not told yet
};

}  // namespace clora
