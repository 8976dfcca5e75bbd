#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::hub {

/// An object as a bucket lists it.
struct S3Object {
  std::string key = {};
  int64_t size = 0;
  std::string tag = {};  ///< its ETag, without quotation marks
};

/// A page of a bucket's list.
struct S3Page {
  std::vector<S3Object> objects = {};
  std::string next = {};  ///< the continuation token of the page behind it; "" where there is none
};

/// Reads what ListObjectsV2 answers with encoding-type=url. A data Error for what is no such list.
S3Page read_s3_page(const std::string& xml);

/// Returns what the answer to a request that failed says ("NoSuchBucket: The specified bucket does not exist"); "" where it says nothing.
std::string s3_problem(const std::string& xml);

}  // namespace burnish::hub
