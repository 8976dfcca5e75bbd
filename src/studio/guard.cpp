#include "studio/guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <httplib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/input_error.h"
#include "base/text.h"
#include "io/files.h"
#include "report/local_server.h"
#include "studio/json_responses.h"

namespace burnish::studio {

namespace {

constexpr size_t kTokenBytes = 24;

std::string random_token() {
  std::array<unsigned char, kTokenBytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    data_error("studio", "the system gives no random numbers: {}", std::strerror(errno));
  std::string text;
  for (auto byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

/// A file of the user's alone, made where it is not there.
std::string token_in(const std::filesystem::path& file) {
  int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (descriptor >= 0) {
    const auto token = random_token();
    const bool is_written = write(descriptor, token.data(), token.size()) == static_cast<ssize_t>(token.size());
    close(descriptor);
    if (!is_written) data_error("studio", "{} cannot be written", file.string());
    return token;
  }
  if (errno != EEXIST) data_error("studio", "{} cannot be made: {}", file.string(), std::strerror(errno));
  auto token = io::read_text(file);
  if (token.size() != 2 * kTokenBytes)
    data_error("studio", "{} holds no token of {} characters; remove it, and a new one is made", file.string(), 2 * kTokenBytes);
  return token;
}

/// Compares in a time that does not tell how much of a guess is right.
bool are_equal(const std::string& a, const std::string& b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

std::string cookie_of(const httplib::Request& request, const std::string& name) {
  for (const auto& word : split_list(request.get_header_value("Cookie"), ';')) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return "";
}

/// Says why to a program as all of the interface does, and to a browser as a line.
bool turn_away(const httplib::Request& request, httplib::Response& response, const std::string& why) {
  if (request.path.starts_with("/api")) return refuse(response, 403, why), false;
  response.status = 403;
  response.set_content(why + "\n", "text/plain");
  return false;
}

/// A page that asks for the token, for who opens the address without it.
constexpr const char* kAskForToken = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Burnish Studio</title>
<style>:root { color-scheme: light dark; } body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto; padding: 0 1rem; }
input, button { font: inherit; width: 100%; box-sizing: border-box; padding: 0.6rem; margin-top: 0.6rem; }</style></head>
<body><main><h1>Burnish Studio</h1><form action="/" method="get"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus aria-describedby="note">
<p id="note">It is part of the address that burnish studio printed, and lies in the file .token of its workspace.</p>
<button>Open</button></form></main></body></html>
)";

}  // namespace

Guard::Guard(const std::filesystem::path& file, int port, bool listens)
    : token_(token_in(file)), cookie_(fmt::format("burnish_{}", port)), listens_(listens) {}

bool Guard::knows_token(const httplib::Request& request, bool& by_cookie) const {
  const auto header = request.get_header_value("Authorization");
  if (header.starts_with("Bearer ") && are_equal(header.substr(7), token_)) return true;
  by_cookie = are_equal(cookie_of(request, cookie_), token_);
  return by_cookie;
}

bool Guard::admits(const httplib::Request& request, httplib::Response& response) const {
  const auto host = request.get_header_value("Host");
  if (request.get_header_value_count("Host") != 1 || !(listens_ || report::is_loopback_host(host)))
    return turn_away(request, response, "burnish studio answers to 127.0.0.1 and localhost alone; --listen lets others in");
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && request.path == "/" && request.has_param("token")) {
    if (!are_equal(request.get_param_value("token"), token_)) return turn_away(request, response, "this is not the token of this studio");
    response.set_header("Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_, token_));
    response.set_redirect("/", 303);  // so that the token stays in no history
    return false;
  }
  bool by_cookie = false;
  const bool is_known = knows_token(request, by_cookie);
  if (!is_known && reads && request.path == "/") {
    response.status = 403;
    response.set_content(kAskForToken, "text/html; charset=utf-8");
    return false;
  }
  if (!is_known) return turn_away(request, response, "open the address that burnish studio printed, which has a token in it");
  const auto origin = request.get_header_value("Origin");
  if (!reads && (by_cookie || !origin.empty()) && origin != "http://" + host)
    return turn_away(request, response, "a page of another site may change nothing here");
  return true;
}

}  // namespace burnish::studio
