#pragma once
#include <filesystem>
#include <string>

namespace burnish::studio {

/// A file that comes in a request. It is hidden in the folder that it is for until it is whole, and gets its name only then, so that of
/// many that come at once under one name each is kept.
class Arrival {
 public:
  explicit Arrival(const std::filesystem::path& folder);
  /// Removes what was given no name.
  ~Arrival();
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  /// The path that its bytes are written to meanwhile.
  const std::filesystem::path& path() const { return path_; }
  /// Gives it the wished name, or one like it that nothing has: "cat-2.png". Returns the name.
  std::string settle(const std::string& wish) const;
  /// Gives it that name; false where something has it.
  bool settle_as(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

/// Removes what a studio that was killed left of arrivals, and of files that it was writing, in a folder and the folders in it.
void remove_arrivals(const std::filesystem::path& folder);

}  // namespace burnish::studio
