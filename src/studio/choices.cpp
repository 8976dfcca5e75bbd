#include "studio/choices.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "studio/drawings.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kRejected = ".rejected";

/// A line of a prompt file without the flags behind its prompt.
std::string prompt_of(const json& cell) {
  const auto line = cell.value("prompt", "");
  return std::string(trim(line.substr(0, line.find(" --"))));
}

/// The first cell of a grid that shows the picture of that number.
json cell_of(const json& grid, int64_t number) {
  for (const auto& cell : grid.value("cells", json::array())) {
    if (cell.value("picture", int64_t{-1}) == number) return cell;
  }
  config_error("studio", "this drawing has no picture {}", number);
}

fs::path picture_of(const fs::path& drawing, int64_t number) {
  for (const auto& entry : fs::directory_iterator(drawing)) {
    if (entry.path().stem() == fmt::format("{:04}", number) && Drawings::find_picture(drawing, entry.path().filename().string()))
      return entry.path();
  }
  config_error("studio", "picture {} is not drawn yet", number);
}

void copy_to(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) data_error("studio", "{} cannot be copied to {}: {}", from.string(), to.string(), error.message());
}

/// The name of a picture like the wish, of which nothing is there: neither it nor its caption, further columns, or rejected picture.
std::string free_file(const fs::path& folder, const std::string& wish, const std::string& ending) {
  for (int number = 1;; ++number) {
    const auto stem = number == 1 ? wish : fmt::format("{}-{}", wish, number);
    const bool is_used = is_taken(folder / (stem + ending)) || is_taken(folder / (stem + ".txt")) || is_taken(folder / (stem + ".json")) ||
                         is_taken(folder / kRejected / (stem + ending));
    if (!is_used) return stem + ending;
  }
}

}  // namespace

json choices_of(const fs::path& drawing) { return json_or(drawing / "choices.json", json::array()); }

void choose(const Workspace& workspace, const fs::path& drawing, const json& wish) {
  const auto name = wish.value("dataset", "");
  if (!is_name(name)) config_error("studio", "no dataset can be called '{}': names have no slashes, and begin with no dot", name);
  const auto chosen = wish.at("chosen").get<int64_t>(), rejected = wish.at("rejected").get<int64_t>();
  const auto grid = json_or(drawing / "grid.json", json::object());
  const auto of_chosen = cell_of(grid, chosen), of_rejected = cell_of(grid, rejected);
  if (chosen == rejected || of_chosen.value("prompt", "") != of_rejected.value("prompt", "") ||
      of_chosen.value("size", json()) != of_rejected.value("size", json()))
    config_error("studio", "a choice is between two pictures of one prompt and one size");
  const auto liked = picture_of(drawing, chosen), other = picture_of(drawing, rejected);
  if (liked.extension() != other.extension()) config_error("studio", "one of the two is a clip, and the other a picture");

  const auto folder = workspace.datasets() / name;
  make_folder(folder / kRejected);
  const auto file = free_file(folder, fmt::format("{}-{:04}", drawing.filename().string(), chosen), liked.extension().string());
  copy_to(other, folder / kRejected / file);
  const auto beside = [&](const char* of) { return folder / fs::path(file).replace_extension(of); };
  io::write_text_atomic(beside(".json"), json{{"rejected_image", std::string(kRejected) + "/" + file}}.dump() + "\n");
  io::write_text_atomic(beside(".txt"), prompt_of(of_chosen) + "\n");
  copy_to(liked, folder / file);

  auto choices = choices_of(drawing);
  choices.push_back({chosen, rejected});
  io::write_text_atomic(drawing / "choices.json", choices.dump() + "\n");
}

}  // namespace burnish::studio
