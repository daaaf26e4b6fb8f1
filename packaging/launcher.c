// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The gpumemshim authors
//
// The command `gpumemshim` of a wheel. The program itself lies in the package's folder, with all that belongs to it;
// this is what pip puts into the folder of commands. It finds the package from its own place and becomes the program:
// 0.7 ms, where a script of Python's takes 20 and more.
//
//   PREFIX/bin   PREFIX/lib/python3.X/site-packages/gpumemshim  an environment, --user, --prefix, uv, pipx
//   TARGET/bin   TARGET/gpumemshim                              pip install --target TARGET
//
// Its place is where the file is, or where a link to it is: pipx links to the command from elsewhere, uv can link from
// an environment to its cache. Where several Pythons below one prefix have the package, the one of this version is
// taken: pip has overwritten the command with that one's.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
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

// Looks around the folder of commands that `command` lies in, and writes what that folder is in to `prefix`.
static int look_around(const char* command, char* prefix, struct search* search) {
  static const char* const kLibraries[] = {"lib", "lib64", "local/lib"};
  char libraries[PATH_MAX];
  const char* const slash = strrchr(command, '/');
  if (slash == NULL || slash - command + sizeof "/.." > PATH_MAX) return 0;
  sprintf(prefix, "%.*s/..", (int)(slash - command), command);
  char* const real = realpath(prefix, NULL);
  if (real != NULL && strlen(real) < PATH_MAX) strcpy(prefix, real);
  free(real);
  look_into(prefix, search);
  for (size_t i = 0; i < sizeof kLibraries / sizeof kLibraries[0]; ++i) {
    if (join(libraries, prefix, kLibraries[i])) look_below(libraries, search);
  }
  return search->found[0] != '\0';
}

// Replaces the path of a link by where it leads; 0 where it is none.
static int follow(char* path) {
  char target[PATH_MAX], folder[PATH_MAX];
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length <= 0) return 0;
  target[length] = '\0';
  if (target[0] == '/') return strcpy(path, target) != NULL;
  const char* const slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path), slash == NULL ? "." : path);
  return join(path, folder, target);
}

int main(int argc, char** argv) {
  (void)argc;
  static char path[PATH_MAX], prefix[PATH_MAX], tried[PATH_MAX];
  static struct search search;
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  int found = length > 0 && look_around(path, prefix, &search);
  const char* const called = (const char*)getauxval(AT_EXECFN);
  if (!found && called != NULL && strlen(called) < sizeof path) {
    strcpy(tried, prefix);
    strcpy(path, called);
    for (int links = 0; links < 8 && !found; ++links) {
      found = look_around(path, prefix, &search);
      if (!found && !follow(path)) break;
    }
  }
  if (found) execv(search.found, argv);
  const char* const shown = tried[0] != '\0' ? tried : prefix;
  fprintf(stderr,
          "gpumemshim: the package gpumemshim, which has the program, is neither in %s/lib/python3.*/site-packages nor "
          "in %s. Run `python3 -m gpumemshim` "
          "with the Python that has it, or install it again.\n",
          shown, shown);
  return 127;
}
