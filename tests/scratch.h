#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

// Shared by the tests of bad input: a folder of their own, and what an Error must look like.
namespace burnish::test {

namespace fs = std::filesystem;

/// A fresh folder, removed with all it holds.
class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "burnish-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  std::string path() const { return folder_.string(); }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  size_t num_files() const {
    auto entries = std::filesystem::directory_iterator(folder_);
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

 private:
  std::filesystem::path folder_;
};

inline std::string content(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// The message of the burnish::Error that `action` throws; a failure when it throws nothing or something else.
template <class F>
std::string error_of(F action, Exit code = Exit::data) {
  try {
    action();
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    std::string text = error.what();
    EXPECT_EQ(error.code(), code) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
    EXPECT_LT(text.size(), 1000u) << text;
    return text;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "not a burnish::Error: " << other.what();
  }
  return "";
}

}  // namespace burnish::test
