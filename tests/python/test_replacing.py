"""`Forest.save` replaces files as a careful program does: whole, or not at all."""

import contextlib
import os
import stat
import subprocess
import sys
import threading

import pytest

import treekernel_rs as tk

OLD, NEW = tk.Forest("(S old)"), tk.Forest("(S new)")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.forest"
    OLD.save(path)
    return path


def names(folder):
    return [each.name for each in folder.iterdir()]


def untouched(path):
    """Whether the old file is all there is."""
    return tk.Forest.load(path) == OLD and names(path.parent) == [path.name]


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="has no mode bits")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, mask):
    code = (
        f"import os, treekernel_rs as tk; os.umask({mask}); "
        "tk.Forest('(a)').save('new'); open('opened', 'w').close()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert mode(tmp_path / "new") == mode(tmp_path / "opened") == 0o666 & ~mask


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="has no umask")
def test_the_umask_of_the_process_is_left_alone(tmp_path, monkeypatch):
    def changed(_):
        pytest.fail("the umask of all threads was changed")

    monkeypatch.setattr(os, "umask", changed)
    NEW.save(tmp_path / "a.forest")


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="has no mode bits")
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o664, 0o200])
def test_a_file_keeps_its_permissions(path, bits):
    path.chmod(bits)
    NEW.save(path)
    assert mode(path) == bits
    path.chmod(0o600)
    assert tk.Forest.load(path) == NEW


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="links need a privilege")
def test_a_link_stays_one(path):
    link, dangling = path.with_name("link"), path.with_name("dangling")
    link.symlink_to(path.name)
    dangling.symlink_to("later.forest")
    for each in (link, dangling):
        NEW.save(each)
        assert each.is_symlink()
        assert tk.Forest.load(each) == NEW
    assert tk.Forest.load(path) == NEW
    loop = path.with_name("loop")
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        NEW.save(loop)
    assert loop.is_symlink()


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with a name")
def test_a_pipe_is_refused_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="expected a file, got a pipe, device or socket"):
        NEW.save(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_a_file_that_is_read_only_is_refused(path):
    path.chmod(0o444)
    with pytest.raises(PermissionError, match=r"read-only: .*a\.forest'"):
        NEW.save(path)
    assert untouched(path)
    path.chmod(0o644)


def test_a_name_may_be_as_long_as_the_system_lets_it_be(tmp_path):
    path = tmp_path / ("x" * 255)
    NEW.save(path)
    assert tk.Forest.load(path) == NEW
    with pytest.raises(OSError, match="xxxx"):
        NEW.save(tmp_path / ("x" * 256))
    assert names(tmp_path) == [path.name]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    path = tmp_path / "missing" / "a.forest"
    with pytest.raises(FileNotFoundError) as raised:
        NEW.save(path)
    assert raised.value.filename == str(path)
    assert raised.value.__cause__ is None


FILL = """
import resource, signal, sys, treekernel_rs as tk
forest = tk.Forest("(S new)" * 3) if sys.argv[1] == "small" else tk.Forest(
    [f"(S (A a{i}))" for i in range(20_000)])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    forest.save("a.forest")
except OSError as error:
    print(error.filename)
"""


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="has no limits of files")
def test_a_file_that_does_not_fit_leaves_the_old_one(path):
    run = [sys.executable, "-c", FILL, "large"]
    done = subprocess.run(
        run, cwd=path.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout == "a.forest\n"
    assert untouched(path)


def test_an_interrupted_write_leaves_the_old_file(path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        NEW.save(path)
    assert untouched(path)


@pytest.mark.posix
@pytest.mark.skipif(os.name != "posix", reason="has no SIGKILL")
def test_a_killed_process_leaves_the_old_file(path):
    code = (
        "import os, pathlib, signal, treekernel_rs as tk\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "tk.Forest('(S new)').save('a.forest')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=path.parent, check=False)
    assert done.returncode == -9
    assert tk.Forest.load(path) == OLD


def test_files_that_threads_write_are_whole(tmp_path):
    path = tmp_path / "a.forest"
    forests = [tk.Forest(f"(S a{i})" * 50) for i in range(4)]

    def write(forest):
        for _ in range(25):
            # Windows refuses to replace a file that is being read.
            with contextlib.suppress(PermissionError):
                forest.save(path)

    threads = [threading.Thread(target=write, args=(each,)) for each in forests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tk.Forest.load(path) in forests
    assert names(tmp_path) == ["a.forest"]
