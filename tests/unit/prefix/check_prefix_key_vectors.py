"""Checks proto/prefix_key_vectors.json by the Python that docs/prefix-keys.md shows.

Usage: check_prefix_key_vectors.py SOURCE_DIR [--write]

With --write it makes the keys of every case anew, after a case was added; keys that are there
already never change, as clients keep them.
"""

import json
import pathlib
import re
import sys


def load_reference(source_dir):
    text = (source_dir / "docs/prefix-keys.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    reference = {}
    exec(compile(code, "docs/prefix-keys.md", "exec"), reference)  # pylint: disable=exec-used
    return reference


def make_keys(reference, case):
    hashes = [bytes.fromhex(h) for h in case.get("block_hashes", [])]
    root = reference["root_key"](
        "hashes" if hashes else "tokens",
        case["fingerprint"],
        case["tenant"],
        case["model_id"],
        case.get("adapter", ""),
        bytes.fromhex(case.get("salt", "")),
    )
    parent = bytes.fromhex(case["parent_key"]) if "parent_key" in case else root
    if hashes:
        keys = reference["hash_keys"](parent, hashes)
    else:
        extras = [
            (extra["first_token"], extra["token_count"], bytes.fromhex(extra["hash"]))
            for extra in case.get("extras", [])
        ]
        keys = reference["token_keys"](parent, case.get("tokens", []), case["block_size"], extras)
    return {"root": root.hex(), "keys": [key.hex() for key in keys]}


def dump(document):
    """JSON with a line a field: long enough to be read, short enough to be looked through."""
    cases = []
    for case in document["cases"]:
        fields = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in case.items()]
        cases.append("    {\n      " + ",\n      ".join(fields) + "\n    }")
    about = json.dumps(document["about"])
    return f'{{\n  "about": {about},\n  "cases": [\n' + ",\n".join(cases) + "\n  ]\n}\n"


def main():
    source_dir = pathlib.Path(sys.argv[1])
    path = source_dir / "proto/prefix_key_vectors.json"
    reference = load_reference(source_dir)
    document = json.loads(path.read_text(encoding="utf-8"))
    wrong = 0
    for case in document["cases"]:
        made = make_keys(reference, case)
        if sys.argv[2:] == ["--write"]:
            case.update(made)
        elif {name: case[name] for name in made} != made:
            print(f"{case['name']}: the file has other keys than {made}")
            wrong += 1
    if sys.argv[2:] == ["--write"]:
        path.write_text(dump(document), encoding="utf-8")
    print(f"{len(document['cases'])} cases, {wrong} wrong")
    sys.exit(1 if wrong or not document["cases"] else 0)


main()
