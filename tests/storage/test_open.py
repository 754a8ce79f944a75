import sys

import pytest

from watersmeet.model.errors import StorageError
from watersmeet.storage.local import LocalStorage
from watersmeet.storage.open import open_storage
from watersmeet.storage.remote import FsspecStorage


@pytest.mark.parametrize(
    "location", ["{}/ck", "{}/ck/", "file:{}/ck", "file://{}/ck", "file://localhost{}/ck", "FILE:{}/ck"]
)
def test_paths_and_file_urls_are_local(location, tmp_path):
    assert open_storage(location.format(tmp_path)) == LocalStorage(str(tmp_path / "ck"))


def test_a_path_is_taken_letter_by_letter_as_hadoop_does(tmp_path):
    assert open_storage(f"file:{tmp_path}/a%20b c:d") == LocalStorage(f"{tmp_path}/a%20b c:d")


def test_other_urls_are_remote_and_keep_their_cache_and_options():
    assert open_storage("memory://a/b/", "/c", {"k": 1}) == FsspecStorage("memory://a/b", "/c", {"k": 1})


@pytest.mark.parametrize(
    ("location", "package"),
    [("s3a://b/x", "s3fs"), ("gs://b/x", "gcsfs"), ("wasbs://b@c.net/x", "adlfs"), ("abfss://b/x", "adlfs")],
)
def test_a_missing_package_is_named(location, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StorageError, match=f"run 'pip install {package}' here and on every worker"):
        open_storage(location)


def test_an_unknown_scheme_names_the_nearest():
    with pytest.raises(StorageError, match=r"no file system is called 's3b'\. Did you mean 's3"):
        open_storage("s3b://bucket/ck")
