#!/usr/bin/env python3
"""A small recommender whose embedding tables are sharded over ranks: the losses of one process, to the bit.

    python examples/recommender.py --ranks 4            ranks are threads of this process
    torchrun --nproc_per_node=4 examples/recommender.py ranks are processes

Users, items and tags are tables of rows, cut for four owners by columns, rows and not at all. A dense layer scores
each pair of user and item. While it computes, the next step's ids travel and rows that do not collide are looked up.
Every rank prints the same losses, as hexadecimal numbers: dense gradients of four blocks of samples are added in the
order of the blocks, however many ranks have them.
"""

import argparse
import os

import numpy
import tutti

OWNERS, BLOCK, STEPS, RATE = 4, 16, 30, 0.5
TABLES = [tutti.EmbeddingTable(name="users", rows=200, width=16, cut=tutti.TableCut.COLUMNS, parts=4),
          tutti.EmbeddingTable(name="items", rows=100, width=16, cut=tutti.TableCut.ROWS, parts=3),
          tutti.EmbeddingTable(name="tags", rows=20, width=8, pooling=3, cut=tutti.TableCut.WHOLE)]
WIDTH = sum(table.width for table in TABLES)


def block_of(step, block):
    """Ids and labels of a block: who is interested in what follows from the numbers of both."""
    random = numpy.random.default_rng([step, block])
    users, items = random.integers(0, 200, BLOCK), random.integers(0, 100, BLOCK)
    counts = random.integers(0, 4, BLOCK)
    tags = numpy.concatenate([random.integers(0, 20, count) for count in counts])
    labels = ((users % 5 < 2) ^ (items % 3 == 0)).astype("float32")
    return users, items, tags, counts, labels


def batch_of(step, blocks):
    """What EmbeddingTables take, and the labels, of several blocks."""
    parts = [block_of(step, block) for block in blocks]
    users, items, tags, counts, labels = (numpy.concatenate(column) for column in zip(*parts))
    one_each = numpy.arange(len(users) + 1)
    return [(users, one_each), (items, one_each), (tags, numpy.concatenate([[0], numpy.cumsum(counts)]))], labels


def score(weights, pooled, labels):
    """The losses of one block, and the gradients of its weights and of its pooled values."""
    users, items, tags = pooled
    inputs = numpy.concatenate([users * items, users, tags], axis=1)       # of 16, 16 and 8 columns
    chances = 1 / (1 + numpy.exp(-(inputs @ weights)))
    chances = numpy.clip(chances, 1e-6, 1 - 1e-6).astype("float32")
    losses = -(labels * numpy.log(chances) + (1 - labels) * numpy.log(1 - chances))
    errors = (chances - labels) / (OWNERS * BLOCK)
    of_inputs = numpy.outer(errors, weights)
    return losses, inputs.T @ errors, [of_inputs[:, :16] * items + of_inputs[:, 16:32],
                                       of_inputs[:, :16] * users, of_inputs[:, 32:]]


def train_step(comm, weights, pooled, labels):
    """Scores this rank's blocks one by one, so that any number of ranks computes the same."""
    parts = []
    for begin in range(0, len(labels), BLOCK):
        rows = slice(begin, begin + BLOCK)
        parts.append(score(weights, [values[rows] for values in pooled], labels[rows]))
    mine = numpy.stack([numpy.concatenate([[losses.mean()], dense]) for losses, dense, _ in parts]).astype("float32")
    blocks = numpy.empty((OWNERS, 1 + WIDTH), "float32")
    comm.all_gather(mine, blocks)
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    weights -= numpy.float32(RATE) * total[1:]
    gradients = [numpy.ascontiguousarray(numpy.concatenate(column), "float32")
                 for column in zip(*(pooled_gradients for *_, pooled_gradients in parts))]
    return total[0] / OWNERS, gradients


def train(comm, ahead=True):
    """The losses of all steps; `ahead` looks up the next batch beside the update."""
    if OWNERS % comm.ranks:
        raise ValueError(f"{comm.ranks} ranks: give 1, 2 or 4, which share four blocks of samples")
    each = OWNERS // comm.ranks
    blocks = range(comm.rank * each, (comm.rank + 1) * each)
    plan = tutti.plan_tables(TABLES, ranks=OWNERS, batch=OWNERS * BLOCK)
    tables = tutti.EmbeddingTables(comm, tutti.on_fewer_ranks(plan, comm.ranks), tutti.rowwise_adagrad(0.2))
    for number, table in enumerate(TABLES):
        random = numpy.random.default_rng(number)
        tables.load(number, random.normal(0, 0.3, (table.rows, table.width)).astype("float32"))
    weights = numpy.random.default_rng(9).normal(0, 0.3, WIDTH).astype("float32")
    batch, labels = batch_of(0, blocks)
    pooled = tables.forward(batch)
    found = []
    for step in range(STEPS):
        batch, next_labels = batch_of(step + 1, blocks)
        if ahead:
            tables.prefetch(batch)
        loss, gradients = train_step(comm, weights, pooled, labels)
        found.append(float(loss))
        tables.backward(gradients)
        pooled, labels = tables.finish() if ahead else tables.forward(batch), next_labels
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4, help="threads, where no launcher has started this")
    ranks = parser.parse_args().ranks
    if "WORLD_SIZE" in os.environ:
        comm = tutti.launch()
        losses = train(comm)
        comm.close()
    else:
        losses = tutti.run(train, ranks)[0]
    for step, loss in enumerate(losses):
        print(f"step {step} loss {loss.hex()} {loss:.4f}")


if __name__ == "__main__":
    main()
