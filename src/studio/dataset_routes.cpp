#include <fmt/core.h>

#include "base/error.h"
#include "io/files.h"
#include "studio/answers.h"
#include "studio/studio.h"

namespace burnish::studio {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kDataset = "/api/datasets/([^/]+)";
constexpr int64_t kThumbnailSide = 320;
constexpr size_t kMostOfAFile = size_t{4} << 30;  // of a clip that is dropped

/// A handler that is given the folder of the dataset which the address names; 404 where there is none.
template <typename Handle>
httplib::Server::Handler of_dataset(const Studio& studio, Handle handle) {
  return handled([&studio, handle](const Request& request, Response& response) {
    auto folder = Workspace::find(studio.workspace.datasets(), request.matches[1]);
    if (!folder) return refuse(response, 404, "there is no such dataset");
    handle(*folder, request, response);
  });
}

/// The same with the picture or clip that it names behind that.
template <typename Handle>
httplib::Server::Handler of_item(const Studio& studio, Handle handle) {
  return of_dataset(studio, [handle](const fs::path& folder, const Request& request, Response& response) {
    auto item = Datasets::find(folder, request.matches[2]);
    if (!item) return refuse(response, 404, "there is no such picture");
    handle(folder, *item, request, response);
  });
}

void make(const Studio& studio, const Request& request, Response& response) {
  const auto name = body_of(request).at("name").get<std::string>();
  if (!is_name(name)) return refuse(response, 400, "names have no slashes, begin with no dot, and are at most 100 bytes long");
  const auto folder = studio.workspace.datasets() / free_name(studio.workspace.datasets(), name);
  std::error_code error;
  if (!fs::create_directory(folder, error)) return refuse(response, 500, error.message());
  answer(response, {{"name", folder.filename().string()}});
}

/// Takes a file as it comes, so that a clip needs no memory. One that breaks off, or is too large, leaves nothing.
void take(const fs::path& folder, const Request& request, Response& response, const httplib::ContentReader& read) {
  const std::string name = request.matches[2];
  if (!Datasets::takes(name)) return refuse(response, 400, fmt::format("'{}' is no picture, clip or caption by its ending", name));
  if (take_file(folder / free_name(folder, name, fs::path(name).extension().string()), kMostOfAFile, response, read)) done(response);
}

void write_captions(const fs::path& folder, const Request& request, Response& response) {
  auto before = json::object();
  const auto body = body_of(request);
  for (const auto& [file, caption] : body.at("captions").items()) {
    auto item = Datasets::find(folder, file);
    if (!item) continue;
    before[file] = io::is_there(item->caption_file()) ? io::read_text(item->caption_file()) : "";
    Datasets::write_caption(*item, caption.get<std::string>());
  }
  answer(response, {{"before", before}});
}

}  // namespace

void add_dataset_routes(httplib::Server& http, Studio& studio) {
  auto& datasets = studio.datasets;
  const std::string dataset = kDataset, item = dataset + "/items/([^/]+)";
  http.Get("/api/datasets", handled([&datasets](const Request&, Response& response) { answer(response, datasets.list()); }));
  http.Post("/api/datasets", handled([&studio](const Request& request, Response& response) { make(studio, request, response); }));
  http.Get(dataset + "/items", of_dataset(studio, [&datasets](const fs::path& folder, const Request&, Response& response) {
             answer(response, datasets.items(folder));
           }));
  http.Get(item + "/thumbnail", of_item(studio, [&datasets](const fs::path&, const Item& picture, const Request&, Response& response) {
             response.set_header("Cache-Control", "private, max-age=86400");
             response.set_content(datasets.thumbnail(picture, kThumbnailSide), "image/webp");
           }));
  http.Post(dataset + "/captions", of_dataset(studio, write_captions));
  http.Post(item + "/leave_out",
            of_item(studio, [](const fs::path& folder, const Item& picture, const Request& request, Response& response) {
              Datasets::leave_out(folder, picture, body_of(request).at("out").get<bool>());
              done(response);
            }));
  http.Delete(item, of_item(studio, [&datasets](const fs::path& folder, const Item& picture, const Request&, Response& response) {
                datasets.throw_away(folder, picture);
                done(response);
              }));
  http.Put(dataset + "/files/([^/]+)", [&studio](const Request& request, Response& response, const httplib::ContentReader& read) {
    of_dataset(studio, [&read](const fs::path& folder, const Request& asked, Response& answered) { take(folder, asked, answered, read); })(
        request, response);
  });
}

}  // namespace burnish::studio
