#include "hub/aws.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <array>
#include <cstdlib>
#include <ctime>

#include "base/input_error.h"
#include "hub/hub.h"
#include "io/hash.h"

namespace burnish::hub {

namespace {

constexpr const char* kSeconds = "604800";  // the most that AWS takes

std::string of_environment(std::initializer_list<const char*> names, const std::string& otherwise = "") {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) return value;
  }
  return otherwise;
}

/// Turns digits of a hash into its bytes.
std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// HMAC by SHA-256 (RFC 2104), as its bytes.
std::string keyed_hash(std::string key, const std::string& text) {
  constexpr size_t kBlock = 64;
  if (key.size() > kBlock) key = bytes_of(io::sha256(key));
  key.resize(kBlock, 0);
  std::string inner, outer;
  for (const char c : key) {
    inner += static_cast<char>(c ^ 0x36);
    outer += static_cast<char>(c ^ 0x5c);
  }
  return bytes_of(io::sha256(outer + bytes_of(io::sha256(inner + text))));
}

std::string hex_of(const std::string& bytes) {
  std::string hex;
  for (const unsigned char c : bytes) hex += fmt::format("{:02x}", c);
  return hex;
}

std::string query_text(const std::map<std::string, std::string>& query) {
  std::string text;
  for (const auto& [name, value] : query) text += fmt::format("{}{}={}", text.empty() ? "" : "&", url_encoded(name), url_encoded(value));
  return text;
}

}  // namespace

AwsSettings aws_settings_from_environment() {
  AwsSettings s{.key = of_environment({"AWS_ACCESS_KEY_ID"}),
                .secret = of_environment({"AWS_SECRET_ACCESS_KEY"}),
                .session = of_environment({"AWS_SESSION_TOKEN"}),
                .region = of_environment({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1"),
                .endpoint = of_environment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})};
  while (s.endpoint.ends_with('/')) s.endpoint.pop_back();
  if (!s.endpoint.empty() && !s.endpoint.starts_with("http://") && !s.endpoint.starts_with("https://"))
    config_error("hub", "AWS_ENDPOINT_URL must be an address of http or https, not '{}'", s.endpoint);
  if (s.key.empty() != s.secret.empty())
    config_error("hub", "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY one is set; set both, or neither for buckets that all may read");
  return s;
}

S3Url s3_url(const AwsSettings& settings, const std::string& bucket, const std::string& key) {
  const auto path = "/" + url_encoded(key, "/");
  if (!settings.endpoint.empty()) {
    const auto folder = settings.endpoint.find('/', settings.endpoint.find("://") + 3);
    const auto base = folder == std::string::npos ? "" : settings.endpoint.substr(folder);
    return {.origin = settings.endpoint.substr(0, folder), .path = base + "/" + bucket + path};
  }
  const auto host = fmt::format("s3.{}.amazonaws.com", settings.region);
  if (bucket.find('.') != bucket.npos) return {.origin = "https://" + host, .path = "/" + bucket + path};
  return {.origin = fmt::format("https://{}.{}", bucket, host), .path = path};
}

std::string signed_address(const AwsSettings& settings, const S3Url& url, const std::string& time) {
  auto query = url.query;
  if (settings.key.empty()) return url.origin + url.path + (query.empty() ? "" : "?" + query_text(query));
  const auto at = time.empty() ? fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr))) : time;
  const auto day = at.substr(0, 8), scope = fmt::format("{}/{}/s3/aws4_request", day, settings.region);
  query["X-Amz-Algorithm"] = "AWS4-HMAC-SHA256";
  query["X-Amz-Credential"] = settings.key + "/" + scope;
  query["X-Amz-Date"] = at;
  query["X-Amz-Expires"] = kSeconds;
  query["X-Amz-SignedHeaders"] = "host";
  if (!settings.session.empty()) query["X-Amz-Security-Token"] = settings.session;
  const auto host = url.origin.substr(url.origin.find("://") + 3);
  const auto asked = fmt::format("GET\n{}\n{}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD", url.path, query_text(query), host);
  const auto signs = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", at, scope, io::sha256(asked));
  auto key = "AWS4" + settings.secret;
  for (const std::string& part : {day, settings.region, std::string("s3"), std::string("aws4_request")}) key = keyed_hash(key, part);
  return fmt::format("{}{}?{}&X-Amz-Signature={}", url.origin, url.path, query_text(query), hex_of(keyed_hash(key, signs)));
}

}  // namespace burnish::hub
