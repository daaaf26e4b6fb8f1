# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""An index of packages on this machine alone (PEP 503, with the metadata of wheels beside them, PEP 658), for pip and uv.

    with LocalIndex([wheel, sdist]) as index:
        pip install --index-url {index.url} gpumemshim
"""

import hashlib
import html
import http.server
import re
import threading
import urllib.parse
import zipfile


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def page(links):
    return ("<!DOCTYPE html>\n<html><body>\n" + "".join(f'<a href="{html.escape(address)}"{more}>{html.escape(text)}</a>\n' for address, text, more in links) + "</body></html>\n").encode()


def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


class LocalIndex:
    def __init__(self, files):
        self.files = {path.name: path for path in files}
        self.asked = []  # paths, in order

    def pages(self):
        """What is answered, by path; files themselves are read when they are asked for."""
        answers, by_project = {}, {}
        for name, path in self.files.items():
            address, more = f"/files/{urllib.parse.quote(name)}", ""
            if name.endswith(".whl"):
                answers[f"/files/{name}.metadata"] = metadata(path)
                more = f' data-core-metadata="sha256={hashlib.sha256(answers[f"/files/{name}.metadata"]).hexdigest()}"'
            by_project.setdefault(normal(name.split("-")[0]), []).append((f"{address}#sha256={hashlib.sha256(path.read_bytes()).hexdigest()}", name, more))
        answers |= {f"/simple/{project}/": page(links) for project, links in by_project.items()}
        return {**answers, "/simple/": page([(f"/simple/{project}/", project, "") for project in by_project])}

    def __enter__(self):
        index, pages = self, self.pages()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                index.asked.append(self.path)
                path = urllib.parse.unquote(self.path)
                file = index.files.get(path.removeprefix("/files/"))
                body = pages.get(path) or (file.read_bytes() if path.startswith("/files/") and file else None)
                self.send_response(404 if body is None else 200)
                self.send_header("Content-Type", "application/octet-stream" if path.startswith("/files/") else "text/html")
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple/"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
