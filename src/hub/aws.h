#pragma once
#include <map>
#include <string>

namespace burnish::hub {

/// The settings that AWS's own programs read of the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION
/// (or AWS_DEFAULT_REGION) and AWS_ENDPOINT_URL_S3 (or AWS_ENDPOINT_URL), which names another store that speaks S3.
struct AwsSettings {
  std::string key = {}, secret = {}, session = {};  ///< "" where nothing is signed, as of buckets that all may read
  std::string region = "us-east-1", endpoint = {};
};
AwsSettings aws_settings_from_environment();

/// An address in parts; the path is encoded, the query is not.
struct S3Url {
  std::string origin = {};  ///< "https://host:port"
  std::string path = "/";
  std::map<std::string, std::string> query = {};
};
/// Makes the address of an object of a bucket, or of the bucket where `key` is "": below the endpoint by its path, and at AWS by its host
/// but for buckets whose names have dots, which no certificate of AWS's covers.
S3Url s3_url(const AwsSettings& settings, const std::string& bucket, const std::string& key);

/// Writes the address whole, with the right to read it for a week in its query where there are keys (AWS Signature Version 4, query
/// parameters): whoever has it needs no keys, so it is not to be told. `time` is UTC as "20261130T123456Z"; "" is now.
std::string signed_address(const AwsSettings& settings, const S3Url& url, const std::string& time = "");

}  // namespace burnish::hub
