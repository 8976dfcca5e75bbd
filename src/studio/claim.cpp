#include "studio/claim.h"

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

std::optional<int> port_of_open(const fs::path& workspace) {
  for (int look = 0; look < kMostLooks; ++look) {
    if (!io::is_folder(workspace) || io::FolderClaim(workspace).held()) return std::nullopt;
    if (io::is_there(file_in(workspace))) {
      auto value = json::parse(io::read_text(file_in(workspace)), nullptr, /*allow_exceptions=*/false);
      if (value.is_object() && value.contains("port") && value["port"].is_number_integer()) return value["port"].get<int>();
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return std::nullopt;
}

void check_not_open(const fs::path& workspace) {
  const auto port = port_of_open(workspace);
  if (!port) return;
  const auto token = workspace / ".token";
  config_error("studio", "{} is open already, at http://127.0.0.1:{}/?token={}", workspace.string(), *port,
               io::is_there(token) ? io::read_text(token) : "");
}

Claim::Claim(const fs::path& workspace, int port) : file_(file_in(workspace)), claim_(claimed(workspace)) {
  if (!claim_.held()) {
    check_not_open(workspace);
    config_error("studio", "{} is open in another studio, which does not say where; end it, or name another folder", workspace.string());
  }
  io::write_text_atomic(file_, json{{"port", port}}.dump() + "\n");
}

Claim::~Claim() {
  std::error_code ignored;
  fs::remove(file_, ignored);
}

}  // namespace burnish::studio
