# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Programs built with sanitizers, and programs that are linked, started or watched in uncommon ways: they print, report and return what they do without
the recorder, and their memory is recorded. Each is built when its test runs; what this machine cannot build is said.

    python tests/hosts/sanitizers_test.py --build build/release --hosts build/release/tests/hosts
"""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import hosts_test
import history

FOLDER = pathlib.Path(__file__).resolve().parent
EVENTS = 5 * (80 + 70)  # of the word `cuda`: 5 times 50 + 30 allocations, 50 + 20 frees
RUNTIMES = (glob.glob("/usr/lib/llvm-14/lib/clang/14*/lib/linux") or [""])[0]

# name -> compiler and options; what a runtime finds, of the planted bugs.
SANITIZERS = {
    "gcc-asan": (("g++", "-fsanitize=address"), ("free", "leak")),
    "gcc-asan-recover": (("g++", "-fsanitize=address", "-fsanitize-recover=address"), ()),
    "gcc-asan-static": (("g++", "-fsanitize=address", "-static-libasan"), ("free",)),
    "gcc-asan-ubsan": (("g++", "-fsanitize=address,undefined"), ("shift",)),
    "gcc-tsan": (("g++", "-fsanitize=thread"), ("race",)),
    "gcc-tsan-static": (("g++", "-fsanitize=thread", "-static-libtsan"), ("race",)),
    "gcc-ubsan": (("g++", "-fsanitize=undefined"), ("shift",)),
    "gcc-lsan": (("g++", "-fsanitize=leak"), ("leak",)),
    "clang-asan": (("clang++-14", "-fsanitize=address"), ("free", "leak")),
    "clang-asan-shared": (("clang++-14", "-fsanitize=address", "-shared-libasan", f"-Wl,-rpath,{RUNTIMES}"), ("free",)),
    "clang-tsan": (("clang++-14", "-fsanitize=thread"), ("race",)),
    "clang-msan": (("clang++-14", "-fsanitize=memory"), ("unset",)),
    "clang-msan-recover": (("clang++-14", "-fsanitize=memory", "-fsanitize-recover=memory"), ("unset",)),
    "clang-ubsan": (("clang++-14", "-fsanitize=undefined"), ("shift",)),
    "clang-lsan": (("clang++-14", "-fsanitize=leak"), ("leak",)),
    "clang-memprof": (("clang++-14", "-fmemory-profile"), ()),
    "clang-safe-stack": (("clang++-14", "-fsanitize=safe-stack"), ()),
    "clang-scudo": (("clang++-14", "-fsanitize=scudo"), ()),
    "clang-hwasan": (("clang++-14", "-fsanitize=hwaddress", "-fsanitize-hwaddress-experimental-aliasing", "-fuse-ld=bfd"), ()),
}
LINKED = {
    "plainly": ("g++",),
    "with gold": ("g++", "-fuse-ld=gold"),
    "with lld": ("clang++-14", "-fuse-ld=lld"),
    "bound at once": ("g++", "-Wl,-z,now,-z,relro"),
    "not position-independent": ("g++", "-no-pie"),
    "for branch targets": ("g++", "-fcf-protection=full", "-Wl,-z,ibtplt"),
    "for gprof": ("g++", "-pg"),
    "with jemalloc in it": ("g++", "-l:libjemalloc.a"),
    "with old hash tables": ("g++", "-Wl,--hash-style=both"),
}
STARTED = {
    "LD_BIND_NOW": ((), {"LD_BIND_NOW": "1"}),
    "tunables": ((), {"GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.rtld.optional_static_tls=4096:glibc.cpu.hwcaps=-AVX2"}),
    "by the loader": (("/lib64/ld-linux-x86-64.so.2",), {}),
    "audited": ((), {"LD_AUDIT": "{hosts}/libpreload_audit.so"}),
    "in memcheck": (("valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=definite"), {}),
}


def setUpModule():
    global BUILT
    folder = tempfile.TemporaryDirectory(prefix="gpumemshim-sanitizers-")
    unittest.addModuleCleanup(folder.cleanup)
    BUILT = pathlib.Path(folder.name)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", "-o", BUILT / "libcuda.so.1", FOLDER / "sanitizers_driver.c"], check=True)


def built(name, *command, source=FOLDER / "sanitizers_host.cc"):
    """The program, or None and why it cannot be built here."""
    program = BUILT / name.replace(" ", "-")
    if program.exists():
        return program, ""
    if shutil.which(command[0]) is None:
        return None, f"{command[0]} is not installed"
    done = subprocess.run([command[0], "-g1", str(source), *command[1:], "-o", str(program), "-ldl", "-lpthread"], capture_output=True, text=True, timeout=600)
    return (program, "") if done.returncode == 0 else (None, (done.stderr.splitlines() or ["the linker failed"])[-1])


class Victim(hosts_test.HostTest):
    def run_it(self, preload, command, **more):
        environment = self.environment(preload, LD_LIBRARY_PATH=str(BUILT), **more)
        return subprocess.run([str(part) for part in command], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)

    def plain(self, text):
        """Without what differs from run to run, our line, and the numbers of threads, of which we have three."""
        lines = [line for line in text.splitlines() if not line.startswith("gpumemshim:")]
        return [re.sub(r"==\d+==|pid[= ]\d+|tid[= ]\d+|0x[0-9a-f]+|\bT\d+\b|BuildId: \w+|\(\d+\)", "", line) for line in lines]

    def verdicts(self, text):
        return sorted(set(re.findall(r"SUMMARY: .*|runtime error: .*|ERROR: \w+: [a-z-]+|WARNING: \w+: [a-z- ]+", text)))

    def compare(self, command, same=plain, **more):
        bare = self.run_it(False, command, **more)
        for trace in self.traces():
            trace.unlink()
        for file in self.folder.glob("gmon.out"):
            file.unlink()
        done = self.run_it(True, command, **more)
        self.assertEqual(done.stdout, bare.stdout, done.stderr[-2000:])
        self.assertEqual(same(self, done.stderr), same(self, bare.stderr))
        self.assertEqual(done.returncode, bare.returncode, done.stderr[-2000:])
        return bare, done

    def assert_recorded(self):
        events = [event for event in history.events_of(self.setup, self.the_trace()) if event["kind"] in ("alloc", "free")]
        self.assertEqual(len(events), EVENTS)
        self.assertTrue(all(event["stack"] for event in events if event["kind"] == "alloc"))

    def check_table(self, table, check):
        left_out = []
        for name, entry in table.items():
            program, reason = built(name, *(entry[0] if isinstance(entry[0], tuple) else entry))
            if program is None:
                left_out.append(f"{name} ({reason[:80]})")
                continue
            with self.subTest(name):
                check(program, entry)
        if left_out:
            print("  not built here:", "; ".join(left_out))


class Sanitizers(Victim):
    def test_without_cuda(self):
        """They start, and nothing of ours is seen: no file, no line."""

        def check(program, _):
            bare, done = self.compare((program, "plain"))
            self.assertEqual(bare.returncode, 3, bare.stderr[-2000:])
            self.assertNotIn("gpumemshim", done.stderr)
            self.assertEqual(self.traces(), [])

        self.check_table(SANITIZERS, check)

    def test_with_cuda(self):
        """They are recorded, and no report is about us."""

        def check(program, _):
            bare, _ = self.compare((program, "plain", "cuda"))
            self.assertEqual(bare.returncode, 3, bare.stderr[-2000:])
            self.assert_recorded()

        self.check_table(SANITIZERS, check)

    def test_what_they_find(self):
        """A planted bug is reported as if it were not recorded, behind recorded work too."""

        def check(program, entry):
            for bug in entry[1]:
                bare, _ = self.compare((program, "plain", "cuda", bug), same=Victim.verdicts)
                self.assertNotEqual(self.verdicts(bare.stderr), [], f"{program.name} does not find {bug}")

        self.check_table(SANITIZERS, check)

    def test_order_of_libraries_that_asan_insists_on(self):
        """A program that asks for the check with options of its own gets it; ours gives way."""
        program, reason = built("gcc-asan", *SANITIZERS["gcc-asan"][0])
        if program is None:
            self.skipTest(reason)
        for options, starts in (("", True), ("verify_asan_link_order=0", True), ("verify_asan_link_order=1", False)):
            done = self.run_it(True, (program, "plain"), ASAN_OPTIONS=options)
            self.assertEqual(done.returncode == 3, starts, done.stderr)
            self.assertEqual("does not come first" in done.stderr, not starts)
            environment = self.environment(False, ASAN_OPTIONS=options)
            doctor = subprocess.run([self.setup.gpumem, "doctor", "--", str(program)], env=environment, capture_output=True, text=True, timeout=600)
            self.assertEqual("verify_asan_link_order=0" in doctor.stdout, not starts, doctor.stdout)


class Linked(Victim):
    def test_in_uncommon_ways(self):
        def check(program, _):
            self.compare((program, "plain", "cuda"))
            self.assert_recorded()

        self.check_table(LINKED, check)

    def test_statically_and_position_independent(self):
        program, reason = built("static-pie", "g++", "-static-pie")
        if program is None:
            self.skipTest(reason)
        self.compare((program, "leak"))
        self.assertEqual(self.traces(), [])


class Started(Victim):
    def test_in_uncommon_ways(self):
        program, reason = built("plainly", *LINKED["plainly"])
        self.assertIsNotNone(program, reason)
        for name, (prefix, variables) in STARTED.items():
            if prefix and shutil.which(prefix[0]) is None:
                print(f"  left out: {name} ({prefix[0]} is not installed)")
                continue
            with self.subTest(name):
                variables = {key: value.format(hosts=hosts_test.HOSTS) for key, value in variables.items()}
                bare, _ = self.compare((*prefix, program, "plain", "cuda"), **variables)
                self.assertEqual(bare.returncode, 3, bare.stderr[-2000:])
                self.assert_recorded()


class OwnLookUps(Victim):
    """The program has a dlsym of its own, which finds the C library's by a version."""

    SOURCE = """
#include <dlfcn.h>
#include <stdio.h>
static int g_calls;
void* dlsym(void* handle, const char* name) {
  static void* (*real)(void*, const char*);
  if (real == NULL) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  ++g_calls;
  return real == NULL ? NULL : real(handle, name);
}
int main(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*init)(unsigned) = dlsym(driver, "cuInit");
  int (*allocate)(unsigned long*, size_t) = dlsym(driver, "cuMemAlloc_v2");
  unsigned long address;
  printf("%d\\n", init(0));
  for (int i = 0; i < 10; ++i) printf("%d", allocate(&address, 100));
  printf("\\n%d calls\\n", g_calls >= 2);
  return 4;
}
"""

    def test_of_the_programs_own(self):
        source = self.folder / "own.c"
        source.write_text(self.SOURCE)
        for name, command in (("own", ("gcc", "-D_GNU_SOURCE", "-rdynamic")), ("own-asan", ("clang-14", "-D_GNU_SOURCE", "-fsanitize=address"))):
            program, reason = built(name, *command, source=source)
            if program is None:
                print(f"  not built here: {name} ({reason})")
                continue
            with self.subTest(name):
                bare, _ = self.compare((program,))
                self.assertEqual(bare.returncode, 4, bare.stderr)
                self.assertEqual(sum(event["kind"] == "alloc" for event in history.events_of(self.setup, self.the_trace())), 10)


class Rust(Victim):
    SOURCE = r"""
use std::ffi::{c_char, c_int, c_void, CString};
extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}
fn main() {
    unsafe {
        let library = CString::new("libcuda.so.1").unwrap();
        let driver = dlopen(library.as_ptr(), 2);
        let find = |name: &str| { let text = CString::new(name).unwrap(); dlsym(driver, text.as_ptr()) };
        let init: extern "C" fn(u32) -> i32 = std::mem::transmute(find("cuInit"));
        let allocate: extern "C" fn(*mut u64, usize) -> i32 = std::mem::transmute(find("cuMemAlloc_v2"));
        println!("{}", init(0));
        let threads: Vec<_> = (0..3).map(|i| std::thread::spawn(move || {
            let mut address = 0u64;
            for k in 0..100 { assert_eq!(allocate(&mut address, 100 * k + i), 0); }
        })).collect();
        for thread in threads { thread.join().unwrap(); }
        std::panic::set_hook(Box::new(|_| ()));
        println!("{}", std::panic::catch_unwind(|| panic!("caught")).is_err());
        std::process::exit(6);
    }
}
"""

    def test_a_program_in_rust(self):
        if shutil.which("rustc") is None:
            self.skipTest("rustc is not installed")
        source = self.folder / "host.rs"
        source.write_text(self.SOURCE)
        done = subprocess.run(["rustc", "-O", str(source), "-o", str(BUILT / "rust")], capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            self.skipTest(f"rustc cannot build here: {done.stderr[-200:]}")
        bare, _ = self.compare((BUILT / "rust",))
        self.assertEqual((bare.returncode, bare.stdout), (6, "0\ntrue\n"), bare.stderr)
        self.assertEqual(sum(event["kind"] == "alloc" for event in history.events_of(self.setup, self.the_trace())), 300)


if __name__ == "__main__":
    os.environ.setdefault("PATH", "/usr/bin:/bin")
    hosts_test.main()
