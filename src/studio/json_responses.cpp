#include "studio/json_responses.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "report/local_server.h"

namespace burnish::studio {

using nlohmann::json;

void answer(Response& response, const json& value, int status) {
  response.status = status;
  response.set_header("Cache-Control", "no-store");
  report::send_whole(response, value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace), "application/json");
}

void done(Response& response) {
  response.set_header("Cache-Control", "no-store");
  response.set_content("{}", "application/json");  // goes out even where the server ends with it
}

void refuse(Response& response, int status, const std::string& sentence) { answer(response, {{"sentence", sentence}}, status); }

void refuse_with(int status, const std::string& sentence, json more) { throw Refusal{status, sentence, std::move(more)}; }

void send_file(const std::filesystem::path& path, Response& response, const char* media_type) {
  static constexpr size_t kPiece = 1 << 20;
  auto file = std::make_shared<io::InputFile>(path);
  if (media_type == nullptr) response.set_header("Content-Disposition", "attachment");
  response.set_content_provider(file->size(), media_type == nullptr ? "application/octet-stream" : media_type,
                                [file](size_t offset, size_t length, httplib::DataSink& sink) {
                                  std::string bytes(std::min(length, kPiece), '\0');
                                  const auto count = pread(file->descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
                                  return count > 0 && sink.write(bytes.data(), static_cast<size_t>(count));
                                });
}

void take_file(const std::filesystem::path& path, const std::string& name, size_t most_bytes, const httplib::ContentReader& read) {
  io::AtomicFile file(path);
  size_t total = 0;
  const bool is_whole = read([&](const char* bytes, size_t count) {
    total += count;
    if (total > most_bytes) return false;
    file.write(bytes, count);
    return true;
  });
  if (total > most_bytes) refuse_with(413, fmt::format("'{}' is larger than {}", name, human_bytes(static_cast<double>(most_bytes))));
  if (!is_whole) refuse_with(400, fmt::format("'{}' broke off", name));
  file.commit();
}

json body_of(const Request& request) {
  if (request.body.empty()) return json::object();
  auto value = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) config_error("studio", "the body of this request must be a JSON object");
  return value;
}

httplib::Server::Handler handled(std::function<void(const Request&, Response&)> handle) {
  return [handle = std::move(handle)](const Request& request, Response& response) {
    try {
      handle(request, response);
    } catch (const Refusal& refusal) {
      auto value = refusal.more;
      value["sentence"] = refusal.sentence;
      answer(response, value, refusal.status);
    } catch (const Error& error) {
      refuse(response, error.code() == Exit::config ? 400 : 500, without_source(error));
    } catch (const json::exception&) {
      refuse(response, 400, "the body of this request lacks something, or holds something else in its place");
    } catch (const std::exception& error) {
      refuse(response, 500, fmt::format("the studio could not do this: {}", error.what()));
    }
  };
}

}  // namespace burnish::studio
