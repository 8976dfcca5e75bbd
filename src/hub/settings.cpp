#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/home.h"
#include "base/http_address.h"
#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"
#include "hub/variable.h"
#include "io/files.h"

namespace burnish::hub {

namespace fs = std::filesystem;

namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Reads a switch as huggingface_hub does.
bool is_on(const char* name) {
  auto value = upper(variable({name}));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

/// The address in a variable, with https where it does not say how.
std::string endpoint(std::initializer_list<const char*> names, const std::string& otherwise) {
  auto text = variable(names, otherwise);
  auto scheme = text.substr(0, text.find("://"));
  if (scheme != text && scheme != "http" && scheme != "https")
    config_error("hub", "{} must be an address of http or https, not '{}'", *names.begin(), text);
  if (!is_http(text)) text = "https://" + text;
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string offline_variable() {
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (is_on(name)) return name;
  }
  auto skip = upper(variable({"DIFFSYNTH_SKIP_DOWNLOAD"}, "false"));
  if (skip != "TRUE" && skip != "FALSE" && skip != "1" && skip != "0")
    config_error("hub", "DIFFSYNTH_SKIP_DOWNLOAD must be true or false, not '{}'", variable({"DIFFSYNTH_SKIP_DOWNLOAD"}));
  return skip == "TRUE" || skip == "1" ? "DIFFSYNTH_SKIP_DOWNLOAD" : "";
}

std::optional<Source> source() {
  auto name = upper(variable({"DIFFSYNTH_DOWNLOAD_SOURCE"}));
  if (name.empty()) return std::nullopt;
  if (name == "HUGGINGFACE") return Source::huggingface;
  if (name == "MODELSCOPE") return Source::modelscope;
  config_error("hub", "DIFFSYNTH_DOWNLOAD_SOURCE must be modelscope or huggingface, not '{}'", variable({"DIFFSYNTH_DOWNLOAD_SOURCE"}));
}

double timeout() {
  auto text = variable({"HF_HUB_DOWNLOAD_TIMEOUT"});
  if (text.empty()) return Settings().timeout;
  const auto seconds = parse_number<double>(text);
  if (!seconds || *seconds < 1 || *seconds > 86400)
    config_error("hub", "HF_HUB_DOWNLOAD_TIMEOUT must be a number of seconds from 1 to 86400, not '{}'", text);
  return *seconds;
}

std::string token_of_file(const fs::path& path) {
  std::error_code failed;
  return fs::is_regular_file(path, failed) ? std::string(trim(io::read_text(path))) : "";
}

}  // namespace

Settings settings_from_environment() {
  Settings s;
  s.source = source();
  s.offline = offline_variable();
  s.timeout = timeout();
  s.model_base = variable({"DIFFSYNTH_MODEL_BASE_PATH"}, "./models");
  auto caches = with_home(variable({"XDG_CACHE_HOME"}, "~/.cache"));
  auto home = with_home(variable({"HF_HOME"}, caches + "/huggingface"));
  s.huggingface_cache = with_home(variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}, home + "/hub"));
  s.huggingface_endpoint = endpoint({"HF_ENDPOINT"}, "https://huggingface.co");
  s.huggingface_token = variable({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  if (s.huggingface_token.empty()) s.huggingface_token = token_of_file(with_home(variable({"HF_TOKEN_PATH"}, home + "/token")));
  s.modelscope_endpoint = endpoint({"MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN"}, "https://www.modelscope.cn");
  s.modelscope_token = variable({"MODELSCOPE_API_TOKEN"});
  s.modelscope_cache = with_home(variable({"MODELSCOPE_CACHE"}, "~/.cache/modelscope"));
  return s;
}

}  // namespace burnish::hub
