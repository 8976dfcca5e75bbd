#include "studio/claim.h"

#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "base/input_error.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
constexpr int kMostLooks = 100;  // a studio that begins says soon where it answers

fs::path file_in(const fs::path& workspace) { return workspace / ".studio.json"; }

/// Whoever asks whether a workspace is open holds it for that moment, so one look is not enough.
io::FolderClaim claimed(const fs::path& workspace) {
  for (int look = 0; look < 10; ++look) {
    io::FolderClaim claim(workspace);
    if (claim.held()) return claim;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return io::FolderClaim(workspace);
}

}  // namespace

std::string Place::address() const { return fmt::format("{}://127.0.0.1:{}", is_https ? "https" : "http", port); }

std::optional<Place> place_of_open(const fs::path& workspace) {
  for (int look = 0; look < kMostLooks; ++look) {
    if (!io::is_folder(workspace) || io::FolderClaim(workspace).held()) return std::nullopt;
    if (io::is_there(file_in(workspace))) {
      auto value = json::parse(io::read_text(file_in(workspace)), nullptr, /*allow_exceptions=*/false);
      if (value.is_object() && value.contains("port") && value["port"].is_number_integer())
        return Place{value["port"].get<int>(), value.contains("is_https") && value["is_https"] == true};
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return std::nullopt;
}

void check_not_open(const fs::path& workspace) {
  const auto place = place_of_open(workspace);
  if (!place) return;
  const auto token = workspace / ".token";
  config_error("studio", "{} is open already, at {}/?token={}", workspace.string(), place->address(),
               io::is_there(token) ? io::read_text(token) : "");
}

Claim::Claim(const fs::path& workspace, const Place& place) : file_(file_in(workspace)), claim_(claimed(workspace)) {
  if (!claim_.held()) {
    check_not_open(workspace);
    config_error("studio", "{} is open in another studio, which does not say where; end it, or name another folder", workspace.string());
  }
  io::write_text_atomic(file_, json{{"port", place.port}, {"is_https", place.is_https}}.dump() + "\n");
}

Claim::~Claim() {
  std::error_code ignored;
  fs::remove(file_, ignored);
}

}  // namespace burnish::studio
