"""Programs that call a model: retrieval, batches over templates, evaluations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from perf.unseen.prompts import Author, Prompt, Text, arrivals, spread_by_rank


def retrieval(author: Author) -> Iterator[Prompt]:
    """Questions answered from passages of a corpus in which some documents are asked for most.

    4,000 documents under Zipf's law with slope 1, so that 3 % of them take 60 % of the retrievals,
    as in RAGCache's figure of Wikipedia (Jin et al., 2024, arXiv:2404.12457). A document has one
    to eight passages of about 450 tokens. A question brings the best document's passages first,
    then those of documents that are near it; near ones recur in the same order. Over six hours 400
    documents are rewritten, the asked-for ones as likely as others, and each hour other documents
    become current.
    """
    draw = author.random
    count, hours, requests = 4_000, 6, 12_000
    system = author.text(700)

    def written() -> list[Text]:
        return [author.text(author.about(450, 0.35)) for _ in range(draw.randint(1, 8))]

    documents = [written() for _ in range(count)]
    near = [[draw.randrange(count) for _ in range(6)] for _ in range(count)]
    order = list(range(count))
    draw.shuffle(order)
    weights = list(accumulate(spread_by_rank(count, 1.0)))
    updates = arrivals(draw, 400, hours * 3600)
    hour = 0
    for at in arrivals(draw, requests, hours * 3600):
        while updates and updates[0] < at:
            updates.pop(0)
            documents[draw.randrange(count)] = written()
        if at > (hour + 1) * 3600:
            hour += 1
            for _ in range(40):
                one, other = draw.randrange(200), draw.randrange(count)
                order[one], order[other] = order[other], order[one]
        best = order[draw.choices(range(count), cum_weights=weights)[0]]
        others = [one for one in near[best] if draw.random() < 0.4][:3]
        found = [text for one in (best, *others) for text in documents[one][:4]]
        question = author.text(author.about(60, 0.7))
        yield Prompt(at, (system, *found, question), author.answer(220))


def batches(author: Author) -> Iterator[Prompt]:
    """Customers' jobs, each a template with a long head over many records.

    Traffic of an API is of single turns whose reuse is of system prompts and comes within seconds
    (trace B of Wang et al., 2025, arXiv:2506.02634), most of it of few clients (ServeGen, Xiang et
    al., 2025, arXiv:2505.09999). 120 customers under Zipf's law have one to five templates each,
    heads of about 3,000 tokens and at most 20,000. Jobs start at random over 12 hours and send 5
    to 400 records back to back; a fifth of the jobs is run again an hour later on the same
    records, as after a failure. A template is edited, from some point of its head on, once in
    twenty jobs.
    """
    draw = author.random
    seconds, wanted = 12 * 3600, 14_000
    customers = []
    for _ in range(120):
        heads = []
        for _ in range(draw.randint(1, 5)):
            parts = [author.text(300)]
            for _ in range(draw.randint(2, 5)):
                parts.append(author.text(author.about(600, 0.8, 4_000)))
            heads.append(parts)
        customers.append(heads)
    weights = spread_by_rank(len(customers), 1.1)
    sent = 0
    while sent < wanted:
        heads = draw.choices(customers, weights)[0]
        head = draw.choice(heads)
        if draw.random() < 0.05:
            place = draw.randrange(1, len(head))
            head[place] = author.text(head[place].tokens)
        size, mean = author.about(350, 0.6, 6_000), author.about(90, 1.0, 1_500)
        many = 5 + round(author.about(40, 1.2, 395))
        records = [author.text(author.about(size, 0.5)) for _ in range(many)]
        rate = author.about(2.0, 0.7)
        start = draw.uniform(0, seconds)
        starts = [start, start + 3600] if draw.random() < 0.2 else [start]
        for begin in starts:
            at = begin
            for record in records:
                at += draw.expovariate(rate)
                yield Prompt(at, (*head, record), author.answer(mean))
                sent += 1


def evaluations(author: Author) -> Iterator[Prompt]:
    """A set of few-shot prompts that is swept in turn, once for each repeat.

    57 subjects with a head of five solved examples each, as MMLU has (Hendrycks et al., 2021,
    arXiv:2009.03300), about 1,800 questions in all, some of which bring a passage or a file of
    thousands of tokens. Seven repeats, as for a mean over samples, run one after the other: all
    subjects in their order, each question once a repeat. 32 requests run at a time, so neighbours
    change places. A repeat leaves out a tenth of the subjects, another tenth each time.
    """
    draw = author.random
    subjects = []
    for _ in range(57):
        head = author.text(author.about(1_100, 0.7, 6_000))
        asked = [
            author.text(author.about(500, 1.0, 8_000)) for _ in range(round(author.about(28, 0.5)))
        ]
        subjects.append((head, asked))
    at = 0.0
    for _ in range(7):
        for head, asked in subjects:
            if draw.random() < 0.1:
                continue
            for question in asked:
                at += draw.expovariate(6.0)
                late = draw.uniform(0, 32 / 6.0)
                yield Prompt(at + late, (head, question), author.answer(350))
        at += author.about(120, 0.5)
