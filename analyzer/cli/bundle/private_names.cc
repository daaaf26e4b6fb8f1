// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/private_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpumem {
namespace {

enum class Named { kNothing, kHosts, kChoice, kPerson, kRepository };

// The last word of a name.
constexpr absl::string_view kHostWords[] = {
    "host",        "hosts",     "hostname", "hostnames", "hostlist", "hostfile", "addr",     "address",
    "rdzv",        "server",    "servers",  "node",      "nodes",    "nodelist", "nodename", "endpoint",
    "endpoints",   "scheduler", "etcd",     "peer",      "peers",    "gateway",  "registry", "broker",
    "coordinator", "leader",    "brokers",  "master",    "machine",  "machines", "proxy"};
// Of these only lists of "host:slots" (DeepSpeed); others name files.
constexpr absl::string_view kChoices[] = {"include", "exclude"};
constexpr absl::string_view kPersonWords[] = {
    "user",    "username", "logname", "login",   "owner",  "author",       "creator",  "entity",  "org",       "team",
    "account", "project",  "jobname", "company", "tenant", "organization", "customer", "cluster", "experiment"};
// Whole names, or their ends.
constexpr absl::string_view kPersonNames[] = {"job_name",     "run_name",     "experiment_name", "exp_name",
                                              "wandb_name",   "project_name", "user_name",       "task_name",
                                              "trial_name",   "study_name",   "sweep_name",      "display_name",
                                              "cluster_name", "pod_name",     "run_group"};
constexpr absl::string_view kRepositoryNames[] = {"hub_model_id", "repo_id", "hub_repo_id", "hub_dataset_id"};

template <typename List>
bool IsIn(absl::string_view word, const List& list) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// "--Run-Name", "+logger.run_name" -> "run_name"
std::string Plain(absl::string_view name) {
  while (!name.empty() && absl::string_view("-+~").find(name.front()) != absl::string_view::npos) name.remove_prefix(1);
  name = name.substr(name.rfind('.') + 1);
  std::string plain = absl::AsciiStrToLower(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  return plain;
}

Named WhatIsNamedBy(absl::string_view option) {
  const std::string name = Plain(option);
  const absl::string_view last = absl::string_view(name).substr(name.rfind('_') + 1);
  const auto ends = [&name](absl::string_view end) { return absl::EndsWith(name, end); };
  if (IsIn(name, kRepositoryNames)) return Named::kRepository;
  if (std::any_of(std::begin(kPersonNames), std::end(kPersonNames), ends)) return Named::kPerson;
  if (IsIn(last, kHostWords)) return Named::kHosts;
  if (IsIn(name, kChoices)) return Named::kChoice;
  return IsIn(last, kPersonWords) ? Named::kPerson : Named::kNothing;
}

// Letters, digits, dots and dashes with a letter among them; no file and no switch.
bool IsHostName(absl::string_view name) {
  constexpr absl::string_view kFiles[] = {".py", ".json", ".yaml", ".yml", ".txt",
                                          ".sh", ".toml", ".cfg",  ".pt",  ".sif"};
  constexpr absl::string_view kWords[] = {"true", "false", "none", "auto", "all", "yes", "no", "env", "static", "c10d"};
  const auto is_part = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           absl::string_view("._-[]").find(c) != absl::string_view::npos;
  };
  const auto is_letter = [](char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); };
  const auto ends = [name](absl::string_view end) { return absl::EndsWith(name, end); };
  return name.size() > 1 && absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         std::all_of(name.begin(), name.end(), is_part) && std::any_of(name.begin(), name.end(), is_letter) &&
         std::none_of(std::begin(kFiles), std::end(kFiles), ends) && !IsIn(absl::AsciiStrToLower(name), kWords);
}

// "gpu17:8,gpu18:8", "gpu17:0,1@gpu18:2", "gpu17 gpu18"
void LearnHosts(absl::string_view value, Masker* masker) {
  if (absl::StrContains(value, "://")) return;  // masked as a whole
  for (absl::string_view host : absl::StrSplit(value, absl::ByAnyChar(",;@ "))) {
    host = host.substr(0, host.find(':'));
    if (IsHostName(host)) masker->AddHost(host);
  }
}

void LearnPerson(absl::string_view value, Masker* masker) {
  value = value.substr(0, value.find(':'));
  double number = 0;
  const bool is_name = value.size() > 1 && !absl::SimpleAtod(value, &number) && !absl::StrContains(value, '/') &&
                       !absl::StrContains(value, '$');
  constexpr absl::string_view kWords[] = {"true", "false", "none",     "auto", "default",
                                          "null", "base",  "baseline", "debug"};
  if (is_name && !IsIn(absl::AsciiStrToLower(value), kWords)) masker->AddUser(value);
}

void LearnPathParts(absl::string_view path, Masker* masker) {
  std::vector<absl::string_view> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (parts.size() > 1 && !absl::EndsWith(parts.back(), ".git")) parts.pop_back();  // says what, not whose
  for (const absl::string_view part : parts) LearnPerson(absl::StripSuffix(part, ".git"), masker);
}

void Learn(Named what, absl::string_view value, Masker* masker) {
  if (what == Named::kHosts || (what == Named::kChoice && absl::StrContains(value, ':'))) LearnHosts(value, masker);
  if (what == Named::kPerson) LearnPerson(value, masker);
  if (what == Named::kRepository) LearnPathParts(value, masker);
}

// gpu17:29400, gpu17:/data, me@gpu17:job.git, registry.corp.example:5000/team/image
void LearnFromAddress(absl::string_view word, Masker* masker) {
  constexpr int kFirstPort = 1024;
  if (absl::StrContains(word, "://")) return;
  for (absl::string_view each : absl::StrSplit(word, ',')) {
    const size_t at = each.find('@');
    const absl::string_view place = at == absl::string_view::npos ? each : each.substr(at + 1);
    const size_t end = std::min(place.find(':'), place.find('/'));
    if (end == absl::string_view::npos || !IsHostName(place.substr(0, end))) continue;
    const absl::string_view host = place.substr(0, end), rest = place.substr(end + 1);
    const absl::string_view digits = rest.substr(0, rest.find('/'));
    int port = 0;
    const bool is_plain = !absl::StrContains(host, '_');
    const bool has_port = is_plain && place[end] == ':' && absl::SimpleAtoi(digits, &port) && port >= kFirstPort;
    const bool has_domain = std::count(host.begin(), host.end(), '.') >= 2 && host.size() - host.rfind('.') > 2 &&
                            absl::ascii_isalpha(static_cast<unsigned char>(host.back()));
    const bool is_login = at != absl::string_view::npos && at > 0 && place[end] == ':';
    if (has_port || is_login || (place[end] == ':' && absl::StartsWith(rest, "/")) || (place[end] == '/' && has_domain))
      masker->AddHost(host);
    if (is_login) LearnPathParts(rest, masker);
    if (has_port && digits.size() < rest.size()) LearnPathParts(rest.substr(digits.size()), masker);
    if (place[end] == '/' && has_domain) LearnPathParts(rest, masker);
  }
}

// {"run_name": "zephyr"}, init(project="zephyr")
void LearnFromPairs(absl::string_view text, Masker* masker) {
  constexpr size_t kMostName = 64;
  const auto is_of_name = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  const auto skip = [text](size_t at, absl::string_view what) {
    return std::min(text.find_first_not_of(what, at), text.size());
  };
  for (size_t at = text.find_first_of(":="); at != absl::string_view::npos; at = text.find_first_of(":=", at + 1)) {
    const size_t quote = skip(at + 1, " ");
    if (quote == text.size() || (text[quote] != '"' && text[quote] != '\'')) continue;
    size_t end = at;
    while (end > 0 && absl::string_view(" \"'").find(text[end - 1]) != absl::string_view::npos) --end;
    size_t begin = end;
    while (begin > 0 && end - begin < kMostName && is_of_name(text[begin - 1])) --begin;
    const size_t close = text.find(text[quote], quote + 1);
    if (begin == end || close == absl::string_view::npos) continue;
    Learn(WhatIsNamedBy(text.substr(begin, end - begin)), text.substr(quote + 1, close - quote - 1), masker);
  }
}

// ssh [OPTIONS] HOST ...
void LearnFromSsh(const std::vector<std::string>& words, Masker* masker) {
  constexpr absl::string_view kWithValue[] = {"-p", "-i", "-l", "-o", "-F", "-L", "-R", "-D", "-J", "-b", "-c", "-E"};
  for (size_t i = 1; i < words.size(); ++i) {
    if (IsIn(words[i], kWithValue)) {
      ++i;
    } else if (!absl::StartsWith(words[i], "-")) {
      return LearnHosts(words[i].substr(words[i].find('@') + 1), masker);
    }
  }
}

// Short options whose letter says nothing by itself.
Named ShortOption(absl::string_view program, absl::string_view option) {
  constexpr absl::string_view kSlurm[] = {"srun", "sbatch", "salloc"};
  constexpr absl::string_view kMpi[] = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun", "prun"};
  program = program.substr(program.rfind('/') + 1);
  if (IsIn(program, kSlurm) && option == "-w") return Named::kHosts;
  if (IsIn(program, kSlurm) && (option == "-A" || option == "-J")) return Named::kPerson;
  if (IsIn(program, kMpi) && (option == "-H" || option == "-host" || option == "-hosts")) return Named::kHosts;
  return Named::kNothing;
}

}  // namespace

void LearnFromCommand(const std::vector<std::string>& words, Masker* masker) {
  Named next = Named::kNothing;
  for (size_t i = 0; i < words.size(); ++i) {
    const absl::string_view word = words[i];
    const bool is_option = absl::StartsWith(word, "-");
    const size_t equals = word.find('=');
    if (!is_option && next != Named::kNothing) Learn(next, word, masker);
    next = Named::kNothing;
    if (equals != absl::string_view::npos) {
      Learn(WhatIsNamedBy(word.substr(0, equals)), word.substr(equals + 1), masker);
    } else if (is_option) {
      next = ShortOption(words.front(), word);
      if (next == Named::kNothing) next = WhatIsNamedBy(word);
    }
    LearnFromAddress(equals == absl::string_view::npos ? word : word.substr(equals + 1), masker);
    LearnFromPairs(word, masker);
  }
  if (!words.empty() && (words[0] == "ssh" || absl::EndsWith(words[0], "/ssh"))) LearnFromSsh(words, masker);
}

void LearnFromVariable(absl::string_view name, absl::string_view value, Masker* masker) {
  Learn(WhatIsNamedBy(name), value, masker);
  LearnFromAddress(value, masker);
}

}  // namespace gpumem
