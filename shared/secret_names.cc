// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_names.h"

namespace gpumem::format {
namespace {

constexpr size_t kMaxWords = 12;      // of a name, from its end
constexpr size_t kMaxNameSize = 256;  // of what is looked at, from its end

// A word that makes its name a secret's, wherever it is in it.
constexpr const char* kSecretWords[] = {
    "secret",      "secrets",    "password",   "passwords",     "passwd",  "passphrase", "passcode",   "pw",
    "apikey",      "apikeys",    "credential", "credentials",   "cred",    "creds",      "jwt",        "bearer",
    "auth",        "cookie",     "cookies",    "authorization", "totp",    "otp",        "webhook",    "sessionid",
    "phpsessid",   "jsessionid", "sessid",     "dbpass",        "sshpass", "pgpass",     "userpass",   "rootpass",
    "smtppass",    "mailpass",   "keypass",    "storepass",     "dbpw",    "userpw",     "authkey",    "authkeys",
    "htpasswd",    "privkey",    "signingkey", "sshkey",        "oauth",   "psk",        "passkey",    "passkeys",
    "keyphrase",   "mnemonic",   "hmac",       "bindpw",        "rootpw",  "adminpw",    "otpauth",    "connstr",
    "passwort",    "kennwort",   "losenord",   "passord",       "parola",  "senha",      "contrasena", "clave",
    "mdp",         "motdepasse", "wachtwoord", "haslo",         "heslo",   "lozinka",    "jelszo",     "salasana",
    "adgangskode", "sifre",      "contraseña", "hasło",         "şifre",   "lösenord",   "密码",       "密碼",
    "口令",        "密钥",       "パスワード", "비밀번호",      "пароль",  "токен",      "ключ",
};

// Words that make one together, in this order.
constexpr const char* kSecretPairs[][2] = {
    {"pass", "phrase"},   {"pass", "word"},   {"pass", "code"},         {"seed", "phrase"}, {"recovery", "phrase"},
    {"recovery", "code"}, {"backup", "code"}, {"connection", "string"}, {"conn", "string"}, {"conn", "str"},
    {"access", "code"},   {"auth", "code"},   {"unlock", "code"},       {"invite", "code"}, {"verification", "code"},
    {"de", "passe"},      {"secret", "id"},   {"account", "key"},       {"sas", "url"},     {"bearer", "value"},
};

// The same where a word has it in it: DPASSWORD, mysqlpassword, clientsecret.
constexpr const char* kSecretParts[] = {"password",   "passwd",     "passphrase", "apikey",      "secret",  "accesskey",
                                        "privatekey", "accountkey", "authtoken",  "accesstoken", "apitoken"};

// ... but for these.
constexpr const char* kPlainWords[] = {"secretary", "passwordless", "secretless"};

// What stands in front of "token" without a separator where it is none: subtoken, padtoken. Others are owners: hftoken.
constexpr const char* kTokenPrefixes[] = {"sub", "pre", "re", "de", "un", "non", "bi", "auto", "mono", "inter", "meta"};

// In front of "key" without a separator: wandbkey, prodkey. Alone they are services.
constexpr const char* kServices[] = {
    "adobe",        "airtable",    "algolia",    "alibaba",    "anthropic",   "artifactory", "asana",      "atlassian",
    "aws",          "azure",       "bitbucket",  "brave",      "cerebras",    "clearml",     "cloudflare", "codecov",
    "cohere",       "comet",       "confluent",  "databricks", "datadog",     "deepinfra",   "deepl",      "deepseek",
    "discord",      "docker",      "dropbox",    "elevenlabs", "fastly",      "figma",       "fireworks",  "gcp",
    "gemini",       "gitea",       "github",     "gitlab",     "grafana",     "groq",        "heroku",     "hf",
    "hubspot",      "huggingface", "jfrog",      "jira",       "kaggle",      "lambda",      "langfuse",   "langsmith",
    "launchdarkly", "linear",      "llama",      "mailchimp",  "mailgun",     "mapbox",      "mattermost", "mistral",
    "mlflow",       "modal",       "neptune",    "netlify",    "newrelic",    "ngc",         "npm",        "nvidia",
    "okta",         "openai",      "openrouter", "paperspace", "perplexity",  "pinecone",    "plaid",      "postman",
    "prefect",      "pypi",        "rapidapi",   "replicate",  "runpod",      "sendgrid",    "sentry",     "serpapi",
    "shopify",      "slack",       "snyk",       "sonar",      "squarespace", "stripe",      "supabase",   "swanlab",
    "tavily",       "telegram",    "together",   "travis",     "twilio",      "twitch",      "twitter",    "vast",
    "vercel",       "voyage",      "wandb",      "weaviate",   "xai",         "yandex",      "zendesk",    "zhipu",
};

// Further ones in front of "key".
constexpr const char* kKeyOwners[] = {"api",     "access", "secret", "private",   "master", "license",
                                      "licence", "prod",   "dev",    "admin",     "user",   "my",
                                      "app",     "enc",    "crypt",  "encryption"};

// In front of "pass" and "pwd" without a separator where it is no password: bypass, compass.
constexpr const char* kPassPrefixes[] = {"by",      "com",      "tres", "over", "under", "one",    "two",
                                         "single",  "multi",    "low",  "high", "band",  "sur",    "encom",
                                         "forward", "backward", "all",  "full", "first", "second", "half",
                                         "old",     "free",     "re",   "fast", "wing"};

// Names of which the value is a secret only where it looks like a key: COMET_API, X-Session, --license.
constexpr const char* kKeyLikeWords[] = {"api",          "access",      "session", "sid",     "license",
                                         "licence",      "signature",   "serial",  "account", "tenant",
                                         "subscription", "integration", "client"};

// Short codes: a secret where they are digits.
constexpr const char* kCodeWords[] = {"pin", "pincode", "mfa", "2fa", "tan", "cvv", "cvc", "otpcode", "totpcode"};

// The last word where a name tells something about the secret, or where it is, instead of the secret itself.
constexpr const char* kAspects[] = {
    "type",     "types",    "method",    "methods",  "mode",     "scheme",    "provider", "backend",    "url",
    "uri",      "endpoint", "host",      "hostname", "port",     "server",    "enabled",  "enable",     "disabled",
    "disable",  "required", "optional",  "timeout",  "ttl",      "expiry",    "expires",  "expiration", "lifetime",
    "file",     "files",    "path",      "paths",    "dir",      "directory", "folder",   "name",       "names",
    "id",       "ids",      "length",    "len",      "size",     "sizes",     "count",    "num",        "number",
    "limit",    "min",      "max",       "index",    "policy",   "env",       "var",      "variable",   "format",
    "version",  "prefix",   "suffix",    "user",     "username", "email",     "domain",   "realm",      "region",
    "scope",    "scopes",   "rotation",  "manager",  "store",    "storage",   "check",    "protocol",   "module",
    "plugin",   "class",    "algorithm", "alg",      "jar",      "through",   "retries",  "retry",      "level",
    "audience", "issuer",   "service",   "stdin",    "prompt",   "helper",    "ref",      "refs",       "mount",
    "volume",   "engine",   "browser",   "encoding", "hint",     "strength",  "filename", "keyfile",    "at",
    "interval", "mod",      "of",
};

// A name that begins with one of these is a switch as a rule.
constexpr const char* kSwitchWords[] = {"use",      "no",    "not",   "enable",  "disable", "require",
                                        "requires", "skip",  "with",  "without", "allow",   "is",
                                        "has",      "needs", "trust", "ignore",  "check",   "verify",
                                        "show",     "print", "hide",  "mask",    "redact",  "should"};

// Neighbours of "token" where it is one of a language model, or one that is counted.
constexpr const char* kModelTokens[] = {
    "pad",     "padding",   "bos",      "eos",     "unk",     "unknown",   "cls",       "sep",         "mask",
    "special", "stop",      "image",    "img",     "video",   "audio",     "vision",    "speech",      "class",
    "dist",    "distill",   "num",      "n",       "max",     "min",       "per",       "next",        "start",
    "end",     "begin",     "first",    "last",    "new",     "total",     "draft",     "time",        "word",
    "sub",     "space",     "eot",      "eom",     "eod",     "eoh",       "fim",       "placeholder", "vocab",
    "kv",      "q",         "v",        "empty",   "think",   "thinking",  "reasoning", "multi",       "add",
    "drop",    "register",  "latent",   "decoder", "encoder", "byte",      "char",      "batch",       "by",
    "every",   "each",      "patch",    "extra",   "added",   "target",    "source",    "lang",        "language",
    "newline", "separator", "sentinel", "trigger", "concept", "assistant", "system",    "role",        "tool",
    "startup", "single",    "text",     "visual",  "global",  "cache",     "prefill",   "decode",      "output",
    "input",   "prompt",
};

// Words in front of "key" where it is one of a table, a batch, or a sample.
constexpr const char* kTableKeys[] = {
    "image",        "img",       "text",        "label",    "labels",   "batch",      "input",   "inputs",  "target",
    "targets",      "metric",    "metrics",     "dict",     "loss",     "output",     "outputs", "prompt",  "caption",
    "primary",      "cache",     "partition",   "group",    "foreign",  "hot",        "json",    "column",  "sort",
    "sorting",      "order",     "monitor",     "feature",  "features", "public",     "val",     "train",   "dataset",
    "video",        "audio",     "prng",        "rng",      "ckpt",     "checkpoint", "state",   "task",    "reward",
    "response",     "chosen",    "rejected",    "question", "value",    "kv",         "attn",    "row",     "field",
    "map",          "lookup",    "routing",     "trace",    "extra",    "logging",    "score",   "summary", "document",
    "content",      "message",   "answer",      "weight",   "weights",  "sharding",   "tensor",  "param",   "layer",
    "block",        "mesh",      "axis",        "tree",     "sample",   "index",      "id",      "latent",  "cond",
    "conditioning", "embedding", "spectrogram", "split",    "join",
};

// What may stand behind "token" or "key" and leave it one: HF_TOKEN_READ, API_KEY_1, SECRET_KEY_BASE64.
constexpr const char* kVariants[] = {
    "value",      "val", "text",    "str",    "data",   "override", "read", "write", "ro",      "rw",        "prod",
    "production", "dev", "staging", "b64",    "base64", "main",     "old",  "new",   "primary", "secondary", "1",
    "2",          "3",   "base",    "string", "plain",  "raw",      "hex",  "a",     "b"};

// What stands in front of "keys" and "tokens" where they are secrets.
constexpr const char* kListOwners[] = {"api", "access", "secret", "private", "auth", "bearer", "hf", "account"};

// "pass" that is no password.
constexpr const char* kPasses[] = {"forward", "backward", "two",   "single", "one",   "first", "second", "by",
                                   "high",    "low",      "band",  "num",    "n",     "multi", "per",    "max",
                                   "all",     "full",     "third", "each",   "every", "last"};

constexpr const char* kIdentifierWords[] = {
    "revision", "rev",    "commit", "sha",         "sha1",    "sha224",   "sha256",  "sha384",  "sha512",
    "md5",      "hash",   "hashes", "checksum",    "digest",  "etag",     "ref",     "version", "id",
    "ids",      "uuid",   "guid",   "fingerprint", "crc",     "snapshot", "build",   "tag",     "branch",
    "checkout", "oid",    "uid",    "run",         "name",    "devices",  "blake2b", "blake3",  "parent",
    "tree",     "resume", "model",  "tokenizer",   "dataset", "file",     "path",    "dir",
};

constexpr const char* kUserNames[] = {"u", "user", "username", "userpwd", "proxyuser", "login"};

constexpr const char* kPluralWords[] = {"keys", "apikeys", "tokens", "passwords", "secrets"};

// In front of "pat", a personal access token; alone it is one, too.
constexpr const char* kPatOwners[] = {"my", "user",   "org", "ci",  "bot",   "repo", "api",        "github",
                                      "gh", "gitlab", "gl",  "git", "azure", "ado",  "databricks", "docker"};

constexpr const char* kHeaderNames[] = {"authorization", "cookie", "cookies"};

// Credentials where they are parameters of a URL or parts of a connection string.
constexpr const char* kQueryNames[] = {"sig",    "signature", "pass",           "pwd",       "code",
                                       "ticket", "assertion", "awsaccesskeyid", "credential"};

template <size_t kCount>
bool IsOneOf(Slice word, const char* const (&list)[kCount]) {
  for (const char* each : list) {
    if (word.IsIgnoringCase(each)) return true;
  }
  return false;
}

template <size_t kCount>
bool HasPart(Slice word, const char* const (&parts)[kCount]) {
  for (const char* part : parts) {
    for (size_t i = 0; i + std::strlen(part) <= word.size; ++i) {
      if (word.From(i).StartsWithIgnoringCase(part)) return true;
    }
  }
  return false;
}

// The words of a name, the last kMaxWords of them.
class Words {
 public:
  explicit Words(Slice name) {
    if (name.size > kMaxNameSize) name = name.From(name.size - kMaxNameSize);
    size_t start = 0;
    for (size_t i = 0; i <= name.size; ++i) {
      const bool breaks = i == name.size || !IsNameLetter(name[i]);
      if (breaks || BeginsWord(name, start, i)) {
        Add(name.Part(start, i - start));
        start = breaks ? i + 1 : i;
      }
    }
  }

  size_t count() const { return count_; }
  Slice operator[](size_t i) const { return i < count_ ? words_[i] : Slice{}; }
  Slice before(size_t i) const { return i > 0 ? words_[i - 1] : Slice{}; }
  Slice last() const { return (*this)[count_ - 1]; }

 private:
  // "tokenFile" | "HFToken": at the T.
  static bool BeginsWord(Slice name, size_t start, size_t i) {
    if (i <= start || !IsUpper(name[i])) return false;
    return IsLower(name[i - 1]) || IsDigit(name[i - 1]) || (IsUpper(name[i - 1]) && IsLower(name[i + 1]));
  }

  void Add(Slice word) {
    // The number behind a word tells one of many: TOKEN2.
    while (word.size > 1 && IsDigit(word.back()) && !IsOneOf(word, kIdentifierWords)) word = word.Until(word.size - 1);
    if (word.empty()) return;
    if (count_ == kMaxWords) {
      for (size_t i = 1; i < kMaxWords; ++i) words_[i - 1] = words_[i];
      --count_;
    }
    words_[count_++] = word;
  }

  Slice words_[kMaxWords];
  size_t count_ = 0;
};

// Whether only variants follow the word at `i`.
bool EndsName(const Words& words, size_t i) {
  for (size_t k = i + 1; k < words.count(); ++k) {
    if (!IsOneOf(words[k], kVariants)) return false;
  }
  return true;
}

bool IsSecretToken(const Words& words, size_t i) {
  const Slice word = words[i];
  if (word.IsIgnoringCase("tokens")) return EndsName(words, i) && IsOneOf(words.before(i), kListOwners);
  if (word.IsIgnoringCase("token")) return EndsName(words, i) && !IsOneOf(words.before(i), kModelTokens);
  if (word.size <= 5 || !word.EndsWithIgnoringCase("token")) return false;
  const Slice owner = word.Until(word.size - 5);
  return EndsName(words, i) && !IsOneOf(owner, kTokenPrefixes) && !IsOneOf(owner, kModelTokens);
}

bool IsSecretKey(const Words& words, size_t i) {
  const Slice word = words[i];
  if (word.IsIgnoringCase("keys")) return EndsName(words, i) && IsOneOf(words.before(i), kListOwners);
  if (word.IsIgnoringCase("dkey") || (word.IsIgnoringCase("key") && words.before(i).IsIgnoringCase("access")))
    return true;  // -DKEY=, and AWS_ACCESS_KEY_ID
  if (word.IsIgnoringCase("key")) return EndsName(words, i) && !IsOneOf(words.before(i), kTableKeys);
  if (word.size <= 3 || !word.EndsWithIgnoringCase("key")) return false;
  const Slice owner = word.Until(word.size - 3);
  return EndsName(words, i) && (IsOneOf(owner, kKeyOwners) || IsOneOf(owner, kServices));
}

// adminpass, rootpwd
bool IsJoinedPass(const Words& words, size_t i) {
  const Slice word = words[i];
  const size_t end = word.EndsWithIgnoringCase("pass") ? 4 : word.EndsWithIgnoringCase("pwd") ? 3 : 0;
  return end > 0 && word.size > end && i + 1 == words.count() && !IsOneOf(word.Until(word.size - end), kPassPrefixes);
}

bool BeginsSecretPair(const Words& words, size_t i) {
  for (const auto& [first, second] : kSecretPairs) {
    if (words[i].IsIgnoringCase(first) && words[i + 1].IsIgnoringCase(second)) return true;
  }
  return false;
}

bool IsSecretWord(const Words& words, size_t i) {
  const Slice word = words[i];
  if (IsOneOf(word, kPlainWords) || IsOneOf(word, kUserNames)) return false;
  if (IsOneOf(word, kSecretWords) || HasPart(word, kSecretParts) || BeginsSecretPair(words, i)) return true;
  if (word.IsIgnoringCase("pass")) {
    return i + 1 == words.count() && !IsOneOf(words.before(i), kPasses);
  }
  if (word.IsIgnoringCase("pwd")) return i + 1 == words.count() && i > 0;
  if (word.IsIgnoringCase("pat")) return EndsName(words, i) && (i == 0 || IsOneOf(words.before(i), kPatOwners));
  return IsSecretToken(words, i) || IsSecretKey(words, i) || IsJoinedPass(words, i);
}

// `i`: the word that makes it one.
NameKind SecretKind(const Words& words, size_t i) {
  const Slice last = words.last();
  if (i + 1 != words.count() && IsOneOf(last, kAspects)) {
    if (IsOneOf(last, kUserNames)) return NameKind::kUser;
    // The id of an access key is half of a credential; who knows a webhook's address may post to it.
    const bool is_secret = BeginsSecretPair(words, i) ||
                           (words[i].IsIgnoringCase("key") && last.IsIgnoringCase("id")) ||
                           (words[i].IsIgnoringCase("webhook") && last.StartsWithIgnoringCase("ur"));
    return is_secret ? NameKind::kSecret : NameKind::kIdentifier;
  }
  const bool is_switch = words.count() > 1 && IsOneOf(words[0], kSwitchWords);
  const bool is_short = words.count() == 1 && (last.IsIgnoringCase("pass") || last.IsIgnoringCase("pat"));
  if (is_switch || is_short) return NameKind::kMaybeSecret;
  return IsOneOf(last, kPluralWords) ? NameKind::kSecretList : NameKind::kSecret;
}

bool IsIdentifier(const Words& words) {
  for (size_t i = 0; i < words.count(); ++i) {
    if (IsOneOf(words[i], kIdentifierWords)) return true;
  }
  return false;
}

NameKind ClassifyWords(const Words& words, NamePlace place) {
  if (words.count() == 0) return NameKind::kPlain;
  if (place == NamePlace::kOption && IsOneOf(words.last(), kHeaderNames)) return NameKind::kHeader;
  if (place == NamePlace::kQuery && IsOneOf(words.last(), kQueryNames)) return NameKind::kSecret;
  for (size_t i = 0; i < words.count(); ++i) {
    if (IsSecretWord(words, i)) return SecretKind(words, i);
  }
  const Slice last = words.last();
  if (IsOneOf(last, kCodeWords) ||
      (last.IsIgnoringCase("code") && IsOneOf(words.before(words.count() - 1), kCodeWords)))
    return NameKind::kCode;
  if (IsOneOf(last, kKeyLikeWords) || IsOneOf(last, kServices)) return NameKind::kKeyLike;
  if (words.count() == 1 && last.IsIgnoringCase("pwd")) return NameKind::kMaybeSecret;
  const bool is_proxy_user = words.count() == 2 && words[0].IsIgnoringCase("proxy") && last.IsIgnoringCase("user");
  if (is_proxy_user || (words.count() == 1 && IsOneOf(last, kUserNames))) return NameKind::kUser;
  return IsIdentifier(words) ? NameKind::kIdentifier : NameKind::kPlain;
}

}  // namespace

NameKind ClassifyName(Slice name, NamePlace place) {
  if (name.size == 2 && name.StartsWith("-p")) return NameKind::kMaybeSecret;
  return ClassifyWords(Words(name), place);
}

}  // namespace gpumem::format
