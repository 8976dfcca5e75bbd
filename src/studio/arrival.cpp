#include "studio/arrival.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <system_error>
#include <vector>

#include "io/files.h"
#include "studio/workspace.h"

namespace burnish::studio {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHidden = ".arriving-";

std::string next_name() {
  static std::atomic<int64_t> number = 0;
  return fmt::format("{}{}-{}", kHidden, getpid(), ++number);
}

}  // namespace

Arrival::Arrival(const fs::path& folder) : path_(folder / next_name()) {}

Arrival::~Arrival() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Arrival::settle(const std::string& wish) const {
  const auto folder = path_.parent_path();
  while (true) {
    auto name = free_name(folder, wish, fs::path(wish).extension().string());
    if (move_new(path_, folder / name)) return name;  // or another one has taken it meanwhile
  }
}

bool Arrival::settle_as(const std::string& name) const { return move_new(path_, path_.parent_path() / name); }

void remove_arrivals(const fs::path& folder) {
  io::remove_partial_files(folder);
  std::vector<fs::path> left = io::glob(folder, std::string(kHidden) + "*");
  for (const auto& below : io::glob(folder, std::string("*/") + kHidden + "*")) left.push_back(below);
  std::error_code ignored;
  for (const auto& path : left) fs::remove_all(path, ignored);
}

}  // namespace burnish::studio
