#include "hub/aws.h"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <openssl/hmac.h>

#include <array>
#include <ctime>
#include <stdexcept>

#include "base/http_address.h"
#include "base/input_error.h"
#include "hub/hub.h"
#include "hub/variable.h"
#include "io/hash.h"

namespace burnish::hub {

namespace {

constexpr const char* kSeconds = "604800";  // the most that AWS takes

/// HMAC by SHA-256 (RFC 2104), as its bytes.
std::string keyed_hash(const std::string& key, const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  const auto* letters = reinterpret_cast<const unsigned char*>(text.data());
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), letters, text.size(), bytes.data(), &size) == nullptr)
    throw std::runtime_error("libcrypto cannot compute a keyed hash");
  return {bytes.begin(), bytes.begin() + size};
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
  AwsSettings s{.key = variable({"AWS_ACCESS_KEY_ID"}),
                .secret = variable({"AWS_SECRET_ACCESS_KEY"}),
                .session = variable({"AWS_SESSION_TOKEN"}),
                .region = variable({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1"),
                .endpoint = variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})};
  while (s.endpoint.ends_with('/')) s.endpoint.pop_back();
  if (!s.endpoint.empty() && !is_http(s.endpoint))
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
