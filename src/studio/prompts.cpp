#include "studio/prompts.h"

#include <fmt/core.h>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "io/hash.h"

namespace burnish::studio {

namespace fs = std::filesystem;

std::string keep_prompts(const Workspace& workspace, const std::string& text) {
  const auto trimmed = std::string(trim(text));
  if (trimmed.empty()) config_error("studio", "there is no prompt in it; write one a line");
  const auto name = fmt::format("{:016x}.txt", io::xxh64(trimmed));
  make_folder(workspace.prompts());
  io::write_text_atomic(workspace.prompts() / name, trimmed + "\n");
  return "../prompts/" + name;
}

std::optional<std::string> kept_prompts(const Workspace& workspace, const std::string& path) {
  const auto file = (workspace.queue() / path).lexically_normal();  // a whole path stays what it is
  if (file.parent_path() != workspace.prompts() || !is_name(file.filename().string()) || !io::is_there(file)) return std::nullopt;
  return io::read_text(file);
}

}  // namespace burnish::studio
