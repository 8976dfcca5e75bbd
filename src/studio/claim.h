#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "io/files.h"

namespace burnish::studio {

/// The place at which a studio of this machine answers.
struct Place {
  int port = 0;
  bool is_https = false;

  std::string address() const;
};
/// The place where a studio of this machine has the workspace open; nothing where none has.
std::optional<Place> place_of_open(const std::filesystem::path& workspace);

/// A config Error, with its address, where a studio has the workspace open.
void check_not_open(const std::filesystem::path& workspace);

/// Holds a workspace for one studio: two would start its jobs twice. The file .studio.json says where the studio answers.
class Claim {
 public:
  /// A config Error where another one has it.
  Claim(const std::filesystem::path& workspace, const Place& place);
  ~Claim();
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  std::filesystem::path file_;
  io::FolderClaim claim_;
};

}  // namespace burnish::studio
