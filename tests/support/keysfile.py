"""A file with the keys of clients, and the settings that name it."""

import json
from pathlib import Path
from typing import Any


def keys_file(folder: Path, **keys: dict[str, Any]) -> str:
    """Its path; each key by its name, with the fields of [keys.NAME]."""
    path = folder / "keys.toml"
    lines = []
    for name, fields in keys.items():
        lines.append(f"[keys.{name}]")
        lines += [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
    path.write_text("\n".join(lines))
    path.chmod(0o600)
    return str(path)
