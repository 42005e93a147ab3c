#!/usr/bin/env python3
"""Configurations as trees: one modifier for many, and what is refused."""

import os
import subprocess
import tempfile
import unittest

import place

place.find("attrs", "typeguard")

import attrs  # noqa: E402
import tutti  # noqa: E402
from tutti import arrangements, config  # noqa: E402


@config.node
class Retries:
    times: int = 7
    timeout_ms: float = 60.0


@config.node
class Transport:
    name: str = "tcp"
    flows: int = 1
    retries: Retries = Retries()


@config.node
class Level:
    name: str
    algorithm: str = "ring"
    transport: Transport = Transport()


@config.node
class Communicator:
    ranks: int
    levels: tuple[Level, ...] = ()
    deterministic: bool = False


def generated(number):
    """One of 100 configurations that have little in common."""
    levels = tuple(Level(name=f"level {i}", transport=Transport(name="rdma" if (number + i) % 3 == 0 else "tcp",
                                                                flows=1 + number % 4))
                   for i in range(1 + number % 4))
    return Communicator(ranks=2 + number, levels=levels, deterministic=number % 2 == 0)


def is_rdma(path, one):
    return isinstance(one, Transport) and one.name == "rdma"


class ModifiersTest(unittest.TestCase):
    # AXLearn, (e): a new algorithm and a policy of queue pairs for 100 configurations.
    def test_one_modifier_over_100_configs_touches_what_it_matches(self):
        algorithm = config.Modifier(Level, {"algorithm": "tree"})
        policy = config.Modifier(is_rdma, {"flows": 4, "retries": Retries(times=3)})
        touched = 0
        for number in range(100):
            before = generated(number)
            text = config.to_text(before)
            after = config.apply(before, algorithm, policy)
            expected = {f"levels[{i}].algorithm" for i in range(len(before.levels))}
            for path in policy.matches(before):
                expected |= {f"{path}.retries.times"}
                expected |= {f"{path}.flows"} if before.levels[0].transport.flows != 4 else set()
            self.assertEqual({change.path for change in config.diff(before, after)}, expected)
            self.assertEqual(config.to_text(before), text)  # whoever changes a copy changes no origin
            touched += len(policy.matches(before))
        self.assertGreater(touched, 50)

    def test_texts_round_trip_and_are_stable(self):
        classes = [Communicator, Level, Transport, Retries]
        for number in range(100):
            tree = generated(number)
            text = config.to_text(tree)
            self.assertEqual(config.from_text(text, classes), tree)
            self.assertEqual(config.to_text(config.from_text(text, classes)), text)
        unset = Communicator()
        self.assertEqual(config.from_text(config.to_text(unset), classes), unset)

    def test_paths(self):
        tree = config.changed(generated(2), {"levels[1].transport.retries.times": 1, "ranks": 9})
        self.assertEqual((tree.ranks, tree.levels[1].transport.retries.times), (9, 1))
        self.assertEqual(config.Modifier("levels[[]1[]].*", {}).matches(tree), [])
        self.assertEqual(config.Modifier("levels[1].*", {"times": 2}).matches(tree),
                         ["levels[1].transport.retries", "levels[1].transport"])
        for path in ("levels[3].name", "levels[x].name", "ranks.name", "", "levels.name"):
            with self.subTest(path), self.assertRaises(tutti.InvalidInput):
                config.changed(tree, {path: "x"})

    def test_a_modifier_may_be_a_function(self):
        tree = config.apply(generated(3), config.Modifier(Transport, lambda one: Transport(flows=one.flows + 1)))
        self.assertEqual({level.transport.flows for level in tree.levels}, {5})


class RefusalsTest(unittest.TestCase):
    def refused(self, words):
        return self.assertRaisesRegex(tutti.InvalidInput, words)

    def test_unknown_fields(self):
        with self.refused("Transport has no field 'flow': did you mean 'flows'"):
            Transport(flow=2)
        with self.refused("no field 'algoritm': did you mean 'algorithm'"):
            config.apply(generated(1), config.Modifier(Level, {"algoritm": "tree"}))
        with self.refused("levels\\[0\\]: Level has no field 'x'"):
            config.changed(generated(1), {"levels[0].x": 2})

    def test_types_and_values_without_a_text(self):
        for values in ({"flows": "2"}, {"flows": True}, {"retries": Transport()}, {"retries": None},
                       {"flows": object()}, {"name": ["tcp"]}, {"flows": float("nan")}):
            with self.subTest(values), self.refused("Transport\\."):
                Transport(**values)
        with self.refused("Communicator.levels"):
            Communicator(levels=(Transport(),))
        with self.refused("default that can be changed"):
            @config.node
            class Lists:
                names: list = []

    def test_what_is_required(self):
        self.assertEqual(config.missing(Communicator(levels=(Level(),))), ["ranks", "levels[0].name"])
        with self.refused("not set: ranks, levels\\[0\\].name"):
            config.instantiate(Communicator(levels=(Level(),)))

    def test_nodes_are_frozen_and_so_no_tree_contains_itself(self):
        level = Level(name="host")
        with self.assertRaises(attrs.exceptions.FrozenInstanceError):
            level.transport = level
        self.assertEqual(level, Level(name="host"))

    def test_rules_that_conflict(self):
        rules = [("*h100*", [config.Modifier(Transport, {"flows": 4})]),
                 ("nvidia*", [config.Modifier(Transport, {"flows": 2})]),
                 ("cpu*", [config.Modifier(Level, {"algorithm": "tree"})])]
        tree = generated(0)
        with self.refused("'\\*h100\\*' and 'nvidia\\*', which set levels\\[0\\].transport.flows to 4 and 2"):
            config.Rules(rules).apply(tree, "NVIDIA H100")
        self.assertEqual(config.Rules(rules, ordered=True).apply(tree, "NVIDIA H100").levels[0].transport.flows, 2)
        self.assertEqual(config.Rules(rules).apply(tree, "cpu x 2").levels[0].algorithm, "tree")
        self.assertTrue(config.hardware())

    def test_texts(self):
        for text, words in (("{", "no JSON"), ('{"is": "Transprt"}', "did you mean 'Transport'"),
                            ('{"name": "x"}', "called None"), ("3", "a tree of nodes"),
                            ('{"is": "Transport", "flows": NaN}', "Transport.flows"),
                            ('{"is": "Transport", "retries": {"is": "Retries", "time": 1}}',
                             "retries: Retries has no field 'time'")):
            with self.subTest(text), self.refused(words):
                config.from_text(text, [Transport, Retries])


class UseTest(unittest.TestCase):
    def test_instantiate(self):
        @config.node(makes=lambda real, imag: complex(real, imag))
        class Number:
            real: float
            imag: float = 0.0

        @config.node(makes=lambda terms: sum(terms))
        class Sum:
            terms: tuple[Number, ...]

        self.assertEqual(config.instantiate(Sum(terms=(Number(real=1.0), Number(real=2.0, imag=1.0)))), 3 + 1j)
        self.assertEqual(config.instantiate(Retries()), Retries())

        @config.node
        class Holder:
            number: Number

        with self.assertRaisesRegex(tutti.InvalidInput, "Holder, which holds it, makes nothing"):
            config.instantiate(Holder(number=Number(real=1.0)))

    def test_what_the_planner_prints(self):
        program = os.path.join(os.environ.get("TEST_BINARY_DIR", ""), "bin", "tutti")
        if not os.access(program, os.X_OK):
            self.skipTest(f"there is no program {program}")
        topology = os.path.join(place.ROOT, "docs", "topologies", "two_regions.json")
        with tempfile.TemporaryDirectory() as folder:
            found = os.path.join(folder, "found.json")
            subprocess.run([program, "plan", "llama-8b", "--topology", topology, "--places", "16", "--batch", "64",
                            "--json", found], stdout=subprocess.DEVNULL, check=True)
            with open(found, encoding="utf-8") as file:
                ranking = arrangements.of_plan(file.read())
        self.assertGreater(len(ranking), 1)
        for one in ranking:
            self.assertEqual(one.mesh().ranks, 16)
            self.assertEqual(config.from_text(config.to_text(one), [arrangements.Arrangement, arrangements.Axis]), one)
        with self.assertRaisesRegex(tutti.InvalidInput, "tutti plan --json"):
            arrangements.of_plan("{}")

    def test_arrangements(self):
        one = arrangements.Arrangement(axes=(arrangements.Axis(name="dp.rack", ranks=2),
                                             arrangements.Axis(name="dp.zone", ranks=4)))
        self.assertEqual((one.degree("dp"), one.degree("tp"), one.mesh().ranks), (8, 1, 8))
        with self.assertRaisesRegex(tutti.InvalidInput, "not set: axes"):
            arrangements.Arrangement().mesh()


if __name__ == "__main__":
    unittest.main()
