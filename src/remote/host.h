#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"

namespace burnish::remote {

/// Another machine, which the programs ssh and rsync reach by a key, without asking anything.
///
/// A machine that was reached once and is not any more is a lost line: what can wait for it says so by its result, what cannot tries again
/// for a minute. Errors name the machine and hold what ssh or rsync said.
class Host {
 public:
  /// `address` is one as ssh takes it: user@machine, or a name of its settings.
  explicit Host(std::string address) : address_(std::move(address)) {}

  const std::string& address() const { return address_; }
  /// Runs a script of sh there and returns what it said. A config Error where the machine cannot be reached.
  Said run(const std::string& script) const;
  /// The same; nothing where the line is lost.
  std::optional<Said> try_run(const std::string& script) const;
  /// Brings files and folders, named by whole paths, below a folder there, each at its own path: /home/me/cats comes to
  /// FOLDER/home/me/cats. What is there with that size and time is not sent again, and a file of which a part is there goes on from it. A
  /// data Error where a disk is full, or a file cannot be read.
  void send(const std::vector<std::filesystem::path>& files, const std::string& folder) const;
  /// Brings one file there, under a name.
  void send_as(const std::filesystem::path& file, const std::string& name) const;
  /// Brings what is in a folder there into one here, but for what matches the patterns. False where the line is lost.
  bool fetch(const std::string& folder, const std::filesystem::path& to, const std::vector<std::string>& without) const;

 private:
  /// Runs rsync until the line holds; false where it does not for a minute.
  bool transfer(const std::vector<std::string>& words, int num_tries) const;

  std::string address_;
};

}  // namespace burnish::remote
