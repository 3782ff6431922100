"""Programs that write code: agents that call tools in a loop, and an editor's completions."""

from __future__ import annotations

from collections.abc import Iterator

from perf.unseen.prompts import Author, Prompt, Text, arrivals


def agents(author: Author) -> Iterator[Prompt]:
    """Agents that call tools in a loop and start others for parts of their work.

    The shape is that of TraceLab's 4,265 sessions (Zhu et al., 2026, arXiv:2606.30560): several
    tool steps for each thing that a user asks; tools take 0.3 s at the median and 13.6 s at the
    90th percentile, an answer 5.7 s and 22.2 s; users take two minutes at the median and at most
    four hours. A step appends some 800 tokens. Tools and system prompt come to 15,000 tokens, as in
    kv-cache-tester's sessions, and are shared by all agents of a kind. One request in five starts
    one to three others, whose own prompt is 4,000 tokens and a task, and waits for them. At 80,000
    tokens a history is replaced by a summary.
    """
    draw = author.random
    kinds = [[author.text(12_400), author.text(2_900)] for _ in range(2)]
    helpers = [author.text(4_000) for _ in range(3)]
    for number, start in enumerate(arrivals(draw, 90, 8 * 3600)):
        at = start
        head = [*draw.choices(kinds, [4, 1])[0], author.text(author.about(900, 0.6))]
        history: list[Text] = list(head)
        for _ in range(round(author.about(4, 0.8, 25))):
            history.append(author.text(author.about(120, 1.0)))
            for _ in range(1 + round(author.about(5, 1.0, 60))):
                if sum(text.tokens for text in history) > 80_000:
                    history = [*head, author.text(author.about(3_000, 0.4))]
                output = author.answer(250)
                yield Prompt(at, tuple(history), output, f"agent-{number}")
                at += author.about(5.7, 1.06)
                if draw.random() < 0.03:
                    for part in range(draw.randint(1, 3)):
                        name = f"agent-{number}-{round(at)}-{part}"
                        for prompt in _helper(author, at, draw.choice(helpers), name):
                            yield prompt
                            at = max(at, prompt.at + 5.7)
                history += [author.text(output), author.text(author.about(500, 1.2, 12_000))]
                at += author.about(0.3, 2.97, 600)
            at += author.about(120, 1.8, 4 * 3600)


def _helper(author: Author, at: float, prompt: Text, session: str) -> Iterator[Prompt]:
    """What an agent that was started for a part of the work asks."""
    history = [prompt, author.text(author.about(300, 0.5))]
    for _ in range(1 + round(author.about(8, 0.7, 40))):
        output = author.answer(200)
        yield Prompt(at, tuple(history), output, session)
        history += [author.text(output), author.text(author.about(900, 1.1, 12_000))]
        at += author.about(5.7, 1.06) + author.about(0.3, 2.97, 600)


def completions(author: Author) -> Iterator[Prompt]:
    """An editor that asks for completions: what precedes the cursor changes in the middle.

    120 programmers work on eight repositories over four hours. A prompt is an instruction, the
    repository's conventions, two to five files that are open, the file that is edited up to the
    cursor, and what follows it. Files have 40 to 800 lines of ten tokens and are made of chunks of
    some 30 lines. Typing changes the chunk at the cursor from one request to the next, 12 s apart
    at the median; sometimes the cursor moves, another file is opened, or a file that was edited
    stands among the open ones. Everything behind an edited chunk is computed anew. A programmer
    pauses now and then for twenty minutes.
    """
    draw = author.random
    system = author.text(350)

    def written() -> list[Text]:
        return [author.text(author.about(300, 0.4)) for _ in range(draw.randint(1, 25))]

    repositories = [
        (author.text(author.about(700, 0.5)), [written() for _ in range(60)]) for _ in range(8)
    ]
    for number, start in enumerate(arrivals(draw, 120, 3 * 3600)):
        conventions, shared = draw.choice(repositories)
        files = [list(file) for file in shared]
        shown = [round(59 * draw.random() ** 2) for _ in range(draw.randint(3, 6))]
        cursor = draw.randrange(len(files[shown[-1]]))
        at = start
        for _ in range(round(author.about(70, 0.7, 400))):
            edited = files[shown[-1]]
            edited[cursor] = author.text(edited[cursor].tokens + draw.randint(-5, 30))
            before = [text for file in shown[:-1] for text in files[file]]
            prompt = (
                system,
                conventions,
                *before,
                *edited[: cursor + 1],
                *edited[cursor + 1 :][:2],
            )
            yield Prompt(at, prompt, author.answer(45), f"editor-{number}")
            at += author.about(12, 0.9) + (1_200 if draw.random() < 0.02 else 0)
            luck = draw.random()
            if luck < 0.12:
                cursor = draw.randrange(len(edited))
            elif luck < 0.18:
                other = round(59 * draw.random() ** 2)
                shown = [*[file for file in shown if file != other][-5:], other]
                cursor = draw.randrange(len(files[other]))
