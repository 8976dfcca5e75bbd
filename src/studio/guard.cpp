#include "studio/guard.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <httplib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

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

/// A page that asks for the token, or the password, of who opens the address without it: %LABEL, %NOTE, %WHY.
constexpr const char* kAsk = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="referrer" content="same-origin"><link rel="icon" href="data:,"><title>Burnish Studio</title>
<style>:root { color-scheme: light dark; } body { font: 16px/1.5 system-ui, sans-serif; max-width: 26rem; margin: 15vh auto; padding: 0 1rem; }
input, button { font: inherit; width: 100%; box-sizing: border-box; padding: 0.6rem; margin-top: 0.6rem; } .why { color: light-dark(#b3261e, #ff9a91); }</style></head>
<body><main><h1>Burnish Studio</h1><form action="log_in" method="post"><label for="token">%LABEL</label>
<input id="token" name="secret" type="password" autocomplete="current-password" required autofocus aria-describedby="note">
<p id="note">%NOTE</p><p class="why" role="alert">%WHY</p>
<button>Open</button></form></main></body></html>
)";

constexpr auto kBetweenWrong = std::chrono::seconds(1);  // so that nobody finds a password by trying
constexpr std::string_view kSchemes[] = {"https://", "http://"};

}  // namespace

std::string password_in(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) config_error("studio", "password_file {} cannot be read: {}", file.string(), std::strerror(errno));
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    config_error("studio", "password_file {} can be read by others on this machine; `chmod 600 {}` keeps it to you", file.string(),
                 file.string());
  const auto lines = split_list(io::read_text(file), '\n');
  constexpr size_t kLeast = 8;
  auto password = lines.empty() ? std::string() : std::string(trim(lines[0]));
  if (password.size() < kLeast)
    config_error("studio", "the password in {} must have at least {} characters in the first line, not {}", file.string(), kLeast,
                 password.size());
  return password;
}

Guard::Guard(const std::filesystem::path& file, int port, Access access)
    : token_(token_in(file)), cookie_(fmt::format("burnish_{}", port)), access_(std::move(access)) {
  const auto& address = access_.public_address;
  if (address.empty()) return;
  for (auto scheme : kSchemes) {
    if (address.starts_with(scheme)) public_host_ = address.substr(scheme.size(), address.find('/', scheme.size()) - scheme.size());
  }
  if (public_host_.empty())
    config_error("studio", "public_address must begin with https:// or http:// and a host, not '{}': as in https://home.example/burnish",
                 address);
  public_origin_ = address.substr(0, address.find(public_host_)) + public_host_;
}

bool Guard::knows_token(const httplib::Request& request, bool& by_cookie) const {
  const auto header = request.get_header_value("Authorization");
  if (header.starts_with("Bearer ") && are_equal(header.substr(7), token_)) return true;
  by_cookie = are_equal(cookie_of(request, cookie_), token_);
  return by_cookie;
}

bool Guard::is_own_page(const std::string& origin, const std::string& host) const {
  return origin == (access_.certificate ? "https://" : "http://") + host || (!public_origin_.empty() && origin == public_origin_);
}

void Guard::let_in(httplib::Response& response, const std::string& page) const {
  const bool is_private = access_.certificate || public_origin_.starts_with("https://");
  response.set_header("Set-Cookie",
                      fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}", cookie_, token_, is_private ? "; Secure" : ""));
  response.set_redirect(page, 303);  // so that the token stays in no history
}

void Guard::ask_for_secret(httplib::Response& response, const std::string& why) const {
  std::string page = kAsk;
  const bool has_password = !access_.password.empty();
  auto put = [&](const std::string& mark, const std::string& text) { page.replace(page.find(mark), mark.size(), text); };
  put("%LABEL", has_password ? "Password" : "Token");
  put("%NOTE", has_password ? "It stands in the file that the studio was opened with; the token of its workspace will do as well."
                            : "It is part of the address that burnish studio printed, and lies in the file .token of its workspace.");
  put("%WHY", why);
  response.status = 403;
  response.set_content(page, "text/html; charset=utf-8");
}

void Guard::log_in(const httplib::Request& request, httplib::Response& response) {
  const auto secret = std::string(trim(request.get_param_value("secret")));
  std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - last_wrong_ < kBetweenWrong) return ask_for_secret(response, "Somebody has just typed a wrong one; try again in a second.");
  if (are_equal(secret, token_) || (!access_.password.empty() && are_equal(secret, access_.password))) return let_in(response, "./");
  last_wrong_ = now;
  ask_for_secret(response, access_.password.empty() ? "This is not the token of this studio." : "This is not the password of this studio.");
}

bool Guard::admits(const httplib::Request& request, httplib::Response& response) const {
  const auto host = request.get_header_value("Host");
  const bool is_known_host = access_.listens || report::is_loopback_host(host) || (!public_host_.empty() && host == public_host_);
  if (request.get_header_value_count("Host") != 1 || !is_known_host)
    return turn_away(
        request, response,
        "burnish studio answers to 127.0.0.1 and localhost alone; --listen lets others in, and --public_address names a proxy's");
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && request.path == "/" && request.has_param("token")) {
    if (!are_equal(request.get_param_value("token"), token_)) return turn_away(request, response, "this is not the token of this studio");
    let_in(response, "./");
    return false;
  }
  const auto origin = request.get_header_value("Origin");
  if (request.method == "POST" && request.path == "/log_in" && (origin.empty() || is_own_page(origin, host))) return true;
  bool by_cookie = false;
  const bool is_known = knows_token(request, by_cookie);
  if (!is_known && reads && request.path == "/") {
    ask_for_secret(response, "");
    return false;
  }
  if (!is_known) return turn_away(request, response, "open the address that burnish studio printed, which has a token in it");
  if (!reads && (by_cookie || !origin.empty()) && !is_own_page(origin, host))
    return turn_away(request, response,
                     "a page of another site may change nothing here; behind a proxy, --public_address says which is its own");
  return true;
}

}  // namespace burnish::studio
