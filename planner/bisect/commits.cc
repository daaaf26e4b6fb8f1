// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// Commits of the repository that the working directory is in, in a clone of our own that shares its objects: the user's
// repository is only read. What git does not track there (data, environments) is linked, small files are copied.

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/format.h"
#include "base/status_macros.h"
#include "planner/bisect/history.h"

namespace gpumem::plan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCopiedFiles = 2000;
constexpr uint64_t kMostCopiedBytes = 64 << 20;
constexpr size_t kMostPathsNamed = 8;

// Folders on the interpreter's path that lie below argv[1]: of `pip install -e .` and the like.
constexpr char kAskEditable[] = R"(
import os, sys
root = os.path.realpath(sys.argv[1])
below = lambda path: os.path.realpath(path).startswith(root + os.sep) or os.path.realpath(path) == root
found = [path for path in sys.path if path and below(path) and "site-packages" not in path]
for finder in sys.meta_path:
    module = sys.modules.get(getattr(finder, "__module__", ""))
    for path in (getattr(module, "MAPPING", None) or {}).values():
        if below(path):
            found.append(os.path.dirname(path))
print("\n".join(dict.fromkeys(os.path.relpath(os.path.realpath(path), root) for path in found)))
)";

// Nothing of the user's repository or settings may be changed or run by asking it.
std::vector<std::string> GitWords(const std::string& root, const std::vector<std::string>& words) {
  std::vector<std::string> all = {"-u",
                                  "GIT_DIR",
                                  "-u",
                                  "GIT_WORK_TREE",
                                  "-u",
                                  "GIT_INDEX_FILE",
                                  "GIT_OPTIONAL_LOCKS=0",
                                  "GIT_TERMINAL_PROMPT=0",
                                  "GIT_LFS_SKIP_SMUDGE=1",
                                  "git",
                                  "-C",
                                  root,
                                  "-c",
                                  "core.hooksPath=/dev/null",
                                  "-c",
                                  "core.fsmonitor=false",
                                  "-c",
                                  "advice.detachedHead=false"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

absl::StatusOr<std::string> Git(const std::string& root, const std::vector<std::string>& words) {
  return OutputOf(GitWords(root, words));
}

absl::Status AsUsage(const absl::Status& status, const std::string& what) {
  if (!absl::IsFailedPrecondition(status)) return status;
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", status.message()));
}

bool Matches(const std::string& path, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    const std::string bare(absl::StripSuffix(pattern, "/"));
    return fnmatch(bare.c_str(), path.c_str(), 0) == 0 ||
           fnmatch(bare.c_str(), fs::path(path).filename().c_str(), 0) == 0;
  });
}

// What a program writes by itself, and what every folder has.
bool IsLitter(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name == "__pycache__" || name == ".git" || absl::EndsWith(name, ".pyc") || absl::EndsWith(name, ".gmtrace") ||
         name == ".pytest_cache" || name == ".mypy_cache" || name == ".ruff_cache";
}

// Whether a folder is small enough to be copied: what a program writes into it then stays away from the user's.
bool IsSmall(const fs::path& folder) {
  std::error_code error;
  size_t files = 0;
  uint64_t bytes = 0;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename() == "pyvenv.cfg") return false;
    std::error_code ignored;
    if (entry->is_regular_file(ignored)) bytes += entry->file_size(ignored);
    if (++files > kMostCopiedFiles || bytes > kMostCopiedBytes) return false;
  }
  return !error;
}

class CommitHistory final : public History {
 public:
  CommitHistory(std::string root, std::string prefix, const CommitsRequest& request, const std::string& folder)
      : root_(std::move(root)), prefix_(std::move(prefix)), request_(request), tree_(absl::StrCat(folder, "/tree")) {}

  ~CommitHistory() override {
    std::error_code ignored;
    fs::remove_all(tree_, ignored);
  }

  absl::Status Open() {
    GPUMEM_RETURN_IF_ERROR(List());
    GPUMEM_RETURN_IF_ERROR(Clone());
    GPUMEM_RETURN_IF_ERROR(FindUntracked());
    return FindEditable();
  }

  absl::Status Prepare(size_t index, RunRequest* run) override {
    RemoveLinks();
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"clean", "-q", "-ffdx"},
          std::vector<std::string>{"checkout", "-q", "--force", "--detach", hashes_[index]}})
      GPUMEM_RETURN_IF_ERROR(Git(tree_, words).status());
    GPUMEM_RETURN_IF_ERROR(MakeLinks());
    run->directory = (fs::path(tree_) / prefix_).string();
    if (std::error_code error; !fs::is_directory(run->directory, error))
      return absl::FailedPreconditionError(absl::StrCat("has no folder ", prefix_));
    run->command = request_.command;
    // The user's own tree is not what is asked about.
    for (std::string& word : run->command) word = absl::StrReplaceAll(word, {{root_ + "/", tree_ + "/"}});
    run->environment.emplace_back("PYTHONDONTWRITEBYTECODE", "1");
    if (!editable_.empty()) {
      std::vector<std::string> folders;
      for (const std::string& path : editable_) folders.push_back((fs::path(tree_) / path).lexically_normal().string());
      run->environment.emplace_back("PYTHONPATH", PathWithFirst("PYTHONPATH", folders));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<std::string> Commit(const std::string& revision) const {
    absl::StatusOr<std::string> hash =
        Git(root_, {"rev-parse", "--verify", "-q", "--end-of-options", revision + "^{commit}"});
    if (absl::IsFailedPrecondition(hash.status()))
      return absl::InvalidArgumentError(absl::StrCat("\"", revision, "\" is no commit of ", root_));
    return hash;
  }

  bool IsAncestor(const std::string& older, const std::string& newer) const {
    return Git(root_, {"merge-base", "--is-ancestor", older, newer}).ok();
  }

  absl::Status List() {
    GPUMEM_ASSIGN_OR_RETURN(std::string older, Commit(request_.good));
    GPUMEM_ASSIGN_OR_RETURN(std::string newer, Commit(request_.bad));
    if (older == newer)
      return absl::InvalidArgumentError(absl::StrCat(request_.good, " and ", request_.bad, " are one commit"));
    if (!IsAncestor(older, newer)) {
      if (!IsAncestor(newer, older))
        return absl::InvalidArgumentError(absl::StrCat("neither of ", request_.good, " and ", request_.bad,
                                                       " comes from the other. Compare them with: git merge-base ",
                                                       request_.good, " ", request_.bad));
      std::swap(older, newer);
      notes_.push_back(
          absl::StrCat(request_.bad, " is older than ", request_.good, ": steps are told from older to newer"));
    }
    const std::string format = "--format=%H%x1f%h%x1f%T%x1f%ad%x1f%an%x1f%s%x1f%P";
    GPUMEM_ASSIGN_OR_RETURN(const std::string first, Git(root_, {"log", "-1", "--date=short", format, older}));
    GPUMEM_ASSIGN_OR_RETURN(const std::string rest, Git(root_, {"log", "--first-parent", "--reverse", "--date=short",
                                                                format, absl::StrCat(older, "..", newer)}));
    size_t merges = 0;
    for (const absl::string_view line : absl::StrSplit(absl::StrCat(first, "\n", rest), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> words = absl::StrSplit(line, '\x1f');
      if (words.size() < 7) continue;
      hashes_.push_back(words[0]);
      states_.push_back({words[1], absl::StrCat("tree ", words[2]), words[3], words[4], words[5]});
      if (absl::StrContains(words[6], ' ')) ++merges;
    }
    if (merges > 0)
      notes_.push_back(absl::StrCat(FormatCountOf(merges, "merge counts", "merges count"),
                                    " as one step: give a merge's parents as --good and --bad to look into it"));
    return absl::OkStatus();
  }

  absl::Status Clone() {
    std::error_code error;
    fs::remove_all(tree_, error);
    return AsUsage(OutputOf({"GIT_TERMINAL_PROMPT=0", "git", "clone", "-q", "--shared", "--no-checkout", "--no-tags",
                             root_, tree_})
                       .status(),
                   absl::StrCat("cannot clone ", root_));
  }

  absl::Status FindUntracked() {
    GPUMEM_ASSIGN_OR_RETURN(const std::string listed,
                            Git(root_, {"ls-files", "--others", "--directory", "--no-empty-directory", "-z"}));
    GPUMEM_ASSIGN_OR_RETURN(const std::string modules, Git(root_, {"ls-files", "--stage", "-z"}));
    std::vector<std::string> left;
    for (const absl::string_view entry : absl::StrSplit(listed, '\0', absl::SkipEmpty())) {
      const std::string path(absl::StripSuffix(entry, "/"));
      if (IsLitter(path)) continue;
      const bool is_wanted = request_.link.empty() || Matches(path, request_.link);
      (is_wanted && !Matches(path, request_.no_link) ? untracked_ : left).push_back(path);
    }
    for (const absl::string_view entry : absl::StrSplit(modules, '\0', absl::SkipEmpty())) {
      const std::vector<std::string> parts = absl::StrSplit(entry, absl::MaxSplits('\t', 1));
      if (parts.size() == 2 && absl::StartsWith(parts[0], "160000 ")) untracked_.push_back(parts[1]);
    }
    for (const std::string& path : untracked_) {
      const fs::path whole = fs::path(root_) / path;
      std::error_code error;
      const bool copies = fs::is_directory(whole, error)
                              ? IsSmall(whole)
                              : fs::file_size(whole, error) <= kMostCopiedBytes / 64 && !error;
      (copies ? copied_ : linked_).insert(path);
    }
    Say("linked, as git does not track them (what is written below a folder among them is written into yours)",
        linked_);
    Say("copied, as git does not track them", copied_);
    Say("not git's, and left out", {left.begin(), left.end()});
    return absl::OkStatus();
  }

  void Say(const std::string& what, const std::set<std::string>& paths) {
    if (paths.empty()) return;
    std::vector<std::string> named(paths.begin(), paths.end());
    const size_t more = named.size() - std::min(named.size(), kMostPathsNamed);
    named.resize(named.size() - more);
    notes_.push_back(
        absl::StrCat(what, ": ", absl::StrJoin(named, ", "), more == 0 ? "" : absl::StrCat(" and ", more, " more")));
  }

  absl::Status FindEditable() {
    const absl::StatusOr<std::string> found =
        OutputOf({"PYTHONDONTWRITEBYTECODE=1", InterpreterOf(request_.command), "-c", kAskEditable, root_});
    if (absl::IsCancelled(found.status())) return found.status();
    if (!found.ok()) return absl::OkStatus();  // the runs will say what is wrong with it
    for (const absl::string_view path : absl::StrSplit(*found, '\n', absl::SkipEmpty())) editable_.emplace_back(path);
    if (!editable_.empty())
      notes_.push_back(
          absl::StrCat("installed from your repository, and taken from each commit: ", absl::StrJoin(editable_, ", ")));
    return absl::OkStatus();
  }

  void RemoveLinks() {
    std::error_code ignored;
    for (const std::string& path : made_) fs::remove_all(fs::path(tree_) / path, ignored);  // a link's target stays
    made_.clear();
  }

  absl::Status MakeLinks() {
    for (const std::string& path : untracked_) {
      const fs::path from = fs::path(root_) / path, to = fs::path(tree_) / path;
      std::error_code error;
      if (fs::is_directory(to, error) && fs::is_empty(to, error)) fs::remove(to, error);  // a submodule's
      if (fs::exists(fs::symlink_status(to, error))) continue;                            // the commit has its own
      fs::create_directories(to.parent_path(), error);
      if (copied_.count(path) != 0) {
        fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
      } else {
        fs::create_symlink(from, to, error);
      }
      made_.push_back(path);
      if (error) return absl::UnavailableError(absl::StrCat("cannot make ", to.string(), ": ", error.message()));
    }
    return absl::OkStatus();
  }

  const std::string root_, prefix_;
  const CommitsRequest request_;
  const std::string tree_;
  std::vector<std::string> hashes_, untracked_, made_, editable_;
  std::set<std::string> linked_, copied_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<History>> OpenCommits(const CommitsRequest& request, const std::string& folder) {
  const absl::StatusOr<std::string> root = Git(".", {"rev-parse", "--show-toplevel"});
  if (!root.ok()) return AsUsage(root.status(), "this folder is in no git repository that can be read");
  GPUMEM_ASSIGN_OR_RETURN(const std::string prefix, Git(".", {"rev-parse", "--show-prefix"}));
  auto history = std::make_unique<CommitHistory>(*root, prefix, request, folder);
  GPUMEM_RETURN_IF_ERROR(history->Open());
  return history;
}

}  // namespace gpumem::plan
