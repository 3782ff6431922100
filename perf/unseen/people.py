"""People who talk with a model: chats, and questions about long documents."""

from __future__ import annotations

from collections.abc import Iterator

from perf.unseen.prompts import Author, Prompt, Text, arrivals, spread_by_rank


def chats(author: Author) -> Iterator[Prompt]:
    """A chat service over two days, with system prompts that are rolled out and rolled back.

    Conversations arrive with the day; half are of one turn, and the mean is 3. Thinking takes a
    minute at the median, and seven pauses in eight are shorter than 10 minutes, within which four
    fifths of the reuse come in trace A of Wang et al. (2025, arXiv:2506.02634); one in twelve takes
    hours, when a user comes back to an old conversation. One conversation in seven begins with a
    file that was pasted in. A new system prompt reaches a growing share of the conversations over
    three hours; the third version of five is withdrawn. Conversations keep the version that they
    began with.
    """
    draw = author.random
    days, conversations = 2, 4_500
    versions = [author.text(author.about(900, 0.2)) for _ in range(5)]
    tools = author.text(1_400)
    span = days * 86_400
    for number, start in enumerate(arrivals(draw, conversations, span, 0.7)):
        system = versions[_version(start / span, draw.random())]
        history: list[Text] = [system]
        if draw.random() < 0.3:
            history.append(tools)
        if draw.random() < 1 / 7:
            history.append(author.text(author.about(3_500, 0.9, 40_000)))
        at = start
        stop = draw.choice([1.0, 0.2])
        while True:
            history.append(author.text(author.about(70, 1.1, 4_000)))
            output = author.answer(420)
            yield Prompt(at, tuple(history), output, f"chat-{number}")
            history.append(author.text(output))
            if draw.random() < stop:
                break
            think = author.about(3 * 3600, 0.8) if draw.random() < 1 / 12 else author.about(60, 1.4)
            at += output * 0.02 + think


def _version(time: float, luck: float) -> int:
    """Which of five system prompts a conversation gets; both numbers lie between 0 and 1."""
    now, taken = 0, 0.0625
    for version in range(1, 5):
        begun = 0.2 * version
        if time > begun and luck < (time - begun) / taken:
            now = version
    return 1 if now == 2 and time > 0.5 else now


def documents(author: Author) -> Iterator[Prompt]:
    """Questions about long documents that teams share, some sampled four times for the best.

    700 documents of about 9,000 tokens, at most 60,000, come up over a working day of ten hours:
    lengths as of LongBench's (Bai et al., 2023, arXiv:2308.14508). A reader asks four questions on
    average, a minute and a half apart; each is asked of the document alone, or, for half of the
    readers, behind the questions and answers before it. Zipf's law says how many of a team read
    the same document, most within the hour and some at the day's end. One question in five is sent
    four times at once, and the best answer is kept.
    """
    draw = author.random
    system = author.text(400)
    uploads = arrivals(draw, 700, 36_000)
    readers = spread_by_rank(len(uploads), 0.8)
    draw.shuffle(readers)
    for number, begun in enumerate(uploads):
        document = author.text(author.about(9_000, 0.7, 60_000))
        for reader in range(1 + round(8 * readers[number] ** 0.5 * draw.random() * 3)):
            at = begun
            if reader:
                at += author.about(1_500, 1.0) if draw.random() < 0.8 else draw.uniform(0, 30_000)
            history: list[Text] = [system, document]
            keeps = draw.random() < 0.5
            while True:
                question = author.text(author.about(45, 0.6))
                output = author.answer(300)
                for _ in range(4 if draw.random() < 0.2 else 1):
                    yield Prompt(at, (*history, question), output, f"reader-{number}-{reader}")
                if keeps:
                    history += [question, author.text(output)]
                if draw.random() < 0.25:
                    break
                at += output * 0.02 + author.about(90, 0.9)
