#include <fmt/core.h>

#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "io/files.h"
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
  return ending == ".mkv" ? "video/x-matroska" : "application/octet-stream";
}

void make(const Studio& studio, const Request& request, Response& response) {
  const auto body = body_of(request);
  const auto name = body.at("name").get<std::string>();
  if (!is_name(name)) return refuse(response, 400, "names have no slashes, begin with no dot, and are at most 100 bytes long");
  const auto folder = studio.workspace.datasets() / free_name(studio.workspace.datasets(), name);
  std::error_code error;
  if (const auto linked = body.value("folder", ""); !linked.empty()) {
    if (!fs::path(linked).is_absolute() || !io::is_folder(linked))
      return refuse(response, 400,
                    fmt::format("there is no folder '{}' on the machine that the studio runs on; give its whole path", linked));
    fs::create_directory_symlink(linked, folder, error);
  } else {
    fs::create_directory(folder, error);
  }
  if (error) return refuse(response, 500, error.message());
  answer(response, {{"name", folder.filename().string()}});
}

/// A folder goes into the bin; of one that is linked the link alone goes.
void remove(const Studio& studio, const fs::path& folder, Response& response) {
  if (!fs::is_symlink(folder)) return answer(response, {{"bin", throw_away(studio.workspace, folder)}});
  std::error_code error;
  fs::remove(folder, error);
  if (error) return refuse(response, 500, error.message());
  done(response);
}

/// Unpacks an archive that lies in the dataset only as long as that takes.
void take_archive(const fs::path& folder, const std::string& name, Response& response, const httplib::ContentReader& read) {
  const auto zip = folder / free_name(folder, ".dropped " + name, ".zip");
  if (!take_file(zip, kMostOfAnArchive, response, read)) return;
  std::error_code ignored;
  try {
    const auto unpacked = unpack(zip, folder);
    fs::remove(zip, ignored);
    answer(response, {{"added", unpacked.num_files}, {"passed_over", unpacked.passed_over}});
  } catch (const Error& error) {
    fs::remove(zip, ignored);
    refuse(response, 400, without_source(error));
  }
}

void take(const fs::path& folder, const Request& request, Response& response, const httplib::ContentReader& read) {
  const std::string name = request.matches[2];
  if (is_name(name) && name.ends_with(".zip")) return take_archive(folder, name, response, read);
  if (!Datasets::takes(name))
    return refuse(response, 400, fmt::format("'{}' is no picture, clip, caption or zip archive by its ending", name));
  const auto to = folder / free_name(folder, name, fs::path(name).extension().string());
  if (take_file(to, kMostOfAFile, response, read)) answer(response, {{"added", 1}});
}

/// Writes captions by file. One that is not what the page has `known` any more was changed elsewhere, and stays.
void write_captions(const fs::path& folder, const Request& request, Response& response) {
  static std::mutex one_at_a_time;  // between what is compared and what is written, nobody else writes
  std::lock_guard lock(one_at_a_time);
  auto before = json::object(), other = json::object();
  const auto body = body_of(request), known = body.value("known", json::object());
  auto table = CaptionTable::of(folder);
  for (const auto& [file, caption] : body.at("captions").items()) {
    auto item = Datasets::find(folder, file);
    if (!item) continue;
    const auto there = table                                ? table->caption(file).value_or("")
                       : io::is_there(item->caption_file()) ? io::read_text(item->caption_file())
                                                            : "";
    if (known.contains(file) && trim(known[file].get<std::string>()) != trim(there)) {
      other[file] = trim(there);
      continue;
    }
    before[file] = there;
    if (table) table->set(file, std::string(trim(caption.get<std::string>())));
    else Datasets::write_caption(*item, caption.get<std::string>());
  }
  if (table) table->save();
  answer(response, {{"before", before}, {"other", other}});
}

void leave_out(const fs::path& folder, const Request& request, Response& response) {
  const auto body = body_of(request);
  const auto out = body.at("out").get<bool>();
  for (const auto& file : body.at("files").get<std::vector<std::string>>()) {
    if (auto item = Datasets::find(folder, file)) Datasets::leave_out(folder, *item, out);
  }
  done(response);
}

}  // namespace

void add_dataset_routes(httplib::Server& http, Studio& studio) {
  auto& datasets = studio.datasets;
  const std::string dataset = kDataset, item = kItem;
  http.Get("/api/datasets", handled([&datasets](const Request&, Response& response) { answer(response, datasets.list()); }));
  http.Post("/api/datasets", handled([&studio](const Request& request, Response& response) { make(studio, request, response); }));
  http.Get(dataset + "/items", of_dataset(studio, [&datasets](const fs::path& folder, const Request&, Response& response) {
             answer(response, datasets.items(folder));
           }));
  http.Get(item + "/thumbnail",
           of_item(studio, [&studio](const fs::path&, const Item& picture, const Request& request, Response& response) {
             response.set_header("Cache-Control", "private, max-age=86400");
             response.set_content(studio.thumbnails.picture(picture.path, side_of(request)), "image/webp");
           }));
  http.Get(item + "/file", of_item(studio, [](const fs::path&, const Item& clip, const Request&, Response& response) {
             send_file(clip.path, response, media_type_of(clip.path));
           }));
  http.Post(dataset + "/captions", of_dataset(studio, write_captions));
  http.Post(dataset + "/leave_out", of_dataset(studio, leave_out));
  http.Delete(dataset, of_dataset(studio, [&studio](const fs::path& folder, const Request&, Response& response) {
                remove(studio, folder, response);
              }));
  http.Delete(item, of_item(studio, [&datasets](const fs::path& folder, const Item& picture, const Request&, Response& response) {
                if (fs::is_symlink(folder)) return refuse(response, 409, "what lies in a linked folder is not thrown away; leave it out");
                answer(response, {{"bin", datasets.throw_away(folder, picture)}});
              }));
  http.Put(dataset + "/files/([^/]+)", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    of_dataset(studio, [&read](const fs::path& folder, const Request& asked, Response& answered) { take(folder, asked, answered, read); })(
        request, response);
  });
}

}  // namespace burnish::studio
