#!/usr/bin/env python3
"""Is psd-cluster.schema.json what the program reads? Usage: schema_test.py ROOT

Its keys must be those of the tables in C (config_key.c, node.c, and every
option row that is a job's or a key of the file), its choices those of the
rows; and it must tell good files from bad ones. Prints TAP. Nothing but
Python's own library; jsonschema is used where it is there.
"""
import glob
import json
import os
import re
import sys

GOOD = [
    {},
    {"$schema": "x", "username": "ubuntu", "virtualenv": "/opt/sandbox",
     "pem_file": "key.pem", "master_node": "localhost"},
    {"worker_nodes": ["10.0.0.1", "ann@b:2222", "[fe80::1%eth0]:22", "::1",
                      {"host": "a", "slots": 4, "gpus": [0, 1]},
                      {"host": "a", "gpus": "0, 1", "user": "u", "port": 7},
                      {"host": "a", "gpus": ["GPU-8932f937"], "slots": "2"}],
     "server_nodes": ["a", {"host": "b", "slots": 2}]},
    {"digest": "off", "block-size": "64K", "checksum": True,
     "ports": "7000-7100", "roles": 1, "poseidon_flags": False,
     "interface": "eth0", "commands": ["python a", "python b"]},
    {"block_size": 65536, "ports": 7000, "threads": 2, "transport": "tcp"},
    {"batch": "per-worker", "accum": "auto", "nan": "skip", "seed": 0,
     "shard-eval": True},
    {"threads": "auto", "block-size": "auto"},
    {"accum": 8, "shard_eval": 0, "seed": "4294967295"},
]
BAD = [
    {"worker_nodes": []},
    {"worker_nodes": "a"},
    {"server_nodes": [1]},
    {"wroker_nodes": ["a"]},
    {"worker_nodes": ["-oProxyCommand=x"]},
    {"worker_nodes": ["$(id)"]},
    {"worker_nodes": ["a b"]},
    {"worker_nodes": [{"slots": 2}]},
    {"worker_nodes": [{"host": "a", "slots": 0}]},
    {"worker_nodes": [{"host": "a", "gpus": [-1]}]},
    {"worker_nodes": [{"host": "a", "x": 1}]},
    {"server_nodes": [{"host": "a", "gpus": [0]}]},
    {"username": "-l"},
    {"username": "DOMAIN\\u"},
    {"virtualenv": "venv"},
    {"digest": "rotat"},
    {"checksum": "maybe"},
    {"ports": "7-x"},
    {"roles": "yes"},
    {"commands": [" "]},
    {"interface": "-i"},
    {"block-size": []},
    {"batch": "halves"},
    {"accum": 0},
    {"threads": 0},
    {"seed": -1},
]
NODES = {"worker_nodes": ["a", "b"], "server_nodes": ["a"]}


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def table(text, name):
    """The names in the C array `name`."""
    body = re.search(r"%s\[\] = \{(.*?)\n\};" % name, text, re.S).group(1)
    return re.findall(r'\{ (?:\.name = )?"([^"]+)"', body)


def option_rows(root):
    """Option rows that a file may have: {name: choices or None}."""
    rows = {}
    for path in (glob.glob(root + "/bin/*.c") +
                 glob.glob(root + "/src/*/*.c")):
        if path.endswith("_test.c"):
            continue
        for row in re.split(r"(?=\{\s*\.name = )", read(path))[1:]:
            row = row.split("};")[0]
            if re.search(r"\.(job|config) = true", row):
                name = re.search(r'\.name = "([^"]+)"', row).group(1)
                choices = re.search(r'\.choices = "([^"]+)"', row)
                rows[name] = choices and choices.group(1).split("|")
    return rows


def schema_keys(schema):
    """{key as in C: its schema}; "block[-_]size" is block-size."""
    keys = dict(schema["properties"])
    for pattern, part in schema.get("patternProperties", {}).items():
        keys[pattern.strip("^$").replace("[-_]", "-")] = part
    return keys


class Tap:
    def __init__(self):
        self.count = 0
        self.bad = 0

    def say(self, good, name, why=""):
        self.count += 1
        self.bad += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.count, name))
        if not good:
            print("# " + why)


def check_keys(tap, root, schema):
    known = table(read(root, "src/config/config_key.c"), "config_keys")
    rows = option_rows(root)
    keys = schema_keys(schema)
    tap.say(set(keys) == set(known) | set(rows),
            "the keys are those of the program",
            "only in the program: %s; only in the schema: %s" % (
                sorted((set(known) | set(rows)) - set(keys)),
                sorted(set(keys) - set(known) - set(rows))))
    wrong = [x for x in rows if rows[x] and x in keys and
             set(map(str, keys[x].get("enum", []))) != set(rows[x])]
    tap.say(not wrong, "the choices are those of the rows", str(wrong))
    node = set(table(read(root, "src/config/node.c"), "node_keys"))
    parts = schema["$defs"]
    tap.say(node == set(parts["worker"]["properties"]) and
            node - {"gpus"} == set(parts["server"]["properties"]),
            "the keys of an entry are those of the program", str(node))


def check_files(tap, schema):
    try:
        import jsonschema
        validator = jsonschema.Draft202012Validator
    except (ImportError, AttributeError):
        tap.count += 1
        print("ok %d - good files and bad ones # SKIP no jsonschema for "
              "Python (python3-jsonschema)" % tap.count)
        return
    validator.check_schema(schema)
    check = validator(schema)
    for one in GOOD:
        errors = list(check.iter_errors(dict(NODES, **one)))
        tap.say(not errors, "good: " + json.dumps(one)[:60], str(errors))
    for one in BAD:
        tap.say(not check.is_valid(dict(NODES, **one)),
                "bad: " + json.dumps(one)[:60], "is taken for good")
    tap.say(not check.is_valid({"worker_nodes": ["a"]}),
            "bad: no server_nodes", "is taken for good")


def main():
    root = sys.argv[1]
    schema = json.loads(read(root, "share/psd-cluster.schema.json"))
    tap = Tap()
    check_keys(tap, root, schema)
    check_files(tap, schema)
    print("1..%d" % tap.count)
    return 1 if tap.bad else 0


if __name__ == "__main__":
    sys.exit(main())
