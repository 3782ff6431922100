"""Line numbers of TOML keys."""

from __future__ import annotations

import tomllib

from kvframe.config.lines import key_lines

TEXT = '''\
# comment = 1
top = 1
[a]   # a table
b.c = 2
"quoted key" = 3
text = """
not_a_key = 4
"""
  'single' = [
    1,
    2,
]
[ a . d ]
e = 5
[[list]]
x = 6
[[list]]
y = { z = 7 }
[list.inner]
w = 8
[a.b.more]
c = 9
'''


def test_lines() -> None:
    assert tomllib.loads(TEXT.replace("[a.b.more]", "[a.m.more]"))
    lines = key_lines(TEXT)
    expected = {
        "top": 2,
        "a": 3,
        "a.b": 4,
        "a.b.c": 4,
        "a.quoted key": 5,
        "a.text": 6,
        "a.single": 9,
        "a.d": 13,
        "a.d.e": 14,
        "list": 15,
        "list[0]": 15,
        "list[0].x": 16,
        "list[1]": 17,
        "list[1].y": 18,
        "list[1].inner": 19,
        "list[1].inner.w": 20,
    }
    assert {key: lines[key] for key in expected} == expected


def test_a_root_table_is_cut_off() -> None:
    text = "[tool.other]\nx = 1\n[tool.kvframe.cache]\nblock_size = 4\n"
    assert key_lines(text, "tool.kvframe") == {
        "": 3,
        "cache": 3,
        "cache.block_size": 4,
    }
