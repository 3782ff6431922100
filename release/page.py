"""A README as a package page. No file lies beside it: links are absolute, or name the file."""

from __future__ import annotations

import posixpath
import re

FENCE = re.compile(r"^ *(```|~~~).*?^ *\1 *$", re.M | re.S)
LINK = re.compile(r"\[(?P<text>(?:`[^`]*`|[^\[\]`])*)\]\((?P<target>[^()\s]+)\)")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def absolute(text: str, folder: str, files_url: str | None) -> str:
    """The page with no relative link left in it.

    Args:
        text: The README, in Markdown.
        folder: Where it lies in the repository, `""` for the root.
        files_url: The address below which the forge shows the release's files. None if there is
            none: links to files then become their own text and the file's path.
    """

    def link(found: re.Match[str]) -> str:
        target = found["target"]
        if SCHEME.match(target):
            return found[0]
        if target.startswith("#"):
            if files_url is None:
                return found["text"]
            target = f"README.md{target}"
        path = posixpath.normpath(posixpath.join(folder, target))
        if files_url is None:
            file = path.partition("#")[0]
            is_named = found["text"].strip("`") in (file, posixpath.basename(file))
            return found["text"] if is_named else f"{found['text']} ({file})"
        return f"[{found['text']}]({files_url}/{path})"

    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, LINK.sub(link, text[at:])])
