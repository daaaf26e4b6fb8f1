#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
#
# Runs a compiler's command after removing the precompiled header that it is to make. With the old one still there, the preprocessor takes that
# instead of the headers' text; ccache then finds the old one again under its own hash, and classes of an earlier trace.proto get into the build.
for argument; do
  case $argument in *.gch) rm -f "$argument" ;; esac
done
exec "$@"
