#pragma once
#include <filesystem>

#include "tests/scratch.h"

namespace burnish::test {

/// The files of a system that is made up, below a root of its own: proc/self/cgroup, sys/fs/cgroup and so on.
class MadeUpSystem {
 public:
  std::string root() const { return folder_.path(); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    folder_.write(file, text);
  }

 private:
  Scratch folder_;
};

}  // namespace burnish::test
