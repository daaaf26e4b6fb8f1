// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors

#include "cli/bundle/masker.h"

#include <gtest/gtest.h>

namespace gpumem {
namespace {

TEST(MaskerTest, FoldersKeepTheirNumber) {
  Masker masker;
  EXPECT_EQ(masker.Text("/home/alice/a/x.py:3 /home/alice/b/x.py:4 (/home/alice/a/y.py)"),
            "/dir1/x.py:3 /dir2/x.py:4 (/dir1/y.py)");
  EXPECT_EQ(masker.Value("/home/alice/with blank/z.py"), "/dir3/z.py");
  EXPECT_EQ(masker.Text("A=/home/alice/b/x.py:/srv/data/c.bin"), "A=/dir2/x.py:/dir4/c.bin");
  EXPECT_EQ(masker.Text("10 MiB/s, MiB /step, aten::linear, 3/4, ~/x, a/b/c.py, /usr/lib/libc.so.6"),
            "10 MiB/s, MiB /step, aten::linear, 3/4, ~/x, a/b/c.py, /usr/lib/libc.so.6");
}

TEST(MaskerTest, NamesOfUsersAndHostsAreWholeWords) {
  Masker masker;
  masker.AddUser("alice");
  masker.AddHost("node17.corp.example");
  masker.AddHost("localhost");
  masker.AddUser("root");
  EXPECT_EQ(masker.Text("node9.corp.example"), "node9.***");
  EXPECT_EQ(masker.Text("alice_run on NODE17, Node17.corp.example; malice stays, root and localhost too"),
            "***_run on ***, ***; malice stays, root and localhost too");
  EXPECT_EQ(masker.count(MaskedKind::kUser), 1u);
}

TEST(MaskerTest, AUserOfAPathIsKnownFromThenOn) {
  Masker masker;
  masker.Value("/home/alice/x.py");
  EXPECT_EQ(masker.Text("started by alice"), "started by ***");
}

TEST(MaskerTest, FoldersWithBlanksThatAreKnown) {
  Masker masker;
  masker.AddFolder("/home/bob/my secret.v2");
  EXPECT_EQ(masker.Text("in /home/bob/my secret.v2, and /home/bob/my secret.v2/train.py, not /x/home/bob/my"),
            "in /dir1, and /dir1/train.py, not /dir2");
}

TEST(MaskerTest, PlacesAndPeople) {
  Masker masker;
  EXPECT_EQ(masker.Text("git+https://me:pw@git.corp.example/alice/x?token=1 \"s3://bucket/key\" tcp://10.0.0.1:29500"),
            "git+https://*** \"s3://***\" tcp://***");
  EXPECT_EQ(masker.Text("10.1.2.3, 10.1.2.3:29500, fe80::1ff:fe23:4567:890a, 52:54:00:12:34:56, 127.0.0.1 at 12:34:56"),
            "***, ***:29500, ***, ***, 127.0.0.1 at 12:34:56");
  EXPECT_EQ(masker.Text("write to alice.b@corp.example. torch@2.1 @decorated"),
            "write to ***@***. torch@2.1 @decorated");
  EXPECT_EQ(masker.Text("GPU-3c5a1b2e-1111-2222-3333-444455556666"), "GPU-***");
  EXPECT_EQ(masker.Text("GPU 0, 0000:65:00.0, torch 2.11.0+cu130, aten::add, c10::cuda"),
            "GPU 0, 0000:65:00.0, torch 2.11.0+cu130, aten::add, c10::cuda");
  EXPECT_EQ(masker.Names("cuDNN 9.1.0.70"), "cuDNN 9.1.0.70");
  EXPECT_EQ(masker.Text("file:///home/bob/x/y.py"), "file:///dir1/y.py");
}

TEST(MaskerTest, Secrets) {
  Masker masker;
  EXPECT_EQ(masker.Text("export HF_TOKEN=abc; python x.py --password hunter2"),
            "export HF_TOKEN=***; python x.py --password ***");
  EXPECT_GE(masker.count(MaskedKind::kSecret), 1u);
}

TEST(MaskerTest, MaskingTwiceChangesNothing) {
  Masker masker;
  masker.AddUser("alice");
  for (const char* text :
       {"/home/alice/a/x.py", "https://a.b/c", "alice", "me@host.example 10.1.2.3", "TOKEN=abc", "/dirty/place/x.py"}) {
    const std::string once = masker.Text(text);
    EXPECT_EQ(masker.Text(once), once);
    EXPECT_EQ(masker.Value(once), once);
    EXPECT_EQ(masker.Names(once), once);
    EXPECT_NE(once, text);
  }
}

TEST(MaskerTest, AnyBytesAreTaken) {
  Masker masker;
  masker.AddUser("x\xff");
  for (const std::string& text :
       {std::string("/"), std::string("//"), std::string("://"), std::string("@"), std::string("a@"),
        std::string("\0/a/b\0", 6), std::string("/\xff/\xfe"), std::string(100000, '/'), std::string(100000, ':')}) {
    masker.Text(text);
    masker.Value(text);
    masker.Names(text);
  }
}

}  // namespace
}  // namespace gpumem
