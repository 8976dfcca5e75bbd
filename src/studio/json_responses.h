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
/// Sends a file piece by piece; without a media type as one to be kept.
void send_file(const std::filesystem::path& path, Response& response, const char* media_type = nullptr);
/// Takes the body of a request into a file as it comes, so that it needs no memory. False, and nothing is left, for one that breaks off or
/// is larger than `most_bytes`, which is then said.
bool take_file(const std::filesystem::path& path, size_t most_bytes, Response& response, const httplib::ContentReader& read);
/// The object that a request has as its body; {} for none, a config Error for anything else.
nlohmann::json body_of(const Request& request);
/// A handler whose Errors become answers: 400 for what the one who asks can mend, 500 for the rest.
httplib::Server::Handler handled(std::function<void(const Request&, Response&)> handle);

}  // namespace burnish::studio
