#include "hub/transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/input_error.h"
#include "base/library.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/version.h"
#include "hub/partial_file.h"

namespace burnish::hub {

namespace {

constexpr size_t kMostTextBytes = size_t{256} << 20;  // a list of files is some kilobytes
constexpr size_t kMostRefusalBytes = 4096;

/// libcurl, opened when something is to be fetched.
struct Curl {
  Library library{companion("curl").string()};
  decltype(&curl_global_init) global_init = library.find("curl_global_init");
  decltype(&curl_easy_init) init = library.find("curl_easy_init");
  decltype(&curl_easy_cleanup) cleanup = library.find("curl_easy_cleanup");
  decltype(&curl_easy_setopt) setopt = library.find("curl_easy_setopt");
  decltype(&curl_easy_getinfo) getinfo = library.find("curl_easy_getinfo");
  decltype(&curl_easy_perform) perform = library.find("curl_easy_perform");
  decltype(&curl_easy_strerror) text_of_error = library.find("curl_easy_strerror");
  decltype(&curl_slist_append) list_append = library.find("curl_slist_append");
  decltype(&curl_slist_free_all) list_free = library.find("curl_slist_free_all");

  Curl() {
    if (library.is_open() && global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw std::runtime_error("libcurl cannot be set up");
  }
};

const Curl& curl() {
  static const Curl loaded;
  if (!loaded.library.is_open())
    config_error("hub",
                 "files are fetched by libcurl, which cannot be opened ({}); install the package libcurl4, or name files that are here",
                 loaded.library.problem());
  return loaded;
}

/// One transfer: what curl's calls back need.
struct Transfer {
  Answer answer;
  const std::function<bool()>& stop;
  PartialFile* file = nullptr;  ///< null: the body is a text
  int64_t size = -1;            ///< that the file shall have
  const std::function<void(int64_t)>* more = nullptr;
  CURL* handle = nullptr;
  bool begun = false;             ///< whether the first bytes of the file were judged
  std::exception_ptr error = {};  ///< thrown while bytes were taken; not to pass through curl
  std::ifstream* sent = nullptr;  ///< a file that is sent; null: none is
  double most_seconds = 0;        ///< altogether; 0: as many as it takes

  void grow(int64_t before) const { (*more)(file->size() - before); }
};

std::string lower(std::string_view text) {
  std::string result(trim(text));
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

size_t take_header(const char* bytes, size_t, size_t count, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  std::string_view line(bytes, count);
  if (line.starts_with("HTTP/")) transfer.answer.headers.clear();  // of a proxy, or of an interim answer
  if (auto colon = line.find(':'); colon != line.npos)
    transfer.answer.headers[lower(line.substr(0, colon))] = std::string(trim(line.substr(colon + 1)));
  return count;
}

/// The first byte that a part of a file is said to begin with ("bytes 100-199/200"); -1 when it is not said.
int64_t first_byte(const Transfer& transfer) {
  auto it = transfer.answer.headers.find("content-range");
  if (it == transfer.answer.headers.end() || !it->second.starts_with("bytes ")) return -1;
  auto range = std::string_view(it->second).substr(6);
  return take_number<int64_t>(range).value_or(-1);
}

/// Judges what the server begins to send; false when it is of no use.
bool begin_file(Transfer& transfer) {
  auto before = transfer.file->size();
  if (transfer.answer.status == 206 && first_byte(transfer) == before) return true;
  if (before > 0) transfer.file->restart();  // the server sends all of it, or another part
  transfer.grow(before);
  if (transfer.answer.status == 206) transfer.answer.problem = "the server sent another part than was asked for";
  return transfer.answer.status == 200;
}

bool take_file_bytes(Transfer& transfer, const char* bytes, size_t count) {
  if (!transfer.begun && !begin_file(transfer)) return false;
  transfer.begun = true;
  auto before = transfer.file->size();
  if (transfer.size >= 0 && before + static_cast<int64_t>(count) > transfer.size) {
    transfer.file->restart();
    transfer.grow(before);
    transfer.answer.problem = fmt::format("the server sends more than {} bytes", transfer.size);
    return false;
  }
  transfer.file->append(bytes, count);
  transfer.grow(before);
  return true;
}

size_t take_body(const char* bytes, size_t, size_t count, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  long status = 0;
  curl().getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  transfer.answer.status = status;
  bool is_file = transfer.file && (status == 200 || status == 206);
  try {
    if (is_file) return take_file_bytes(transfer, bytes, count) ? count : 0;
    auto& body = transfer.answer.body;
    auto most = status == 200 ? kMostTextBytes : kMostRefusalBytes;
    body.append(bytes, std::min(count, most - std::min(most, body.size())));
    return count;
  } catch (...) {
    transfer.error = std::current_exception();
    return 0;
  }
}

int check_stop(void* pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) { return static_cast<Transfer*>(pointer)->stop() ? 1 : 0; }

size_t give_bytes(char* bytes, size_t, size_t count, void* pointer) {
  auto& transfer = *static_cast<Transfer*>(pointer);
  transfer.sent->read(bytes, static_cast<std::streamsize>(count));
  const auto given = transfer.sent->gcount();
  (*transfer.more)(given);
  return static_cast<size_t>(given);
}

struct CurlDeleter {
  void operator()(CURL* handle) const { curl().cleanup(handle); }
};
struct ListDeleter {
  void operator()(curl_slist* list) const { curl().list_free(list); }
};
using Headers = std::unique_ptr<curl_slist, ListDeleter>;

void add(Headers& headers, const std::string& line) {
  auto* list = curl().list_append(headers.get(), line.c_str());
  if (!list) throw std::bad_alloc();
  static_cast<void>(headers.release());
  headers.reset(list);
}

template <class T>
void set(CURL* handle, CURLoption option, T value) {
  if (curl().setopt(handle, option, value) != CURLE_OK) throw std::runtime_error(fmt::format("libcurl lacks option {}", int{option}));
}

void set_options(CURL* handle, const std::string& url, Transfer& transfer, double stall_seconds) {
  set(handle, CURLOPT_URL, url.c_str());
  set(handle, CURLOPT_USERAGENT, (std::string("burnish/") + kVersion).c_str());
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_BUFFERSIZE, 512L << 10);
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_CONNECTTIMEOUT, static_cast<long>(std::ceil(stall_seconds)));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(std::ceil(stall_seconds)));
  set(handle, CURLOPT_HEADERFUNCTION, take_header);
  set(handle, CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
  set(handle, CURLOPT_WRITEFUNCTION, take_body);
  set(handle, CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(handle, CURLOPT_NOPROGRESS, 0L);
  set(handle, CURLOPT_XFERINFOFUNCTION, check_stop);
  set(handle, CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
}

void set_credentials(CURL* handle, const Request& request) {
  if (!request.cookie.empty()) set(handle, CURLOPT_COOKIE, request.cookie.c_str());
  if (request.token.empty()) return;
  set(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
  set(handle, CURLOPT_XOAUTH2_BEARER, request.token.c_str());
}

/// Has the request send its JSON, or the file of the transfer.
void set_body(CURL* handle, const Request& request, Transfer& transfer) {
  if (!request.json.empty()) {
    set(handle, CURLOPT_POSTFIELDS, request.json.c_str());
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.json.size()));
  }
  if (transfer.sent == nullptr) return;
  set(handle, CURLOPT_UPLOAD, 1L);
  set(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.size));
  set(handle, CURLOPT_READFUNCTION, give_bytes);
  set(handle, CURLOPT_READDATA, static_cast<void*>(&transfer));
}

/// Scheme, host and port: "https://host".
std::string origin(const std::string& url) {
  auto host = url.find("://");
  return host == url.npos ? url : lower(url.substr(0, url.find_first_of("/?#", host + 3)));
}

/// Asks at one address. Where that sends us on, the address to go to; else "".
std::string perform_once(Transfer& transfer, const std::string& url, const Request& request, curl_slist* headers, double stall_seconds) {
  std::unique_ptr<CURL, CurlDeleter> handle(curl().init());
  if (!handle) throw std::bad_alloc();
  transfer.handle = handle.get();
  char text[CURL_ERROR_SIZE] = "";
  set_options(handle.get(), url, transfer, stall_seconds);
  if (origin(url) == origin(request.url)) set_credentials(handle.get(), request);
  set_body(handle.get(), request, transfer);
  if (transfer.most_seconds > 0) set(handle.get(), CURLOPT_TIMEOUT, static_cast<long>(std::ceil(transfer.most_seconds)));
  set(handle.get(), CURLOPT_ERRORBUFFER, text);
  set(handle.get(), CURLOPT_HTTPHEADER, headers);
  auto result = curl().perform(handle.get());
  if (transfer.error) std::rethrow_exception(transfer.error);
  long status = 0;
  char* next = nullptr;
  curl().getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  curl().getinfo(handle.get(), CURLINFO_REDIRECT_URL, &next);
  transfer.answer.status = status;
  if (result != CURLE_OK && transfer.answer.problem.empty()) transfer.answer.problem = text[0] ? text : curl().text_of_error(result);
  return next && transfer.answer.problem.empty() ? next : "";
}

/// Makes a request and follows where it is sent. Not left to curl, which takes a cookie along to another port of a host.
void perform(Transfer& transfer, const Request& request, const Headers& headers, double stall_seconds) {
  constexpr int kMostRedirects = 10;
  auto url = request.url;
  for (int i = 0; i <= kMostRedirects; ++i) {
    transfer.answer = {};
    auto next = perform_once(transfer, url, request, headers.get(), stall_seconds);
    if (next.empty()) return;
    if (url.starts_with("https:") && !next.starts_with("https:")) {
      transfer.answer.problem = "it sends us on to an address without TLS, " + origin(next);
      return;
    }
    url = next;
  }
  transfer.answer.problem = fmt::format("it sends us on more than {} times", kMostRedirects);
}

/// Headers of a request that sends something. An empty Expect keeps curl from waiting for a server that does not know it.
Headers headers_of(const Request& request) {
  Headers headers;
  add(headers, "Content-Type: " + request.media_type);
  add(headers, "Expect:");
  for (const auto& [name, value] : request.headers) add(headers, fmt::format("{}: {}", name, value));
  return headers;
}

/// An entity tag that stands for the bytes, so that a rest can be asked for only if they are the same (RFC 9110, section 13.1.5).
std::string strong_tag(const Answer& answer) {
  auto it = answer.headers.find("etag");
  return it != answer.headers.end() && it->second.starts_with('"') ? it->second : "";
}

bool is_worth_another_attempt(const Answer& answer) {
  bool broke_off = answer.status == 0 || answer.status == 200 || answer.status == 206 || answer.status == 416;
  return broke_off || answer.status == 408 || answer.status == 429 || answer.status >= 500;
}

/// Seconds that the server asks to wait; 0 when it says nothing. Dates are not read: hubs give seconds.
double retry_after(const Answer& answer) {
  auto it = answer.headers.find("retry-after");
  double seconds = 0;
  if (it != answer.headers.end()) std::from_chars(it->second.data(), it->second.data() + it->second.size(), seconds);
  return std::isfinite(seconds) ? std::max(seconds, 0.0) : 0;
}

}  // namespace

Transport::Transport(Patience patience, std::function<bool()> stop) : patience_(patience), stop_(std::move(stop)) {}

void Transport::wait(double seconds) const {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!stop_() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

/// Waits and says so, where another attempt is worth it; false where it is not.
bool Transport::try_again(const Request& request, const Answer& answer, int attempt) const {
  if (stop_() || attempt >= patience_.max_attempts || !is_worth_another_attempt(answer)) return false;
  auto asked = retry_after(answer);
  if (asked > patience_.longest_delay) return false;
  auto delay = asked > 0 ? asked : patience_.first_delay * std::exp2(attempt - 1);
  auto reason = answer.problem.empty() ? fmt::format("the server answers {}", answer.status) : answer.problem;
  info("{}: {}; trying again in {}", request.url.substr(0, request.url.find('?')), reason, human_seconds(std::max(1.0, delay)));
  wait(delay);
  return !stop_();
}

Answer Transport::get(const Request& request) const {
  for (int attempt = 1;; ++attempt) {
    Transfer transfer{.answer = {}, .stop = stop_};
    perform(transfer, request, {}, patience_.stall_seconds);
    if (transfer.answer.is_good() || !try_again(request, transfer.answer, attempt)) return transfer.answer;
  }
}

Answer Transport::post(const Request& request) const {
  Transfer transfer{.answer = {}, .stop = stop_, .most_seconds = patience_.stall_seconds};
  perform_once(transfer, request.url, request, headers_of(request).get(), patience_.stall_seconds);
  return transfer.answer;
}

Answer Transport::send(const Request& request) const {
  for (int attempt = 1;; ++attempt) {
    Transfer transfer{.answer = {}, .stop = stop_};
    perform_once(transfer, request.url, request, headers_of(request).get(), patience_.stall_seconds);
    if (transfer.answer.is_good() || !try_again(request, transfer.answer, attempt)) return transfer.answer;
  }
}

Answer Transport::upload(const Request& request, const std::filesystem::path& file, const std::function<void(int64_t)>& gone) const {
  for (int attempt = 1;; ++attempt) {
    int64_t num_gone = 0;
    const std::function<void(int64_t)> count = [&](int64_t more) {
      num_gone += more;
      gone(more);
    };
    std::ifstream bytes(file, std::ios::binary);
    Transfer transfer{
        .answer = {}, .stop = stop_, .size = static_cast<int64_t>(std::filesystem::file_size(file)), .more = &count, .sent = &bytes};
    perform_once(transfer, request.url, request, headers_of(request).get(), patience_.stall_seconds);
    if (transfer.answer.is_good() || !try_again(request, transfer.answer, attempt)) return transfer.answer;
    gone(-num_gone);
  }
}

Answer Transport::download(const Request& request, PartialFile& file, int64_t size, const std::function<void(int64_t)>& more) const {
  std::string tag;
  auto furthest = file.size();
  for (int attempt = 1;; ++attempt) {
    auto before = file.size();
    if (size >= 0 && before == size) return {.status = 200};
    if (size >= 0 && before > size) {
      file.restart();
      more(-before);
    }
    Transfer transfer{.answer = {}, .stop = stop_, .file = &file, .size = size, .more = &more};
    Headers headers;
    if (file.size() > 0) {
      add(headers, fmt::format("Range: bytes={}-", file.size()));
      if (!tag.empty()) add(headers, "If-Range: " + tag);
    }
    perform(transfer, request, headers, patience_.stall_seconds);
    auto& answer = transfer.answer;
    bool came = answer.status == 200 || answer.status == 206;
    bool whole = came && (size >= 0 ? file.size() == size : answer.problem.empty());
    if (whole) return {.status = 200};
    if (came && answer.problem.empty()) answer.problem = fmt::format("the server sent {} of {} bytes", file.size(), size);
    if (came) tag = strong_tag(answer);
    if (answer.status == 416) {  // what is there is no beginning of what the server has
      more(-file.size());
      file.restart();
      answer.problem = "the server has no such part of the file";
    }
    if (file.size() > furthest) attempt = 1;
    furthest = std::max(furthest, file.size());
    if (!try_again(request, answer, attempt)) return answer;
  }
}

}  // namespace burnish::hub
