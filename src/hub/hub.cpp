#include "hub/hub.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace burnish::hub {

namespace {

constexpr const char* kKept = "what was fetched is kept, and the same command goes on from there";

std::string header(const Answer& answer, const std::string& name) {
  auto it = answer.headers.find(name);
  return it == answer.headers.end() ? "" : it->second;
}

/// One part of an id, or of a path.
bool is_plain_name(const std::string& name) {
  auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= 96 && name.front() != '.' && name.front() != '-' && std::ranges::all_of(name, fits);
}

}  // namespace

bool is_model_id(const std::string& text) {
  auto slash = text.find('/');
  return slash != text.npos && is_plain_name(text.substr(0, slash)) && is_plain_name(text.substr(slash + 1));
}

bool is_dataset_id(const std::string& id) { return id.starts_with("datasets/"); }

bool is_safe_path(const std::string& path) {
  for (size_t begin = 0; begin <= path.size();) {
    auto end = std::min(path.find('/', begin), path.size());
    auto part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos) return false;
    begin = end + 1;
  }
  return true;
}

std::string hexadecimal(std::string text, size_t num_digits) {
  bool is_one = text.size() == num_digits && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); });
  if (!is_one) return "";
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string url_encoded(const std::string& text, const std::string& kept) {
  std::string encoded;
  for (unsigned char c : text) {
    bool plain =
        (c < 0x80 && std::isalnum(c)) || c == '-' || c == '.' || c == '_' || c == '~' || kept.find(static_cast<char>(c)) != kept.npos;
    encoded += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return encoded;
}

void check_interrupt() {
  if (interrupted()) throw Error(Exit::interrupted, "hub", fmt::format("interrupted; {}", kKept));
}

void Hub::refuse(const Answer& answer, const std::string& id, const std::string& path) const {
  check_interrupt();
  const bool is_dataset = is_dataset_id(id);
  auto model = fmt::format("{}'{}'", is_dataset ? "" : "the model ", id),
       what = path.empty() ? model : fmt::format("'{}' of '{}'", path, id);
  auto status = answer.status;
  if (status == 401) {
    auto token = has_token() ? fmt::format("the token in {} may not read it", token_variable())
                             : fmt::format("set {} to a token of an account that may read it", token_variable());
    data_error("hub", "{} does not show {} (401): {}, or there is none of this name, here or there", name(), what, token);
  }
  if (status == 403) {
    bool gated = header(answer, "x-error-code") == "GatedRepo";
    data_error("hub", "{} refuses {} (403): {}open {}/{} in a browser, accept its terms, and set {} to a token of that account", name(),
               what, gated ? "the model is gated; " : "", endpoint(), id, token_variable());
  }
  if (status == 404 && path.empty() && is_dataset)
    data_error("hub", "there is no '{}' of this revision on {} (404): check the spelling, and after @ the name of the revision", id,
               name());
  if (status == 404 && path.empty()) {
    auto other = source() == Source::huggingface ? "modelscope" : "huggingface";
    data_error("hub",
               "there is no model '{}', neither here nor on {} (404): check the spelling of its path or id, or ask the other hub with "
               "DIFFSYNTH_DOWNLOAD_SOURCE={}",
               id, name(), other);
  }
  if (status == 404)
    data_error("hub", "{} has no file {} (404): the model was changed, or its list of files is old; try again", name(), what);
  if (status == 429) {
    data_error("hub", "{} asks for fewer requests (429) before it sends {}: try again in some minutes{}; {}", name(), what,
               has_token() ? "" : fmt::format(", or with a token in {}", token_variable()), kKept);
  }
  if (status >= 500) {
    data_error("hub", "{} failed to send {} ({}): try again later, or another address in {}; {}", name(), what, status, endpoint_variable(),
               kKept);
  }
  if (status == 0) {
    data_error("hub",
               "{} is not here, and {} cannot be reached at {} ({}): check its path, the network and https_proxy, or name a mirror in "
               "{}; {}",
               what, name(), endpoint(), answer.problem, endpoint_variable(), kKept);
  }
  if (status == 200 || status == 206 || status == 416) {
    data_error("hub", "{} broke off in the middle of {} ({}): try again, or another address in {}; {}", name(), what, answer.problem,
               endpoint_variable(), kKept);
  }
  data_error("hub", "{} answers {} to the question for {}{}: check the address in {}", name(), status, what,
             answer.problem.empty() ? "" : fmt::format(" ({})", answer.problem), endpoint_variable());
}

std::unique_ptr<Hub> make_hub(Source source, const Settings& settings) {
  return source == Source::huggingface ? make_huggingface(settings) : make_modelscope(settings);
}

}  // namespace burnish::hub
