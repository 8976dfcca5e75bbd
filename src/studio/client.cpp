#include "studio/client.h"

#include <fmt/core.h>
#include <httplib.h>

#include <cctype>
#include <nlohmann/json.hpp>

#include "io/files.h"

namespace burnish::studio {

namespace {
constexpr time_t kMostSeconds = 330;  // a plan may take five minutes (studio/program.cpp)
}

Answered Client::ask(const std::string& method, const std::string& path, const nlohmann::json& body) const {
  httplib::Client client(place_.address());
  client.enable_server_certificate_verification(false);  // it is for the name that others know this machine by
  client.set_read_timeout(kMostSeconds);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.headers = {{"Authorization", "Bearer " + token_}};
  if (!body.is_null()) {
    request.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    request.set_header("Content-Type", "application/json");
  }
  const auto answer = client.send(request);
  if (!answer) return {};
  return {answer->status, answer->get_header_value("Content-Type"), answer->body};
}

std::optional<Client> client_of(const std::filesystem::path& workspace) {
  const auto place = place_of_open(workspace);
  if (!place || !io::is_there(workspace / ".token")) return std::nullopt;
  return Client(*place, io::read_text(workspace / ".token"));
}

std::string in_address(const std::string& name) {
  std::string text;
  for (unsigned char c : name) {
    const bool stays = std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '~';
    text += stays ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return text;
}

}  // namespace burnish::studio
