// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/zip_file.h"

#include <minizip/zip.h>
#include <zlib.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace gpumem {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 30;  // minizip takes an unsigned int

zip_fileinfo Now() {
  const time_t now = time(nullptr);
  tm utc = {};
  gmtime_r(&now, &utc);
  zip_fileinfo info = {};
  info.tmz_date.tm_sec = utc.tm_sec;
  info.tmz_date.tm_min = utc.tm_min;
  info.tmz_date.tm_hour = utc.tm_hour;
  info.tmz_date.tm_mday = utc.tm_mday;
  info.tmz_date.tm_mon = utc.tm_mon;
  info.tmz_date.tm_year = utc.tm_year + 1900;
  return info;
}

bool Add(zipFile zip, const BundleFile& file, const zip_fileinfo& info) {
  const int is_large = file.bytes.size() >= 0xffffffff ? 1 : 0;
  if (zipOpenNewFileInZip64(zip, file.name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, Z_DEFLATED,
                            Z_DEFAULT_COMPRESSION, is_large) != ZIP_OK)
    return false;
  bool written = true;
  for (size_t at = 0; written && at < file.bytes.size(); at += kMostAtOnce) {
    const size_t size = std::min(kMostAtOnce, file.bytes.size() - at);
    written = zipWriteInFileInZip(zip, file.bytes.data() + at, static_cast<unsigned>(size)) == ZIP_OK;
  }
  return zipCloseFileInZip(zip) == ZIP_OK && written;
}

}  // namespace

absl::Status WriteZip(const std::string& path, const std::vector<BundleFile>& files) {
  const absl::Status failed = absl::UnavailableError(absl::StrCat("cannot write ", path));
  const zipFile zip = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  if (zip == nullptr) return failed;
  const zip_fileinfo info = Now();
  bool written = true;
  for (const BundleFile& file : files) written = written && Add(zip, file, info);
  return zipClose(zip, nullptr) == ZIP_OK && written ? absl::OkStatus() : failed;
}

}  // namespace gpumem
