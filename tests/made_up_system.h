#pragma once
#include <filesystem>

#include "tests/scratch.h"

namespace burnish::test {

/// The files of a system that is made up, below a root of its own: proc/self/cgroup, sys/fs/cgroup and so on.
class MadeUpSystem {
 public:
  std::string root() const { return folder_.path(); }
  /// The file is never there in part, even while another thread reads it.
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    std::filesystem::rename(folder_.write("next", text), folder_ / file);
  }

 private:
  Scratch folder_;
};

}  // namespace burnish::test
