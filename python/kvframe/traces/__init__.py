"""Traces of traffic, whatever form they were kept in: recognised by content, read as rows.

```text
 file ──▶ streams ──▶ records ──▶ forms/NAME ──▶ order ──▶ feed ──▶ the core's reader
          bytes,      objects,    rows of one    by time   JSONL    prefix nodes
          unpacked    lines       vocabulary               bytes
```

JSONL in Mooncake's or Qwen-Bailian's form, kvframe's compact form, lcsllm and oracleGeneral go from
`streams` to the core directly. A reader of another form is a package's plugin: `TraceReader`.
"""

from __future__ import annotations

from kvframe.traces.reader import Given, Head, Record, Row, TraceReader

__all__ = ["Given", "Head", "Record", "Row", "TraceReader"]
