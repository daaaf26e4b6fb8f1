// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "shared/secret_shapes.h"

#include <cstdint>
#include <initializer_list>

namespace gpumem::format {
namespace {

enum class Alphabet : uint8_t {
  kAlnum,     // letters and digits
  kUpper,     // capitals and digits
  kWord,      // and _
  kDashed,    // and - and _, where some part is too random for a name: sk-learn-pipeline is none
  kAnything,  // base64 of each kind, with dots
  kHex,
  kDigits,
  kEscaped,    // kAnything and %
  kKeyGroups,  // capitals, digits and -, or hexadecimal digits and -
};

struct Shape {
  const char* prefix;
  Alphabet alphabet;
  uint8_t least;  // characters behind the prefix
};

// Beginnings of values that services hand out as credentials.
constexpr Shape kShapes[] = {
    {"hf_", Alphabet::kAlnum, 16},  // Hugging Face
    {"api_org_", Alphabet::kAlnum, 16},
    {"sk-", Alphabet::kDashed, 16},  // OpenAI, Anthropic (sk-ant-), OpenRouter (sk-or-), Langfuse
    {"pk-lf-", Alphabet::kDashed, 16},
    {"sk_live_", Alphabet::kAlnum, 16},  // Stripe
    {"sk_test_", Alphabet::kAlnum, 16},
    {"rk_live_", Alphabet::kAlnum, 16},
    {"rk_test_", Alphabet::kAlnum, 16},
    {"whsec_", Alphabet::kAnything, 16},
    {"ghp_", Alphabet::kWord, 16},  // GitHub
    {"gho_", Alphabet::kWord, 16},
    {"ghu_", Alphabet::kWord, 16},
    {"ghs_", Alphabet::kWord, 16},
    {"ghr_", Alphabet::kWord, 16},
    {"github_pat_", Alphabet::kWord, 16},
    {"glpat-", Alphabet::kAnything, 16},  // GitLab
    {"gldt-", Alphabet::kAnything, 16},
    {"glrt-", Alphabet::kAnything, 16},
    {"glcbt-", Alphabet::kAnything, 16},
    {"glptt-", Alphabet::kAnything, 16},
    {"xoxa-", Alphabet::kAnything, 10},  // Slack
    {"xoxb-", Alphabet::kAnything, 10},
    {"xoxc-", Alphabet::kAnything, 10},
    {"xoxd-", Alphabet::kAnything, 10},
    {"xoxe", Alphabet::kAnything, 16},
    {"xoxo-", Alphabet::kAnything, 10},
    {"xoxp-", Alphabet::kAnything, 10},
    {"xoxr-", Alphabet::kAnything, 10},
    {"xoxs-", Alphabet::kAnything, 10},
    {"xapp-", Alphabet::kAnything, 16},
    {"AKIA", Alphabet::kUpper, 12},  // AWS
    {"ASIA", Alphabet::kUpper, 12},
    {"ABIA", Alphabet::kUpper, 16},
    {"AROA", Alphabet::kUpper, 16},
    {"AIDA", Alphabet::kUpper, 16},
    {"LTAI", Alphabet::kAlnum, 12},    // Alibaba Cloud
    {"AKID", Alphabet::kAlnum, 16},    // Tencent Cloud
    {"eyJ", Alphabet::kAnything, 16},  // JSON in base64: JWT, Neptune, Grafana
    {"AIza", Alphabet::kDashed, 20},   // Google
    {"ya29.", Alphabet::kAnything, 16},
    {"GOCSPX-", Alphabet::kAnything, 16},
    {"npm_", Alphabet::kAlnum, 20},
    {"pypi-", Alphabet::kDashed, 16},
    {"dop_v1_", Alphabet::kHex, 16},  // DigitalOcean
    {"doo_v1_", Alphabet::kHex, 16},
    {"dor_v1_", Alphabet::kHex, 16},
    {"SG.", Alphabet::kAnything, 32},  // SendGrid
    {"AC", Alphabet::kHex, 32},        // Twilio
    {"SK", Alphabet::kHex, 32},
    {"dapi", Alphabet::kHex, 32},       // Databricks
    {"hvs.", Alphabet::kAnything, 16},  // Vault
    {"hvb.", Alphabet::kAnything, 16},
    {"hvr.", Alphabet::kAnything, 16},
    {"r8_", Alphabet::kAlnum, 20},   // Replicate
    {"gsk_", Alphabet::kAlnum, 20},  // Groq
    {"xai-", Alphabet::kDashed, 20},
    {"pplx-", Alphabet::kDashed, 20},
    {"nvapi-", Alphabet::kDashed, 16},     // NVIDIA
    {"tgp_v1_", Alphabet::kAnything, 16},  // Together
    {"fw_", Alphabet::kAlnum, 20},         // Fireworks
    {"jina_", Alphabet::kAlnum, 20},
    {"pcsk_", Alphabet::kWord, 20},  // Pinecone
    {"tvly-", Alphabet::kDashed, 16},
    {"wandb_v1_", Alphabet::kWord, 16},
    {"lsv2_pt_", Alphabet::kWord, 16},  // LangSmith
    {"lsv2_sk_", Alphabet::kWord, 16},
    {"lin_api_", Alphabet::kAlnum, 16},
    {"ntn_", Alphabet::kAlnum, 20},
    {"shpat_", Alphabet::kHex, 16},
    {"shpss_", Alphabet::kHex, 16},
    {"sq0atp-", Alphabet::kAnything, 16},
    {"sq0csp-", Alphabet::kAnything, 16},
    {"NRAK-", Alphabet::kUpper, 16},
    {"PMAK-", Alphabet::kAnything, 24},
    {"figd_", Alphabet::kAnything, 16},
    {"dckr_pat_", Alphabet::kAnything, 16},
    {"ATATT3", Alphabet::kAnything, 16},  // Atlassian
    {"ATCTT3", Alphabet::kAnything, 16},
    {"phc_", Alphabet::kAlnum, 20},
    {"phx_", Alphabet::kAlnum, 20},
    {"sntrys_", Alphabet::kAnything, 16},
    {"sntryu_", Alphabet::kAnything, 16},
    {"glsa_", Alphabet::kWord, 16},  // Grafana
    {"glc_", Alphabet::kAnything, 20},
    {"sbp_", Alphabet::kHex, 16},
    {"ops_eyJ", Alphabet::kAnything, 16},  // 1Password
    {"tskey-", Alphabet::kDashed, 16},
    {"rpa_", Alphabet::kAlnum, 20},  // RunPod
    {"ak-", Alphabet::kAlnum, 20},   // Modal
    {"as-", Alphabet::kAlnum, 20},
    {"rubygems_", Alphabet::kHex, 16},
    {"AGE-SECRET-KEY-1", Alphabet::kUpper, 16},
    {"b3BlbnNzaC1rZXktdjE", Alphabet::kAnything, 0},  // an OpenSSH private key's body
    // Further ones of gitleaks' rules.
    {"gloas-", Alphabet::kAnything, 16},
    {"glsoat-", Alphabet::kAnything, 16},
    {"glimt-", Alphabet::kAnything, 16},
    {"glft-", Alphabet::kAnything, 16},
    {"glffct-", Alphabet::kAnything, 16},
    {"glagent-", Alphabet::kAnything, 16},
    {"GR1348941", Alphabet::kAnything, 16},
    {"ACCA", Alphabet::kUpper, 16},
    {"ABSK", Alphabet::kAnything, 64},  // AWS Bedrock
    {"bedrock-api-key-", Alphabet::kAnything, 16},
    {"IQoJb3JpZ2lu", Alphabet::kAnything, 16},  // AWS session tokens
    {"FwoGZXIvYXdz", Alphabet::kAnything, 16},
    {"sk_prod_", Alphabet::kAlnum, 10},
    {"rk_prod_", Alphabet::kAlnum, 10},
    {"p8e-", Alphabet::kAlnum, 20},  // Adobe
    {"AKCp", Alphabet::kAlnum, 40},  // Artifactory
    {"cmVmdGtu", Alphabet::kAlnum, 40},
    {"A3-", Alphabet::kKeyGroups, 24},    // 1Password
    {"v1.0-", Alphabet::kKeyGroups, 64},  // Cloudflare's origin CA
    {"4b1d", Alphabet::kAlnum, 38},       // ClickHouse
    {"CLOJARS_", Alphabet::kAlnum, 40},
    {"dp.pt.", Alphabet::kAlnum, 32},  // Doppler
    {"dp.st.", Alphabet::kAnything, 32},
    {"duffel_test_", Alphabet::kAnything, 32},
    {"duffel_live_", Alphabet::kAnything, 32},
    {"dt0c01.", Alphabet::kAnything, 32},  // Dynatrace
    {"dt0s01.", Alphabet::kAnything, 32},
    {"EZAK", Alphabet::kAlnum, 40},  // EasyPost
    {"EZTK", Alphabet::kAlnum, 40},
    {"EAAC", Alphabet::kAlnum, 60},  // Facebook
    {"EAAM", Alphabet::kAlnum, 60},
    {"EAAA", Alphabet::kAnything, 22},     // Square
    {"FLWSECK", Alphabet::kAnything, 16},  // Flutterwave
    {"fo1_", Alphabet::kAnything, 32},     // Fly.io
    {"fm1a_", Alphabet::kAnything, 32},
    {"fm1r_", Alphabet::kAnything, 32},
    {"fm2_", Alphabet::kAnything, 32},
    {"fio-u-", Alphabet::kAnything, 32},  // Frame.io
    {"HRKU-", Alphabet::kAnything, 32},   // Heroku
    {"ico-", Alphabet::kAlnum, 24},       // Infracost
    {"pat.", Alphabet::kAnything, 48},    // Harness
    {"sat.", Alphabet::kAnything, 48},
    {"key-", Alphabet::kHex, 32},        // Mailgun
    {"NRII-", Alphabet::kAnything, 24},  // New Relic
    {"NRJS-", Alphabet::kAnything, 16},
    {"NRAA-", Alphabet::kAnything, 24},
    {"API-", Alphabet::kUpper, 24},        // Octopus Deploy
    {"sha256~", Alphabet::kAnything, 32},  // OpenShift
    {"pscale_tkn_", Alphabet::kAnything, 24},
    {"pscale_oauth_", Alphabet::kAnything, 24},
    {"pscale_pw_", Alphabet::kAnything, 24},
    {"pnu_", Alphabet::kAlnum, 24},  // Prefect
    {"pnb_", Alphabet::kAlnum, 24},
    {"pul-", Alphabet::kHex, 32},           // Pulumi
    {"rdme_", Alphabet::kAlnum, 40},        // ReadMe
    {"tk-us-", Alphabet::kAnything, 40},    // Scalingo
    {"xkeysib-", Alphabet::kAnything, 40},  // Brevo
    {"xsmtpsib-", Alphabet::kAnything, 40},
    {"sm_aat_", Alphabet::kAlnum, 16},  // SettleMint
    {"sm_pat_", Alphabet::kAlnum, 16},
    {"sm_sat_", Alphabet::kAlnum, 16},
    {"shippo_live_", Alphabet::kHex, 32},
    {"shippo_test_", Alphabet::kHex, 32},
    {"shpca_", Alphabet::kHex, 16},  // Shopify
    {"shppa_", Alphabet::kHex, 16},
    {"shptka_", Alphabet::kHex, 16},
    {"squ_", Alphabet::kHex, 32},  // SonarQube
    {"sqp_", Alphabet::kHex, 32},
    {"sqa_", Alphabet::kHex, 32},
    {"sgp_", Alphabet::kWord, 32},      // Sourcegraph
    {"secret_", Alphabet::kAlnum, 40},  // Notion
    {"tfp_", Alphabet::kAnything, 40},  // Typeform
    {"AQVN", Alphabet::kDashed, 32},    // Yandex
    {"y0_", Alphabet::kDashed, 32},
    {"t1.", Alphabet::kAnything, 64},
    {"AAAAAAAAAAAAAAAAAAAAA", Alphabet::kEscaped, 32},  // Twitter
    {"tk_", Alphabet::kAlnum, 29},                      // ntfy
    {"sk_car_", Alphabet::kAlnum, 16},                  // Cartesia
    {"sk_", Alphabet::kHex, 40},                        // ElevenLabs
    {"co_", Alphabet::kAlnum, 36},                      // Cohere
    {"csk-", Alphabet::kAlnum, 24},                     // Cerebras
    {"fc-", Alphabet::kHex, 32},                        // Firecrawl
    {"vcp_", Alphabet::kAlnum, 24},                     // Vercel
    {"vck_", Alphabet::kAlnum, 24},
    {"nfp_", Alphabet::kAlnum, 32},               // Netlify
    {"CFPAT-", Alphabet::kDashed, 32},            // Contentful
    {"LS0tLS1CRUdJTi", Alphabet::kAnything, 16},  // "-----BEGIN" in base64
    {"MIIEv", Alphabet::kAnything, 64},           // a private key's body
    {"MIIEp", Alphabet::kAnything, 64},
    {"MIIJQ", Alphabet::kAnything, 64},
    {"MIGHAgEA", Alphabet::kAnything, 40},
    {"MC4CAQAwBQYDK2Vw", Alphabet::kAnything, 16},
    {"xprv", Alphabet::kAlnum, 60},  // a wallet's key
    {"0x", Alphabet::kHex, 64},
};

constexpr size_t kTested = 256;    // of a credential, from its beginning: no more time than that for what is none
constexpr size_t kRandomPart = 8;  // of a kDashed credential, where a digit is among them
constexpr size_t kLongPart = 16;   // ... where none is

bool IsDashed(char c) { return IsAlnum(c) || c == '_' || c == '-'; }
bool IsTokenChar(char c) { return IsDashed(c) || c == '+' || c == '/' || c == '=' || c == '.' || c == '~'; }

size_t SpanOf(Alphabet alphabet, Slice text) {
  switch (alphabet) {
    case Alphabet::kAlnum:
      return Span(text, IsAlnum);
    case Alphabet::kUpper:
      return Span(text, [](char c) { return IsUpper(c) || IsDigit(c); });
    case Alphabet::kWord:
      return Span(text, IsWordChar);
    case Alphabet::kDashed:
      return Span(text, IsDashed);
    case Alphabet::kAnything:
      return Span(text, IsTokenChar);
    case Alphabet::kEscaped:
      return Span(text, [](char c) { return IsTokenChar(c) || c == '%'; });
    case Alphabet::kHex:
      return Span(text, IsHex);
    case Alphabet::kDigits:
      return Span(text, IsDigit);
    case Alphabet::kKeyGroups:
      return Span(text, [](char c) { return IsHex(c) || IsUpper(c) || c == '-'; });
  }
  return 0;
}

// Whether one of the parts between dashes is more than a word.
bool HasRandomPart(Slice text) {
  for (size_t at = 0; at < text.size;) {
    const Slice part = text.Part(at, Span(text.From(at), IsAlnum));
    const bool has_digit = Count(part, IsDigit) > 0 && Count(part, IsLetter) > 0;
    if (part.size >= kLongPart || (part.size >= kRandomPart && has_digit)) return true;
    at += part.size + 1;
  }
  return false;
}

// One part of a credential that is built of several, with what stands in front of it.
struct Part {
  const char* before;
  Alphabet alphabet;
  uint8_t least, most;
};

// Credentials without a beginning of their own.
struct Build {
  Part parts[4];
};

constexpr Build kBuilds[] = {
    // Telegram's bots, Facebook, Azure, Terraform Cloud, Airtable, Mailchimp, Discord's bots, Google's refresh tokens
    {{{"", Alphabet::kDigits, 6, 16}, {":A", Alphabet::kDashed, 30, 40}}},
    {{{"", Alphabet::kDigits, 15, 16}, {"|", Alphabet::kDashed, 27, 40}}},
    {{{"", Alphabet::kAlnum, 4, 4}, {"Q~", Alphabet::kAnything, 31, 40}}},
    {{{"", Alphabet::kAlnum, 14, 14}, {".atlasv1.", Alphabet::kAnything, 40, 80}}},
    {{{"pat", Alphabet::kAlnum, 14, 14}, {".", Alphabet::kHex, 40, 80}}},
    {{{"", Alphabet::kHex, 32, 32}, {"-us", Alphabet::kDigits, 1, 2}}},
    {{{"", Alphabet::kDashed, 23, 28}, {".", Alphabet::kDashed, 6, 7}, {".", Alphabet::kDashed, 27, 45}}},
    {{{"1//", Alphabet::kDashed, 30, 120}}},
    {{{"", Alphabet::kAlnum, 6, 6}, {"_", Alphabet::kAlnum, 29, 29}, {"_mmk", Alphabet::kAlnum, 0, 0}}},
    {{{"s-s4t2ud-", Alphabet::kHex, 32, 80}}},
    {{{"s-s4t2af-", Alphabet::kHex, 32, 80}}},
    {{{"s.", Alphabet::kAlnum, 24, 24}}},      // Vault's older tokens
    {{{"sl.", Alphabet::kDashed, 100, 200}}},  // Dropbox
    {{{"local-", Alphabet::kHex, 40, 40}}},    // Weights & Biases' own servers
};

size_t BuiltSize(Slice text, const Build& build) {
  size_t at = 0;
  for (const Part& part : build.parts) {
    if (part.before == nullptr) break;
    const Slice rest = text.Part(at, kTested);
    if (!rest.StartsWith(part.before)) return 0;
    const size_t before = std::strlen(part.before);
    size_t size = SpanOf(part.alphabet, rest.From(before));
    if (part.least == part.most && size > part.most) size = part.most;  // what follows may be of the same alphabet
    if (size < part.least || size > part.most) return 0;
    at += before + size;
  }
  return IsAlnum(text[at]) ? 0 : at;
}

size_t BuiltCredentialSize(Slice text) {
  for (const Build& build : kBuilds) {
    const size_t size = BuiltSize(text, build);
    const Slice built = text.Until(size);
    if (Count(built, IsDigit) > 0 || (Count(built, IsUpper) > 3 && Count(built, IsLower) > 3)) return size;
  }
  return 0;
}

}  // namespace

size_t CredentialSize(Slice text) {
  for (const Shape& shape : kShapes) {
    if (text[0] != shape.prefix[0] || !text.StartsWith(shape.prefix)) continue;
    const size_t prefix = std::strlen(shape.prefix);
    const Slice rest = text.From(prefix);
    const Slice tested = rest.Until(SpanOf(shape.alphabet, rest.Until(kTested)));
    if (tested.size < shape.least || (shape.alphabet == Alphabet::kDashed && !HasRandomPart(tested))) continue;
    return prefix + SpanOf(shape.alphabet, rest);
  }
  return BuiltCredentialSize(text);
}

size_t PasswordHashSize(Slice text) {
  const auto is_hash_char = [](char c) { return IsTokenChar(c) || c == '$' || c == ','; };
  for (const char* kind : {"$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$apr1$", "$argon2", "$pbkdf2",
                           "$scrypt$", "{SSHA", "{SHA", "{CRYPT}", "{PBKDF2"}) {
    const size_t prefix = std::strlen(kind);
    if (text[0] != kind[0] || !text.StartsWith(kind)) continue;
    const size_t brace = kind[0] == '{' && kind[prefix - 1] != '}' ? text.Part(prefix, 8).Find('}') + 1 : 0;
    const size_t size = Span(text.From(prefix + brace), is_hash_char);
    return size >= 16 ? prefix + brace + size : 0;
  }
  return 0;
}

}  // namespace gpumem::format
