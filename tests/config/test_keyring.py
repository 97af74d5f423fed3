"""The file with the keys of clients: what may stand in it, and that no message shows what does."""

import hashlib
from pathlib import Path

import pytest

from llmgate.config.keyring import Keyring
from llmgate.config.load import load
from llmgate.errors import SettingsError

SECRET = "sk-0123456789abcdef"
HASH = hashlib.sha256(SECRET.encode()).hexdigest()


def read(folder: Path, text: str | bytes, mode: int = 0o600) -> Keyring:
    file = folder / "keys.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(mode)
    return Keyring(file)


def texts(found: Keyring) -> list[str]:
    return [str(problem) for problem in (*found.problems, *found.oddities)]


def test_without_a_file_there_are_none() -> None:
    assert (bool(Keyring(None).keys), texts(Keyring(None))) == (False, [])


@pytest.mark.parametrize("told", [f'key = "{SECRET}"', f'hash = "{HASH}"', f'hash = "sha256:{HASH.upper()}"'])
def test_a_key_or_its_hash(tmp_path: Path, told: str) -> None:
    found = read(tmp_path, f'[keys.laptop]\n{told}\nmodels = ["m*"]\nmax_concurrent = 2\n')
    assert texts(found) == []
    key = found.keys.find(SECRET.encode())
    assert key is not None
    assert (key.name, key.models, key.max_concurrent, key.disabled) == ("laptop", ("m*",), 2, False)
    assert found.keys.find(b"other") is None
    assert SECRET not in repr(found.keys) + repr(key)


def test_one_that_is_disabled(tmp_path: Path) -> None:
    found = read(tmp_path, f'[keys.a]\nkey = "{SECRET}"\ndisabled = true')
    assert (bool(found.keys), found.keys.find(SECRET.encode())) == (True, None)


BAD = [
    ("", "holds no key"),
    ("[keys]", "holds no key"),
    ("[keys.a]", "must have one of key and hash in keys.a"),
    (f'[keys.a]\nkey = "{SECRET}"\nhash = "{HASH}"', "must have one of key and hash in keys.a"),
    (f'[keys.a]\nhash = "{HASH[:-1]}"', "has keys.a.hash, which must be the SHA-256"),
    (f'[keys.a]\nhash = "{SECRET}"', "has keys.a.hash, which must be the SHA-256"),
    (f'[keys.a]\nkey = "{SECRET} x"', "has keys.a.key, which must be one line"),
    (f'[keys.a]\nkey = "{SECRET}\\n"', "has keys.a.key, which must be one line"),
    ('[keys.a]\nkey = "ü0123456789abcdef"', "has keys.a.key, which must be one line"),
    (f'[keys.a]\nkeys = "{SECRET}"', "has an unknown key keys.a.keys; known are key, hash, models"),
    (f'[key.a]\nkey = "{SECRET}"', "has an unknown key key"),
    (f'[keys.a]\nkey = "{SECRET}"\nmax_concurrent = -1', "has keys.a.max_concurrent, which must be a whole number"),
    (f'[keys.a]\nkey = "{SECRET}"\ndisabled = "no"', "has keys.a.disabled, which has a value that is not allowed"),
    (f'[keys."a b"]\nkey = "{SECRET}"', "which must be named with 1 to 64 letters"),
    (f'[keys.a]\nkey = "{SECRET}"\n[keys.b]\nhash = "{HASH}"', "has the same key in keys.a and keys.b"),
    (f'[keys.a]\nkey = "{SECRET}', "is not TOML"),
    (f"[keys.a]\nkey = {SECRET}", "is not TOML"),
    (b"\xff" + SECRET.encode(), "is not TOML"),
    ("x = " + "[" * 5000, "is not TOML"),
    ("#" * (1 << 20) + SECRET, "is too large"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_what_is_wrong_is_said_without_the_key(tmp_path: Path, text: str | bytes, said: str) -> None:
    told = "\n".join(texts(read(tmp_path, text)))
    assert f"server.keys_file {said}" in told or said in told
    assert SECRET[3:] not in told


def test_careless_files_are_warned_of(tmp_path: Path) -> None:
    assert texts(read(tmp_path, f'[keys.a]\nkey = "{SECRET}"', 0o644)) == [
        "server.keys_file can be read by every user of this machine: chmod o-r"
    ]
    (short,) = texts(read(tmp_path, '[keys.a]\nkey = "hunter2"'))
    assert short == "server.keys_file has a key in keys.a that is short enough to be guessed: openssl rand -hex 24"


def test_a_file_that_cannot_be_read_is_a_problem_with_its_place(tmp_path: Path) -> None:
    settings = tmp_path / "llmgate.toml"
    settings.write_text(f'[server]\nkeys_file = "{tmp_path}/none.toml"\n')
    with pytest.raises(SettingsError) as refused:
        load(settings, environ={})
    assert str(refused.value) == (
        f"llmgate: {settings}:2: server.keys_file must be a file that can be read: No such file or directory"
    )


def test_what_is_loaded_has_the_keys(tmp_path: Path) -> None:
    read(tmp_path, f'[keys.a]\nkey = "{SECRET}"')
    server = {"keys_file": str(tmp_path / "keys.toml"), "listen": ["0.0.0.0:8080"]}
    upstreams = {"u": {"url": "http://127.0.0.1:1", "max_concurrent": 1, "forward_auth": True}}
    loaded = load(None, environ={}, overrides={"server": server, "upstreams": upstreams})
    assert [key.name for key in loaded.keys] == ["a"]
    (warning,) = loaded.warnings
    assert "upstreams.u.forward_auth passes nothing on" in warning
