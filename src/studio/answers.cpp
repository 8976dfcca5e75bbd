#include "studio/answers.h"

#include "base/error.h"

namespace burnish::studio {

using nlohmann::json;

void answer(Response& response, const json& value, int status) {
  response.status = status;
  response.set_header("Cache-Control", "no-store");
  response.set_content(value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace), "application/json");
}

void done(Response& response) { answer(response, json::object()); }

void refuse(Response& response, int status, const std::string& sentence) { answer(response, {{"sentence", sentence}}, status); }

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
    } catch (const Error& error) {
      refuse(response, error.code() == Exit::config ? 400 : 500, without_source(error));
    } catch (const json::exception&) {
      refuse(response, 400, "the body of this request lacks something, or holds something else in its place");
    }
  };
}

}  // namespace burnish::studio
