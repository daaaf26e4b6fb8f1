// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The command `gpumemshim` of a wheel. The program itself lies in the package's folder, with all that belongs to it; this is what pip puts into the
// folder of commands. It finds the package from its own place and becomes the program: 0.5 ms, where a script of Python's would take 20.
//
//   PREFIX/bin/gpumemshim   PREFIX/lib/python3.X/site-packages/gpumemshim/bin/gpumemshim     an environment, --user, --prefix, uv, pipx
//   TARGET/bin/gpumemshim   TARGET/gpumemshim/bin/gpumemshim                                 pip install --target TARGET
//
// Where several Pythons below one prefix have the package, the one of this version is taken: pip has overwritten the command with that one's.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "gpumemshim/bin/gpumemshim"
#define METADATA "gpumemshim-" GPUMEM_VERSION ".dist-info"

struct search {
  char found[PATH_MAX];    // a program; "" while there is none
  int is_of_this_version;  // by the metadata beside it
};

static int join(char* to, const char* folder, const char* name) {
  const int length = snprintf(to, PATH_MAX, "%s/%s", folder, name);
  return length > 0 && length < PATH_MAX;
}

// Looks into a folder of packages.
static void look_into(const char* packages, struct search* search) {
  char program[PATH_MAX], metadata[PATH_MAX];
  if (!join(program, packages, PROGRAM) || access(program, X_OK) != 0) return;
  const int is_of_this_version = join(metadata, packages, METADATA) && access(metadata, F_OK) == 0;
  if (search->found[0] != '\0' && is_of_this_version <= search->is_of_this_version) return;
  strcpy(search->found, program);
  search->is_of_this_version = is_of_this_version;
}

// Looks into LIBRARIES/python*/site-packages, and dist-packages, as Debian calls it.
static void look_below(const char* libraries, struct search* search) {
  static const char* const kPackages[] = {"site-packages", "dist-packages"};
  DIR* const folder = opendir(libraries);
  if (folder == NULL) return;
  for (const struct dirent* entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    char python[PATH_MAX], packages[PATH_MAX];
    if (strncmp(entry->d_name, "python", 6) != 0 || !join(python, libraries, entry->d_name)) continue;
    look_into(python, search);  // --home has no folder below
    for (size_t i = 0; i < sizeof kPackages / sizeof kPackages[0]; ++i) {
      if (join(packages, python, kPackages[i])) look_into(packages, search);
    }
  }
  closedir(folder);
}

int main(int argc, char** argv) {
  (void)argc;
  static const char* const kLibraries[] = {"lib", "lib64", "local/lib"};
  static char prefix[PATH_MAX], libraries[PATH_MAX];
  static struct search search;
  const ssize_t length = readlink("/proc/self/exe", prefix, sizeof prefix - 1);
  if (length <= 0) {
    fputs("gpumemshim: /proc is not mounted here, which gpumemshim needs\n", stderr);
    return 127;
  }
  for (int level = 0; level < 2; ++level) {  // the command's name, then the folder of commands
    char* const slash = strrchr(prefix, '/');
    if (slash != NULL) *slash = '\0';
  }
  look_into(prefix, &search);
  for (size_t i = 0; i < sizeof kLibraries / sizeof kLibraries[0]; ++i) {
    if (join(libraries, prefix, kLibraries[i])) look_below(libraries, &search);
  }
  if (search.found[0] != '\0') execv(search.found, argv);
  fprintf(stderr,
          "gpumemshim: the package gpumemshim, which has the program, is neither in %s/lib/python3.*/site-packages nor in %s. Run `python3 -m gpumemshim` "
          "with the Python that has it, or install it again.\n",
          prefix, prefix);
  return 127;
}
