"""With too little memory every call raises, and none ends the process.

Rust aborts where an allocation fails that nobody asked for beforehand. A subprocess makes
the arguments, then forks for each call and each limit: the child may take so many
megabytes of address space more, and must return or raise MemoryError or ValueError.
"""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.linux, pytest.mark.slow]

SCRIPT = r"""
import os, pickle, random, resource, signal, sys
import numpy as np
import scipy.sparse
import treekernel_rs as tk

def texts(n, width, seed):
    draw = random.Random(seed)
    word = lambda: f"({draw.choice('ABCDEFG')} w{draw.randrange(10**6)})"
    tree = lambda: f"(S {' '.join(f'(N {word()} {word()})' for _ in range(width))})"
    return [tree() for _ in range(n)]

K = {
    "ST": tk.SubtreeKernel(0.4),
    "SST": tk.SubsetTreeKernel(0.4),
    "PT": tk.PartialTreeKernel(),
    "ET": tk.ElasticTreeKernel(),
}
CALLS = {}
def call(function):
    CALLS[function.__name__] = function

T = tk.Forest.from_brackets(texts(20_000, 5, 1))
y = np.where(np.arange(len(T)) % 2, 1.0, -1.0)
W = tk.Forest.from_brackets(texts(200, 100, 2))
wide = tk.Forest.from_brackets(texts(1, 60_000, 3))
filled = tk.DagModel(K["SST"])
filled.add(T, y)
filled_pickle = pickle.dumps(filled)
several = tk.DagModel(K["SST"], 1_000)
several.add(W[:20], np.ones((20, 1_000)))
learners = {}
for vote in ("last", "average", "vote"):
    learners[vote] = tk.Perceptron(K["SST"], vote)
    learners[vote].partial_fit(T, y)
learner_pickle = pickle.dumps(learners["average"])
columns = np.random.default_rng(0).integers(0, 10**6, 10 * len(T))
vectors = scipy.sparse.csr_matrix(
    (np.ones(len(columns)), columns, np.arange(0, len(columns) + 1, 10)), (len(T), 10**6)
)
enc = {c: tk.DistributedTrees(K["SST"], 2**18, composition=c)
       for c in ("quaternion", "convolution", "gamma")}
big_vector = np.ones(2**22)
long_enc = {c: tk.DistributedTrees(n_components=2**22, composition=c, dtype=float)
            for c in ("quaternion", "convolution")}
left = [t.replace("(N ", "(N:1 ") for t in texts(4_000, 5, 4)]
P = tk.PairForest.from_brackets(left, left)
pair_pickle = pickle.dumps(P)
equal = "(S " + "(A a) " * 4_000 + ")"
E = tk.PairForest.from_brackets([equal], [equal])
penn = ["(S (NP (DT the) (NN w%d)) (VP (VBZ eats)))" % (i % 999) for i in range(20_000)]

for name, kernel in K.items():
    CALLS[f"model_add_{name}"] = lambda k=kernel: tk.DagModel(k).add(T, y)
    CALLS[f"perceptron_learn_{name}"] = lambda k=kernel: tk.Perceptron(k).partial_fit(T[:3000], y[:3000])
for vote, learner in learners.items():
    CALLS[f"perceptron_learn_{vote}"] = lambda v=vote: tk.Perceptron(K["SST"], v).partial_fit(T, y)
    CALLS[f"perceptron_score_{vote}"] = lambda l=learner: l.decision_function(W)
    CALLS[f"perceptron_to_arrays_{vote}"] = lambda l=learner: l.to_arrays()
for c in enc:
    CALLS[f"encode_{c}"] = lambda e=enc[c]: e.encode(W[:40])
    CALLS[f"encoder_fragment_{c}"] = lambda e=enc[c]: e.fragment(W[0])
for c in long_enc:
    CALLS[f"compose_{c}"] = lambda e=long_enc[c]: e.compose(big_vector, big_vector)
    CALLS[f"label_vector_{c}"] = lambda e=long_enc[c]: e.label_vector("NP")
    CALLS[f"encoder_{c}"] = lambda c=c: tk.DistributedTrees(n_components=2**23, composition=c)

@call
def model_outputs(): tk.DagModel(K["SST"], 10**6)
@call
def model_add_outputs(): tk.DagModel(K["SST"], 1_000).add(W[:20], np.ones((20, 1_000)))
@call
def model_score(): filled.decision_function(W)
@call
def model_score_outputs(): several.decision_function(T)
@call
def model_contributions(): filled.contributions(wide[0])
@call
def model_contributions_outputs(): several.contributions(W[0])
@call
def model_top_fragments(): filled.top_fragments(100)
@call
def model_to_arrays(): filled.to_arrays()
@call
def model_pickle(): pickle.dumps(filled)
@call
def model_unpickle(): pickle.loads(filled_pickle)
@call
def model_from_dual(): tk.DagModel.from_dual(K["SST"], T, y)
@call
def perceptron_vectors():
    poly = tk.kernels.VectorPolynomial(2)
    tk.Perceptron(K["SST"], vectors=poly, mix=0.5).partial_fit(T, y, vectors)
@call
def perceptron_model(): learners["average"].model
@call
def perceptron_unpickle(): pickle.loads(learner_pickle)
@call
def encoder_prune(): enc["quaternion"].prune(T)
@call
def encoder_tune(): tk.DistributedTrees(K["SST"], 2**16, sketch_decay="auto", max_height=3).tune(W)
@call
def pairs_read(): tk.PairForest.from_brackets(left, left)
@call
def pairs_write(): P.to_brackets()
@call
def pairs_anchored(): tk.PairForest.anchored(penn, penn)
@call
def pairs_side(): P.left
@call
def pairs_concat(): P + P
@call
def pairs_select(): P[::2]
@call
def pairs_unpickle(): pickle.loads(pair_pickle)
@call
def pairs_gram(): tk.PairKernel()(P[:2000])
@call
def pairs_diag(): tk.PairKernel(normalize=False).diag(P)
@call
def pairs_pair(): tk.PairKernel().pair(E[0], E[0])
@call
def pairs_constraints(): tk.PairKernel().constraints(P[0], P[1])
@call
def rows_all(): K["SST"].rows(W)[np.zeros(10**5, int)]
@call
def gram_too_large(): K["SST"](T)

def run(name, megabytes):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            CALLS[name]()
            said = b"returned"
        except (MemoryError, ValueError) as error:
            said = b"refused"
        except BaseException as error:
            said = f"raised {type(error).__name__}: {error}".encode()
        os.write(writer, said)
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return said or f"died of signal {os.WTERMSIG(status)}"

only = sys.argv[2:] or CALLS
for name in only:
    for megabytes in map(int, sys.argv[1].split(",")):
        print(name, megabytes, run(name, megabytes), sep="\t", flush=True)
"""


# Trees of 31 children: 465 pairs of children each, in lists that grow by doubling.
WIDE = r"""
import os, random, resource, sys
import numpy as np
import treekernel_rs as tk

rng = random.Random(2)
words = lambda: " ".join(f"w{rng.randrange(10**4)}" for _ in range(31))
Y = tk.Forest.from_brackets([f"(S {words()})" for _ in range(8_000)])
X, kernel = Y[:4], tk.PartialTreeKernel()

def gram(limited):
    kernel(X, Y)

def model(limited):
    filled = tk.DagModel(kernel)
    try:
        filled.add(Y, np.ones(len(Y)))
    finally:
        limited(False)
        # What is there is whole: the trees before the one that found no room.
        again = tk.DagModel(kernel)
        again.add(Y[: filled.n_trees], np.ones(filled.n_trees))
        np.testing.assert_allclose(filled.decision_function(X), again.decision_function(X), rtol=1e-12)

for megabytes in map(int, sys.argv[1:]):
    for call in (gram, model):
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            pages = int(open("/proc/self/statm").read().split()[0])
            limit = pages * resource.getpagesize() + (megabytes << 20)
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            def limited(is_on):
                resource.setrlimit(resource.RLIMIT_AS, (limit if is_on else hard, hard))
            try:
                limited(True)
                call(limited)
            except MemoryError:
                os._exit(3)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        code = os.waitstatus_to_exitcode(status)
        said = {0: "returned", 3: "refused"}.get(code, f"ended with {code}")
        print(call.__name__, megabytes, said, sep="\t", flush=True)
"""


@pytest.mark.parametrize("megabytes", [(100, 300), (200, 450)])
def test_partial_trees_with_hundreds_of_megabytes_end_in_a_value_or_an_error(megabytes):
    done = subprocess.run(
        [sys.executable, "-c", WIDE, *map(str, megabytes)],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == 2 * len(megabytes)
    assert [line for line in lines if line[2] not in ("returned", "refused")] == []


def outcomes(*megabytes, only=()):
    pytest.importorskip("scipy")
    limits = ",".join(map(str, megabytes))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, limits, *only],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_no_call_ends_the_process():
    said = outcomes(4, 12)  # with less, nothing is promised
    wrong = [line for line in said if line[2] not in ("returned", "refused")]
    assert wrong == []
    # Limits that every call keeps to would show nothing.
    refused = {name for name, _, what in said if what == "refused"}
    assert len(refused) > 30
