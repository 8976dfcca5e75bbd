#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <regex>

#include "base/count.h"
#include "base/error.h"
#include "base/text.h"
#include "base/typed_path.h"
#include "io/files.h"
#include "studio/arrival.h"
#include "studio/bin.h"
#include "studio/caption_table.h"
#include "studio/dataset_handlers.h"
#include "studio/zip.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr size_t kMostOfAFile = size_t{4} << 30;  // of a clip that is dropped
constexpr size_t kMostOfAnArchive = size_t{64} << 30;

/// Returns the media type of a clip that browsers may play; anything else is only bytes to them.
const char* media_type_of(const fs::path& file) {
  const auto ending = file.extension();
  if (ending == ".mp4" || ending == ".m4v") return "video/mp4";
  if (ending == ".webm") return "video/webm";
  if (ending == ".mov") return "video/quicktime";
  if (ending == ".gif" || ending == ".webp") return ending == ".gif" ? "image/gif" : "image/webp";
  return ending == ".mkv" ? "video/x-matroska" : "application/octet-stream";
}

/// Refuses to link a folder that the workspace lies in: all that is on the machine would be looked through for pictures.
void check_link(const Studio& studio, const std::string& linked) {
  if (!fs::path(linked).is_absolute() || !io::is_folder(linked))
    refuse_with(400, fmt::format("there is no folder '{}' on the machine that the studio runs on; give its whole path", linked));
  const auto folder = fs::canonical(linked), root = fs::canonical(studio.workspace.root());
  if (std::mismatch(folder.begin(), folder.end(), root.begin(), root.end()).first == folder.end())
    refuse_with(400, fmt::format("the workspace itself lies in '{}'; link the folder of the pictures alone", linked));
}

void make(const Studio& studio, const Request& request, Response& response) {
  const auto body = body_of(request);
  const auto name = body.at("name").get<std::string>(), linked = typed_path(body.value("folder", ""));
  if (!is_name(name)) return refuse(response, 400, "names have no slashes, begin with no dot, and are at most 100 bytes long");
  if (!linked.empty()) check_link(studio, linked);
  const auto folder = studio.workspace.datasets() / free_name(studio.workspace.datasets(), name);
  std::error_code error;
  if (linked.empty()) fs::create_directory(folder, error);
  else fs::create_directory_symlink(linked, folder, error);
  if (error) return refuse(response, 500, error.message());
  answer(response, {{"name", folder.filename().string()}});
}

/// Tells whether settings name a dataset's folder: as "../datasets/cats", or a whole path.
bool names_dataset(const std::string& settings, const std::string& name) {
  auto quoted = to_toml(name);
  const auto part = "datasets/" + quoted.substr(1, quoted.size() - 2);
  for (auto at = settings.find(part); at != settings.npos; at = settings.find(part, at + 1)) {
    const auto next = at + part.size() < settings.size() ? settings[at + part.size()] : '"';
    if (std::string_view("\"'/,:").find(next) != std::string_view::npos) return true;
  }
  return false;
}

/// Returns the text of settings, and of the TOML files that they name: a dataset_config names datasets of its own.
std::string with_named_files(const fs::path& settings) {
  auto text = io::read_text(settings);
  static const std::regex kFile("\"([^\"]+\\.toml)\"");
  std::vector<fs::path> files;
  for (std::sregex_iterator at(text.begin(), text.end(), kFile), end; at != end; ++at)
    files.push_back(settings.parent_path() / (*at)[1].str());
  for (const auto& file : files)
    if (io::is_there(file)) text += io::read_text(file);
  return text;
}

/// Says what goes on, or waits, that reads a dataset; "" for nothing.
std::string user_of(const Studio& studio, const std::string& name) {
  for (const auto& job : studio.queue.jobs()) {
    if (job.state != Job::State::ended && names_dataset(with_named_files(studio.queue.settings_of(job.id)), name))
      return fmt::format("the run {}", job.run);
  }
  for (const auto& run : Workspace::names(studio.workspace.runs())) {  // of a terminal too
    const auto folder = studio.workspace.runs() / run, settings = folder / "config.toml";
    if (!io::FolderClaim(folder).held() && io::is_there(settings) && names_dataset(with_named_files(settings), name))
      return fmt::format("the run {}", run);
  }
  for (const auto& job : studio.annotations.list()) {
    if (job["dataset"] == name && job["state"] != "ended")
      return fmt::format("what writes a {} for each picture", job["verb"].get<std::string>());
  }
  return "";
}

/// A folder goes into the bin; of one that is linked the link alone goes, also where it leads to nothing.
void remove(const Studio& studio, const Request& request, Response& response) {
  const std::string name = request.matches[1];
  const auto folder = studio.workspace.datasets() / name;
  if (!is_name(name) || !is_taken(folder)) return refuse(response, 404, kNoDataset);
  if (const auto user = user_of(studio, name); !user.empty())
    return refuse(response, 409, fmt::format("{} still reads this dataset; stop it, or take it out of the queue, first", user));
  std::error_code error;
  if (!fs::is_symlink(folder, error)) return answer(response, {{"bin", throw_away(studio.workspace, folder)}});
  fs::remove(folder, error);
  if (error) return refuse(response, 500, error.message());
  done(response);
}

/// Unpacks an archive that lies in the dataset only as long as that takes.
void take_archive(const fs::path& folder, const std::string& name, Response& response, const httplib::ContentReader& read) {
  const Arrival zip(folder);
  take_file(zip.path(), name, kMostOfAnArchive, read);
  const auto unpacked = unpack(zip.path(), name, folder);
  answer(response, {{"added", unpacked.num_files}, {"passed_over", unpacked.passed_over}});
}

void take(const fs::path& folder, const Request& request, Response& response, const httplib::ContentReader& read) {
  const std::string name = request.matches[2];
  if (is_name(name) && name.ends_with(".zip")) return take_archive(folder, name, response, read);
  if (!Datasets::takes(name))
    return refuse(response, 400, fmt::format("'{}' is no picture, clip, caption or zip archive by its ending", name));
  const Arrival arrival(folder);
  take_file(arrival.path(), name, kMostOfAFile, read);
  answer(response, {{"added", 1}, {"name", arrival.settle(name)}});
}

/// Finds all items, before anything is done to one of them; 404 where one is not there.
std::vector<Item> found(const fs::path& folder, const std::vector<std::string>& files) {
  std::vector<Item> items;
  for (const auto& file : files) {
    auto item = Datasets::find(folder, file);
    if (!item) refuse_with(404, fmt::format("{} has no picture or clip '{}'", folder.filename().string(), one_line(file)));
    items.push_back(std::move(*item));
  }
  return items;
}

/// The caption of an item, in its dataset's table or beside it; "" for none.
std::string caption_there(const Item& item, const std::optional<CaptionTable>& table) {
  if (table) return table->caption(item.name).value_or("");
  return io::is_there(item.caption_file()) ? io::read_text(item.caption_file()) : "";
}

/// Writes a caption beside its picture, or has the table write it when it is saved.
void put_caption(const Item& item, std::optional<CaptionTable>& table, const std::string& caption) {
  if (table) table->set(item.name, std::string(trim(caption)));
  else Datasets::write_caption(item, caption);
}

/// Writes captions: into the table of the dataset all at once, beside pictures one after the other. One that is not what the page has
/// `known` any more was changed elsewhere, and stays. Where one cannot be written, the answer has what stood in the place of those that
/// were.
void write_captions(const fs::path& folder, const Request& request, Response& response) {
  static std::mutex one_at_a_time;  // between what is compared and what is written, nobody else writes
  std::lock_guard lock(one_at_a_time);
  using Captions = std::map<std::string, std::string>;
  const auto body = body_of(request);
  const auto captions = body.at("captions").get<Captions>(), known = body.value("known", Captions());
  std::vector<std::string> files;
  for (const auto& [file, caption] : captions) files.push_back(file);
  auto table = CaptionTable::of(folder);
  auto before = json::object(), other = json::object();
  for (const auto& item : found(folder, files)) {
    const auto there = caption_there(item, table);
    if (const auto seen = known.find(item.name); seen != known.end() && trim(seen->second) != trim(there)) {
      other[item.name] = trim(there);
      continue;
    }
    try {
      put_caption(item, table, captions.at(item.name));
    } catch (const Error& error) {
      refuse_with(500,
                  fmt::format("the caption of {} is not written, and {} before it are: {}", item.name,
                              count_of(std::ssize(before), "caption"), without_source(error)),
                  {{"before", before}});
    }
    before[item.name] = there;
  }
  try {
    if (table) table->save();
  } catch (const Error& error) {
    refuse_with(500, fmt::format("no caption is written: {}", without_source(error)), {{"before", json::object()}});
  }
  answer(response, {{"before", before}, {"other", other}});
}

void leave_out(const fs::path& folder, const Request& request, Response& response) {
  const auto body = body_of(request);
  const auto out = body.at("out").get<bool>();
  const auto items = found(folder, body.at("files").get<std::vector<std::string>>());
  for (const auto& item : items) {
    if (!Datasets::leave_out(folder, item, out))
      refuse_with(409, fmt::format("there is another {} where this one would go; rename one of them", item.name));
  }
  done(response);
}

}  // namespace

void add_dataset_routes(Routes& routes, Studio& studio) {
  auto& datasets = studio.datasets;
  const std::string dataset = kDataset, item = kItem;
  routes.get("/api/datasets", [&datasets](const Request&, Response& response) { answer(response, datasets.list()); });
  routes.post("/api/datasets", {{"name", Is::text}, {"folder", Is::text, false}},
              [&studio](const Request& request, Response& response) { make(studio, request, response); });
  routes.get(dataset + "/items", of_dataset(studio, [&datasets](const fs::path& folder, const Request&, Response& response) {
               answer(response, datasets.items(folder));
             }));
  routes.get(item + "/thumbnail",
             of_item(studio, [&studio](const fs::path&, const Item& picture, const Request& request, Response& response) {
               response.set_header("Cache-Control", "private, max-age=86400");
               response.set_content(studio.thumbnails.picture(picture.path, side_of(request)), "image/webp");
             }));
  routes.get(item + "/file", of_item(studio, [](const fs::path&, const Item& clip, const Request&, Response& response) {
               send_file(clip.path, response, media_type_of(clip.path));
             }));
  routes.post(dataset + "/captions", {{"captions", Is::object}, {"known", Is::object, false}}, of_dataset(studio, write_captions));
  routes.post(dataset + "/leave_out", {{"files", Is::texts}, {"out", Is::truth}}, of_dataset(studio, leave_out));
  routes.remove(dataset, [&studio](const Request& request, Response& response) { remove(studio, request, response); });
  routes.remove(item, of_item(studio, [&datasets](const fs::path& folder, const Item& picture, const Request&, Response& response) {
                  if (fs::is_symlink(folder)) return refuse(response, 409, "what lies in a linked folder is not thrown away; leave it out");
                  answer(response, {{"bin", datasets.throw_away(folder, picture)}});
                }));
  routes.put(dataset + "/files/FILE", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    of_dataset(studio, [&read](const fs::path& folder, const Request& asked, Response& answered) { take(folder, asked, answered, read); })(
        request, response);
  });
}

}  // namespace burnish::studio
