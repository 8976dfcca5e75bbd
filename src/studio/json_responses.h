#pragma once
#include <httplib.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace burnish::studio {

using httplib::Request;
using httplib::Response;

/// Answers with JSON, which is of this moment.
void answer(Response& response, const nlohmann::json& value, int status = 200);
/// Answers with {}: it is done.
void done(Response& response);
/// Says what is wrong with a request, as {"sentence"}.
void refuse(Response& response, int status, const std::string& sentence);
/// A refusal that handlers throw: a status, and what is wrong; `more` is said beside the sentence.
struct Refusal {
  int status = 0;
  std::string sentence;
  nlohmann::json more = nlohmann::json::object();
};
[[noreturn]] void refuse_with(int status, const std::string& sentence, nlohmann::json more = nlohmann::json::object());
/// Sends a file piece by piece; without a media type as one to be kept.
void send_file(const std::filesystem::path& path, Response& response, const char* media_type = nullptr);
/// Takes the body of a request into a file as it comes, so that it needs no memory. Nothing is left of one that breaks off, or is larger
/// than `most_bytes`, which is refused by the name that it was to have.
void take_file(const std::filesystem::path& path, const std::string& name, size_t most_bytes, const httplib::ContentReader& read);
/// The object that a request has as its body; {} for none, a config Error for anything else.
nlohmann::json body_of(const Request& request);
/// A handler whose errors become answers: 400 for what the one who asks can mend, 500 for what the machine does not do.
httplib::Server::Handler handled(std::function<void(const Request&, Response&)> handle);

}  // namespace burnish::studio
