"""Build the corpora of the examples and benches from clones of public repositories.

    python examples/corpora.py CLONES [--out FOLDER] [--only qc,wsj]

CLONES is a folder with clones of the repositories in `SOURCES`, plain or bare, under any
names and up to three folders deep: a clone is recognised by the commit that is read. Nothing
is downloaded. A corpus whose clones are missing is left out, with the command that clones
them, and the exit status is 1. Each file is compared with its SHA-256, before compression, as
compressed bytes depend on the version of zlib.

Files are gzip'ed UTF-8 text without a header: one instance a line, columns separated by tabs.
docs/DATA.md describes the columns and says under which licence each corpus may be used.
Without --out they go to shared/data in the repository, where the examples look for them. The
standard library is enough. Takes one or two minutes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]

#: The repositories on GitHub, and the commit of each that is read.
SOURCES = {
    "nltk/nltk_data": "5db857e6f7df11eabb5e5665836db9ec8df07e28",
    "SAG-KeLP/kelp-full": "da68b9153e5fc8791f02bc89d160a682aeb3f0ca",
    "arne-cl/PSTreeKernels": "969db2a9fdf91d575b2d91ab7edb79f58aa4f79e",
    "Deltaus/sBiMPM": "8f1b040cd1a4b5ef3515a14b2a401906a5b82bbf",
    "yudiwbs/TextualEntailment": "4defa2d1acc6381588b1e434a01159f96ac9903e",
    "propbank/propbank-release": "4abade0b53ce4a181e1d98b3518101c1a44d395a",
    "oanc/PropBankNew": "68b906170f3522f59bf4735fbc3384b2b09bb317",
    "lyonssp/cunning-linguist": "3c458cee198efe7238dc50ffd01508d8c0d5eec2",
    "Hareem-E-Sahar/treekernel-jss2025": "bdadc763b5515fbeeb4743c3efff335be143019b",
}

#: SHA-256 of each file before compression.
CHECKSUMS = {
    "qc/dep_train.tsv.gz": "22a903a9e7bdce3722c5457dd320ee1633754eb4b8788382b348fc6f87599d71",
    "qc/dep_test.tsv.gz": "b5dac39722015b8913099db18d90cc9d165f71bc918c9a9207aa3bd1d3351861",
    "qc/const_train.tsv.gz": "185a65b57e4fc69767300dc7e3e7affb91d11a40841d1bbd94717a6475223815",
    "qc/const_test.tsv.gz": "294c970d64adea7906090322d58e970e2c990db9cb270992ec71028920711e1d",
    "qc/kelp_sst_scores.txt": "97b325981a2e91facfd65639051a5e4f8a56de4facb47cf754aff1161b211dc5",
    "qc/kelp_ptk_scores.txt": "d696a0b1f3bdac74d67106321d8575c530734a953491931b73492325f8786194",
    "wsj/wsj.txt.gz": "4d2f542b2f8d2f0a586efa215195cde2202b71b35c1491d51fe8cf0c79329f88",
    "wsj/wsj_clean.txt.gz": "e6030d78aa765372f03b62b203ae99013a33ae1fd1333791c20abd1cbc131929",
    "snli/dev.tsv.gz": "975f6863b6c025dbba36f732a84cfbf8068a02f9763919b5754bb90e3b9274f3",
    "rte/rte_raw.tsv.gz": "f8f9037fd92e03e7023a096a23def6b16b8b4bdc4087c382ea1ae5c3e4a12a35",
    "rte/rte3_dev_parsed.tsv.gz": "0668e2b64b7650a17c1e158291fefa6ca2ac967f1fe9d899e76bbb5975bf0c35",
    "srl/masc_boundary.tsv.gz": "2bf6d375ca6251bf2da8075148d925ef8c49fc16e2da0eea4f4f31a8935772c9",
    "srl/masc_props.tsv.gz": "6eaa6b7eb435584e5e2a1e33efb58a68c55c34568541099a0747871c8a571002",
    "code/java_functions.tsv.gz": "f9ce13b734cf9df85d06517b01145a73a6b0594e29875cf823b970513e90d32a",
    "code/java_clones.tsv.gz": "fb11caf84fb241461a1b2592849dd15030a98f329b287e9a6b522a4a4c34b2a1",
}


class MissingFileError(Exception):
    """A clone does not hold the content of a file that it lists."""


class Clone:
    """Files of one commit of a local clone."""

    def __init__(self, git_dir: Path, commit: str) -> None:
        self.git_dir = git_dir
        self.commit = commit

    def list(self, folder: str) -> dict[str, str]:
        """List all files below a folder, each with the id of its content."""
        listing = git(self.git_dir, "ls-tree", "-r", "-z", self.commit, folder).decode()
        entries = (entry.split("\t", 1) for entry in listing.split("\0") if entry)
        return {path: about.split()[2] for about, path in entries}

    def read(self, path: str) -> bytes:
        """Read one file."""
        return next(self.read_many({path: f"{self.commit}:{path}"}))

    def read_many(self, files: dict[str, str]) -> Iterator[bytes]:
        """Read listed files in order, a thousand with each call of git."""
        for start in range(0, len(files), 1000):
            part = list(files.items())[start : start + 1000]
            asked = "".join(f"{content}\n" for _, content in part).encode()
            answer = io.BytesIO(git(self.git_dir, "cat-file", "--batch", stdin=asked))
            for path, _ in part:
                head = answer.readline().split()
                if head[-1] == b"missing":
                    msg = f"{self.git_dir} has no content of {path}"
                    raise MissingFileError(msg)
                yield answer.read(int(head[2]))
                answer.read(1)  # the line end after each file


def git(git_dir: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Return the output of a command of git."""
    command = ["git", f"--git-dir={git_dir}", *arguments]
    return subprocess.run(
        command, input=stdin, check=True, stdout=subprocess.PIPE
    ).stdout


def find_clones(folder: Path) -> dict[str, Clone]:
    """Find the clones below a folder, by the commits that they hold."""
    clones = {}
    for git_dir in git_dirs(folder, levels=3):
        for name, commit in SOURCES.items():
            command = ["git", f"--git-dir={git_dir}", "cat-file", "-e", commit]
            found = subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
            if found.returncode == 0:
                clones.setdefault(name, Clone(git_dir, commit))
    return clones


def git_dirs(folder: Path, levels: int) -> Iterator[Path]:
    """Walk to folders that hold the objects of a clone."""
    if (folder / "objects").is_dir() and (folder / "HEAD").is_file():
        yield folder
    elif levels >= 0:
        for below in sorted(path for path in folder.iterdir() if path.is_dir()):
            yield from git_dirs(below, levels - 1)


# Trees. They are small and at most 45 levels deep, so functions may recurse.


@dataclass
class Node:
    """A node of a tree; a word has no children."""

    label: str
    children: list[Node]

    def is_preterminal(self) -> bool:
        """Whether the node has one child, a word."""
        return len(self.children) == 1 and not self.children[0].children

    def preterminals(self) -> Iterator[Node]:
        """Walk the preterminals from left to right."""
        if self.is_preterminal():
            yield self
        else:
            for child in self.children:
                yield from child.preterminals()

    def __str__(self) -> str:
        if not self.children:
            return self.label
        return f"({self.label} {' '.join(map(str, self.children))})"


def parse(text: str) -> list[Node]:
    """Read trees in brackets. A bracket without a label is a node whose label is empty."""
    top = Node("", [])
    path, label_expected = [top], False
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            path[-1].children.append(Node("", []))
            path.append(path[-1].children[-1])
            label_expected = True
            continue
        if token == ")":
            path.pop()
            if not path:
                msg = "a bracket is closed that was not opened"
                raise ValueError(msg)
        elif label_expected:
            path[-1].label = token
        elif len(path) == 1:
            msg = f"text outside brackets: {token}"
            raise ValueError(msg)
        else:
            path[-1].children.append(Node(token, []))
        label_expected = False
    if len(path) != 1:
        msg = "a bracket is not closed"
        raise ValueError(msg)
    return top.children


def unwrap(tree: Node) -> Node:
    """Remove the outer bracket that has no label."""
    if tree.label:
        return tree
    return tree.children[0] if len(tree.children) == 1 else Node("TOP", tree.children)


def clean(tree: Node) -> Node | None:
    """Remove traces with the nodes they leave empty, function tags and indices.

    Parts of speech stay as they are. The children of a bracket without a label go to the
    bracket around it.
    """
    if not tree.children:
        return tree
    if tree.label == "-NONE-":
        return None
    if tree.is_preterminal():
        return tree
    children: list[Node] = []
    for child in tree.children:
        kept = clean(child)
        if kept is not None and child.children and not child.label:
            children.extend(kept.children)
        elif kept is not None:
            children.append(kept)
    if not children:
        return None
    is_special = tree.label.startswith("-") and tree.label.endswith("-")
    phrase = re.match("[^-=]+", tree.label)
    return Node(phrase[0] if phrase and not is_special else tree.label, children)


# Corpora. Each function yields files with the columns of their rows, or with all content.


def build_qc(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """Questions of TREC: dependency trees of KeLP, and constituency trees."""
    kelp, trees = clones["SAG-KeLP/kelp-full"], clones["arne-cl/PSTreeKernels"]
    labels = zipped(clones["nltk/nltk_data"], "packages/corpora/qc.zip")
    for split, name in (("train", "train_5500"), ("test", "TREC_10")):
        questions = gzip.decompress(
            kelp.read(f"src/main/resources/qc/{name}.coarse.klp.gz")
        )
        parsed = trees.read(
            f"src/PSTreeKernels/data/question_classification_{split}_sents_parsed.txt"
        )
        for label, question, tree in zip(
            labels[f"qc/{split}.txt"].decode("latin-1").splitlines(),
            questions.decode().splitlines(),
            parse(parsed.decode()),
            strict=True,
        ):
            part = {
                kind: re.search(rf"\|{tag}:{kind}\| (.*?) ?\|E", question)[1].strip()
                for kind, tag in (
                    ("quest", "BS"), ("grct", "BT"), ("lct", "BT"), ("loct", "BT"),
                    ("bow", "BV"),
                )
            }  # fmt: skip
            fine = label.split(" ", 1)[0]
            coarse = fine.partition(":")[0]
            text = part["quest"]
            shapes = [part[kind] for kind in ("grct", "lct", "loct", "bow")]
            yield f"qc/dep_{split}.tsv.gz", [coarse, text, *shapes]
            yield f"qc/const_{split}.tsv.gz", [coarse, fine, text, str(tree)]
    for ours, theirs in (("sst", "sstk"), ("ptk", "ptk")):
        scores = kelp.read(f"src/test/resources/kernels/tree/{theirs}_scores.txt")
        yield f"qc/kelp_{ours}_scores.txt", scores


def build_wsj(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """NLTK's sample of the Penn Treebank, as it is and without traces."""
    treebank = zipped(clones["nltk/nltk_data"], "packages/corpora/treebank.zip")
    for name in sorted(treebank):
        if not re.search(r"combined/\w+\.mrg$", name):
            continue
        for number, tree in enumerate(map(unwrap, parse(treebank[name].decode()))):
            place = [PurePosixPath(name).stem, str(number)]
            yield "wsj/wsj.txt.gz", [*place, str(tree)]
            yield "wsj/wsj_clean.txt.gz", [*place, str(clean(tree))]


def build_snli(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """Pairs of sentences with their parses."""
    for line in (
        clones["Deltaus/sBiMPM"].read("snli_1.0/snli_1.0_dev.jsonl").splitlines()
    ):
        pair = json.loads(line) if line.strip() else {"gold_label": "-"}
        if pair["gold_label"] != "-":
            sides = (parse(pair[f"sentence{side}_parse"])[0] for side in (1, 2))
            yield "snli/dev.tsv.gz", [pair["gold_label"], *map(str, sides)]


def build_rte(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """Textual entailment: the texts of RTE-1 to 3, and parses of RTE-3's dev set."""
    # 1. The texts.
    texts = zipped(clones["nltk/nltk_data"], "packages/corpora/rte.zip")
    dev = {}
    for split in (f"rte{n}_{part}" for n in (1, 2, 3) for part in ("dev", "test")):
        for pair in ElementTree.fromstring(texts[f"rte/{split}.xml"]).iter("pair"):
            label = (pair.get("value") or pair.get("entailment")).upper()
            label = {"TRUE": "YES", "FALSE": "NO"}.get(label, label)
            sides = [
                " ".join("".join(pair.find(side).itertext()).split()) for side in "th"
            ]
            yield (
                "rte/rte_raw.tsv.gz",
                [split, pair.get("id"), pair.get("task"), label, *sides],
            )
            if split == "rte3_dev":
                dev[pair.get("id")] = (pair.get("task"), label, *map(letters, sides))
    # 2. The parses: a row of the dump belongs to the pair with the same hypothesis, and the
    #    same text or number.
    by_sides = {
        sides: number
        for number, (*_, text, hyp) in dev.items()
        for sides in [(text, hyp)]
    }
    dump = clones["yudiwbs/TextualEntailment"].read("db/rte3_ver1.txt")
    parses: dict[str, list[Node]] = {}
    for row in sql_rows(dump.decode("cp1252", "replace").replace("\r\n", "\n")):
        sides = (letters(row[4]), letters(row[5]))
        number = by_sides.get(sides)
        if number is None and row[1] in dev and dev[row[1]][3] == sides[1]:
            number = row[1]
        if number is not None and row[6] and row[8]:
            parses.setdefault(number, [parse(row[6])[0], parse(row[8])[0]])
    for number in sorted(parses, key=int):
        task, label, *_ = dev[number]
        columns = ["rte3_dev", number, task, label, *map(str, parses[number])]
        yield "rte/rte3_dev_parsed.tsv.gz", columns


def letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return re.sub("[^a-z0-9]", "", (text or "").lower())


def sql_rows(dump: str) -> Iterator[list[str | None]]:
    """Read the tuples of all INSERT statements of a dump of MySQL."""
    value = re.compile(r"\s*(?:'((?:[^'\\]|\\.|'')*)'|([^,)']*))\s*([,)])", re.DOTALL)
    escapes = {"n": "\n", "r": "\r", "t": "\t", "0": "\0"}
    for start in re.finditer(r"INSERT INTO [^\n]* VALUES\n", dump):
        at = start.end()
        while opened := re.compile(r"[\s,]*\(").match(dump, at):
            at, row, end = opened.end(), [], ","
            while end == ",":
                found = value.match(dump, at)
                quoted, plain, end = found.groups()
                if quoted is not None:
                    quoted = re.sub(
                        r"\\(.)|''",
                        lambda m: escapes.get(m[1], m[1]) if m[1] else "'",
                        quoted,
                        flags=re.DOTALL,
                    )
                    row.append(quoted)
                else:
                    row.append(None if plain.strip() == "NULL" else plain.strip())
                at = found.end()
            yield row


def build_code(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """Java functions as syntax trees, and which of them are clones."""
    clone = clones["Hareem-E-Sahar/treekernel-jss2025"]
    data = "data/BigCloneEval"
    files = clone.list(f"{data}/ijadataset/sexpr_from_gumtree")
    functions = set()
    for path, tree in zip(files, clone.read_many(files), strict=True):
        name = PurePosixPath(path).name
        functions.add(name)
        text = tree.replace(b"\n", b" ").replace(b"\t", b" ").strip()
        yield "code/java_functions.tsv.gz", [name, text.decode()]
    seen = set()
    for kind in ("T1-clones", "T2-clones", "ST3-VST3-clones-simline"):
        table = clone.read(
            f"{data}/bigclone_groundtruth_v3/{kind}-selected-columns.txt"
        )
        for line in table.decode().splitlines()[1:]:
            row = line.split(",")
            pair = [
                f"{file.removesuffix('.java')}_{first}_{last}.java"
                for file, first, last in (row[1:4], row[5:8])
            ]
            columns = (*pair, *row[8:])
            # The tables list some pairs twice.
            if functions.issuperset(pair) and columns not in seen:
                seen.add(columns)
                yield "code/java_clones.tsv.gz", list(columns)


# Arguments of verbs: PropBank's annotation of MASC, joined with the trees.

#: Labels of punctuation.
PUNCTUATION = {",", ".", "``", "''", ":", "-LRB-", "-RRB-", "#", "HYPH", "NFP"}

#: Trees that do not lie where the others do; of several files the one that fits best.
ELSEWHERE = {
    "wsj_1640": ["PropBankNew: wsj_1640.mrg-NEW"],
    "sw2025-ms98-a-trans": [
        "cunning-linguist: sw2025-ms98-a-trans.ascii-1-NEW",
        "PropBankNew: sw2025-ms98-a-trans",
    ],
    "wsj_0106": ["cunning-linguist: wsj_0106"],
    "wsj_0152": ["cunning-linguist: wsj_0152"],
    "enron-thread-159550": [
        "cunning-linguist: enron-thread-159550",
        "PropBankNew: enron-thread-159550",
    ],
}


@dataclass
class Predicate:
    """A predicate of a sentence; spans are of tokens, both ends included."""

    token: int
    roleset: str
    arguments: list[tuple[str, int, int]]


class Sentence:
    """A tree with the places of its nodes."""

    def __init__(self, tree: Node) -> None:
        self.tokens: list[Node] = []
        #: All nodes but words, in preorder.
        self.nodes: list[Node] = []
        self.above: dict[int, Node | None] = {}
        self.spans: dict[int, tuple[int, int]] = {}
        self._enter(tree, None)
        #: The highest node of each span.
        self.highest: dict[tuple[int, int], Node] = {}
        for node in self.nodes:
            self.highest.setdefault(self.spans[id(node)], node)

    def _enter(self, node: Node, above: Node | None) -> None:
        self.nodes.append(node)
        self.above[id(node)] = above
        first = len(self.tokens)
        if node.is_preterminal():
            self.tokens.append(node)
        else:
            for child in node.children:
                self._enter(child, node)
        self.spans[id(node)] = (first, len(self.tokens) - 1)

    def path_up(self, node: Node | None) -> list[Node]:
        """Return a node and all nodes above it."""
        path = []
        while node is not None:
            path.append(node)
            node = self.above[id(node)]
        return path


def build_srl(clones: dict[str, Clone]) -> Iterator[tuple[str, list[str] | bytes]]:
    """Candidates for arguments of verbs, each in the smallest tree with its verb."""
    for name, tree, predicates in annotated(clones):
        sentence = Sentence(tree)
        columns = []
        for predicate in predicates:
            if not sentence.tokens[predicate.token].label.startswith("VB"):
                continue
            roles = {}
            for role, first, last in predicate.arguments:
                node = sentence.highest.get((first, last))
                is_around = first <= predicate.token <= last
                if node and not is_around and node.label not in PUNCTUATION:
                    roles[id(node)] = role
            if not roles:
                continue
            place = [str(predicate.token), predicate.roleset]
            spans = [
                f"{roles[id(node)]}:{'-'.join(map(str, sentence.spans[id(node)]))}"
                for node in sentence.nodes
                if id(node) in roles
            ]
            columns.append("|".join([*place, ",".join(spans)]))
            for candidate, instance in instances(sentence, predicate.token):
                role = roles.get(id(candidate), "-")
                label = "-1" if role == "-" else "+1"
                yield "srl/masc_boundary.tsv.gz", [label, name, *place, role, instance]
        if columns:
            yield "srl/masc_props.tsv.gz", [name, str(tree), *columns]


def instances(sentence: Sentence, token: int) -> Iterator[tuple[Node, str]]:
    """Cut out the smallest tree around a predicate and each candidate, marked -P and -B."""
    predicate = sentence.tokens[token]
    predicate_path = sentence.path_up(predicate)
    height = {id(node): steps for steps, node in enumerate(predicate_path)}
    for candidate in sentence.nodes:
        is_mark = candidate.is_preterminal() and candidate.label in PUNCTUATION
        if id(candidate) in height or is_mark:
            continue
        # 1. From the candidate up to the first node above both.
        candidate_path = sentence.path_up(candidate)
        steps = next(n for n, node in enumerate(candidate_path) if id(node) in height)
        shared = candidate_path[steps]
        # 2. Both paths as chains: what hangs beside them is left out.
        left = chain(f"{candidate.label}-B", candidate, candidate_path[1:steps])
        right = chain(
            f"{predicate.label}-P", predicate, predicate_path[1 : height[id(shared)]]
        )
        if sentence.spans[id(candidate)][1] > token:
            left, right = right, left
        yield candidate, f"({shared.label} {left} {right})"


def chain(label: str, node: Node, above: list[Node]) -> Node:
    """Make a tree of a node, renamed, below a chain of others."""
    tree = Node(label, node.children)
    for upper in above:
        tree = Node(upper.label, [tree])
    return tree


def annotated(clones: dict[str, Clone]) -> Iterator[tuple[str, Node, list[Predicate]]]:
    """Join annotation and trees, where both have the same parts of speech."""
    release = clones["propbank/propbank-release"]
    folders = {
        "PropBankNew": (clones["oanc/PropBankNew"], "PropBankNew/PennTreeBank"),
        "cunning-linguist": (
            clones["lyonssp/cunning-linguist"], "src/main/resources/Propbank",
        ),
    }  # fmt: skip
    files = {name: clone.list(folder) for name, (clone, folder) in folders.items()}
    skeletons = {
        PurePosixPath(path).stem: path
        for path in release.list("data/oanc/masc")
        if path.endswith(".gold_skel")
    }
    for document, path in sorted(skeletons.items()):
        # 1. The annotation, with a part of speech for each token.
        text = release.read(path).decode("utf-8", "replace")
        tables = [
            [line.split() for line in block.splitlines() if line.strip()]
            for block in re.split(r"\n\s*\n", text)
            if block.strip()
        ]
        tags = [tuple(row[4] for row in table) for table in tables]
        # 2. The trees, of the file that has most of the sentences.
        best: tuple[list[Node], list[tuple[int, int]]] = ([], [])
        either = [f"{name}: {document}" for name in folders]
        for place in ELSEWHERE.get(document, either):
            name, _, stem = place.partition(": ")
            clone, folder = folders[name]
            file = f"{folder}/{stem}.mrg"
            if file not in files[name]:
                continue
            content = clone.read(file).decode("utf-8", "replace")
            trees = [clean(unwrap(tree)) for tree in parse_blocks(content)]
            trees = [tree for tree in trees if tree is not None]
            tree_tags = [tuple(t.label for t in tree.preterminals()) for tree in trees]
            matcher = SequenceMatcher(None, tags, tree_tags, autojunk=False)
            pairs = [
                (block.a + n, block.b + n)
                for block in matcher.get_matching_blocks()
                for n in range(block.size)
            ]
            if len(pairs) > len(best[1]):
                best = (trees, pairs)
        # 3. Sentences whose annotation is consistent.
        trees, pairs = best
        for table, number in pairs:
            predicates = read_predicates(tables[table])
            if predicates is not None:
                yield f"{document}:{number}", trees[number], predicates


def parse_blocks(text: str) -> list[Node]:
    """Read trees; where a bracket is wrong, those blocks that are right by themselves."""
    try:
        return parse(text)
    except ValueError:
        trees = []
        for block in re.split(r"(?m)^(?=\()", text):
            try:
                trees += parse(block)
            except ValueError:
                continue
        return trees


def read_predicates(table: list[list[str]]) -> list[Predicate] | None:
    """Read the columns of arguments; None where they do not fit the predicates."""
    tokens = [n for n, row in enumerate(table) if row[6:8] != ["-", "-"]]
    columns = [
        read_spans([row[column] for row in table]) for column in range(8, len(table[0]))
    ]
    if len(tokens) != len(columns):
        return None
    predicates = []
    for token, spans in zip(tokens, columns, strict=True):
        if spans is None or not any(
            role == "V" and first <= token <= last for role, first, last in spans
        ):
            return None
        arguments = [span for span in spans if span[0] not in ("V", "C-V")]
        predicates.append(Predicate(token, table[token][7], arguments))
    return predicates


def read_spans(column: list[str]) -> list[tuple[str, int, int]] | None:
    """Read spans such as `(ARG0*`, `*`, `*)`; None where brackets do not fit."""
    spans, opened = [], []
    for token, cell in enumerate(column):
        for role in re.findall(r"\(([^()*]+)|\)", cell):
            if role:
                opened.append((role, token))
            elif opened:
                spans.append((*opened.pop(), token))
            else:
                return None
    return None if opened else spans


# Files.


@dataclass
class Corpus:
    """How some files are built, and of which repositories."""

    build: Callable[[dict[str, Clone]], Iterator[tuple[str, list[str] | bytes]]]
    sources: list[str]


CORPORA = {
    "qc": Corpus(
        build_qc, ["nltk/nltk_data", "SAG-KeLP/kelp-full", "arne-cl/PSTreeKernels"]
    ),
    "wsj": Corpus(build_wsj, ["nltk/nltk_data"]),
    "snli": Corpus(build_snli, ["Deltaus/sBiMPM"]),
    "rte": Corpus(build_rte, ["nltk/nltk_data", "yudiwbs/TextualEntailment"]),
    "srl": Corpus(
        build_srl,
        ["propbank/propbank-release", "oanc/PropBankNew", "lyonssp/cunning-linguist"],
    ),
    "code": Corpus(build_code, ["Hareem-E-Sahar/treekernel-jss2025"]),
}


def zipped(clone: Clone, path: str) -> dict[str, bytes]:
    """Read all files of an archive."""
    with zipfile.ZipFile(io.BytesIO(clone.read(path))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(rows: Iterator[tuple[str, list[str] | bytes]], out: Path) -> dict[str, str]:
    """Write rows to their files; return the checksum of each."""
    texts: dict[str, list[bytes]] = {}
    for file, row in rows:
        line = row if isinstance(row, bytes) else "\t".join(row).encode() + b"\n"
        texts.setdefault(file, []).append(line)
    checksums = {}
    for file, lines in texts.items():
        content = b"".join(lines)
        checksums[file] = hashlib.sha256(content).hexdigest()
        path = out / file
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = path.suffix == ".gz"
        # Without a time, so that the same content is the same file.
        path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return checksums


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clones", type=Path, help="folder with the clones")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "shared/data",
        help="folder of the files (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        default=",".join(CORPORA),
        help="corpora to build (default: %(default)s)",
    )
    told = parser.parse_args()
    if not told.clones.is_dir():
        parser.error(f"no folder {told.clones}")
    names = told.only.split(",")
    if unknown := [name for name in names if name not in CORPORA]:
        parser.error(f"unknown {', '.join(unknown)}: one of {', '.join(CORPORA)}")
    clones = find_clones(told.clones)
    failed = 0
    for name in names:
        corpus = CORPORA[name]
        if missing := [source for source in corpus.sources if source not in clones]:
            failed += 1
            print(f"{name}: not built, as these clones are missing:")
            for source in missing:
                print(f"    git clone https://github.com/{source}  # {SOURCES[source]}")
            continue
        for file, checksum in write(corpus.build(clones), told.out).items():
            is_right = checksum == CHECKSUMS[file]
            failed += not is_right
            wrong = f"other content than expected: SHA-256 {checksum}"
            print(
                f"{told.out / file}: {'as expected' if is_right else wrong}", flush=True
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
