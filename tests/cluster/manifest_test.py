"""tools/cluster/raycluster.yaml, a cluster on Kubernetes: every field is one that KubeRay's RayCluster has, and what it says is what
kiln tune needs.

    manifest_test.py [--crd ray.io_rayclusters.yaml]

raycluster.schema.json has of KubeRay's schema what the manifest uses, and nothing else may stand there. With --crd, KubeRay's own
custom resource definition (of a release, or `kubectl get crd rayclusters.ray.io -o yaml`), the manifest is checked against all of
that too, with unknown fields refused as an API server does, and our schema has to say of each field what KubeRay's says.
"""

import argparse
import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CLUSTER = HERE.parents[1] / "tools/cluster"
PYTHON = CLUSTER / ".venv/bin/python3"
NOT_RUN = 77  # ctest is told so: neither passed nor failed
try:
    import jsonschema
    import yaml
except ImportError:  # Ray brings both
    if not PYTHON.exists() or Path(sys.executable) == PYTHON:
        print("not run: there is no Ray in tools/cluster/.venv, which ./dev test makes")
        sys.exit(NOT_RUN)
    os.execv(PYTHON, [PYTHON, *sys.argv])

CPU_QUANTITY = re.compile(r"[0-9]+")


def strict(schema):
    """A schema of a custom resource as an API server takes it: a field that it does not name is an error."""
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = strict(schema[key])
    return schema


def problems(schema, document):
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(document)]


def differences(ours, theirs, at=""):
    """Where our schema does not say what KubeRay's does: a field that is none, another type, a requirement that is missing."""
    if theirs is None:
        return [f"{at}: KubeRay has no such field"]
    found = [f"{at}: {key} is {theirs[key]} at KubeRay, not {ours.get(key)}" for key in ("type", "enum")
             if key in theirs and ours.get(key) != theirs[key] and "$ref" not in ours]
    missing = set(theirs.get("required", [])) - set(ours.get("required", []))
    found += [f"{at}: KubeRay requires {name}" for name in sorted(missing)]
    for name, field in ours.get("properties", {}).items():
        if at or name not in ("apiVersion", "kind", "metadata"):
            found += differences(field, theirs.get("properties", {}).get(name), f"{at}/{name}")
    if "items" in ours:
        found += differences(ours["items"], theirs.get("items"), f"{at}[]")
    return found


def resolved(schema, definitions):
    """Our schema without references."""
    if isinstance(schema, list):
        return [resolved(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return resolved(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    return {key: resolved(one, definitions) for key, one in schema.items() if key != "$defs"}


def expect(good, what):
    if not good:
        raise AssertionError(what)


def a_field_that_is_none_is_found(schema, cluster):
    """The schema can fail: misspelt fields, and values of another type."""
    def misspell(changed):
        group = changed["spec"]["workerGroupSpecs"][0]
        group["rayStartParameters"] = group.pop("rayStartParams")

    def number(changed):
        changed["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0

    def no_group_name(changed):
        del changed["spec"]["workerGroupSpecs"][0]["groupName"]

    def misspell_toleration(changed):
        changed["spec"]["workerGroupSpecs"][1]["template"]["spec"]["toleration"] = []

    for spoil in (misspell, number, no_group_name, misspell_toleration):
        changed = copy.deepcopy(cluster)
        spoil(changed)
        expect(problems(schema, changed), f"{spoil.__name__} is found")


def claims_of(group):
    """The custom resources of a group. KubeRay hands the text to a shell, which takes outer quotes and backslashes away."""
    text = group["rayStartParams"].get("resources", '"{}"')
    expect(text[0] == text[-1] == '"', f"resources are quoted for a shell: {text}")
    return json.loads(text[1:-1].replace('\\"', '"'))


def says_what_tuning_needs(cluster, policy):
    spec = cluster["spec"]
    pinned = re.search(r"^ray\[client\]==(.+)$", (CLUSTER / "requirements.txt").read_text(), re.M).group(1)
    expect(spec["rayVersion"] == pinned, f"Ray is {pinned}, not {spec['rayVersion']}")
    expect(f"FROM rayproject/ray:{pinned}-" in (HERE.parents[1] / "docs/TUNING.md").read_text(), "so it is in the image")
    expect(spec["authOptions"]["mode"] == "token", "nobody without a token may use it")
    expect(spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0", "the head neither compiles nor times")
    groups = {group["groupName"]: group for group in spec["workerGroupSpecs"]}
    expect(claims_of(groups["compilers"]) == {}, "compilers claim nothing")
    known = subprocess.run([os.environ["KILN"], "targets", "--json"], capture_output=True, text=True, check=True)
    targets = {f"kiln-{target['name']}" for target in json.loads(known.stdout)}
    (claim, count), = claims_of(groups["timers"]).items()
    expect(claim in targets and count == 1, f"a timer claims one of a target's resource: {claim}: {count}")
    pods = [group["template"] for group in (spec["headGroupSpec"], *groups.values())]
    for pod in pods:
        container = pod["spec"]["containers"][0]
        resources = container["resources"]
        expect(resources["requests"] == resources["limits"] and CPU_QUANTITY.fullmatch(resources["limits"]["cpu"]),
               f"whole processors of its own: {resources}")
        expect({"name": "RAY_worker_niceness", "value": "0"} in container["env"], "workers have the usual priority")
    expect(len({pod["spec"]["containers"][0]["image"] for pod in pods}) == 1, "all have one image")
    timer = groups["timers"]["template"]
    term, = timer["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expect(term["labelSelector"]["matchLabels"].items() <= timer["metadata"]["labels"].items() and
           term["topologyKey"] == "kubernetes.io/hostname", "two timers are never on one machine")
    expect(claim == f"kiln-{timer['spec']['nodeSelector']['kiln-times']}", "the machines' label is the target")
    own = {"ray.io/cluster": cluster["metadata"]["name"]}
    expect(policy["kind"] == "NetworkPolicy" and policy["spec"]["podSelector"] == {"matchLabels": own} and
           policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}], "its own pods alone reach its ports")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--crd", type=Path, help="KubeRay's own definition")
    options = parser.parse_args()
    with open(HERE / "raycluster.schema.json", encoding="utf-8") as file:
        written = json.load(file)
    schema = strict(resolved(written, written["$defs"]))
    cluster, policy = yaml.safe_load_all((CLUSTER / "raycluster.yaml").read_text())
    try:
        expect(not problems(schema, cluster), "\n".join(problems(schema, cluster)))
        a_field_that_is_none_is_found(schema, cluster)
        says_what_tuning_needs(cluster, policy)
        if options.crd:
            versions = {one["name"]: one for one in yaml.safe_load(options.crd.read_text())["spec"]["versions"]}
            theirs = versions["v1"]["schema"]["openAPIV3Schema"]
            whole = strict(theirs)
            whole["properties"]["metadata"] = {"type": "object"}
            expect(not problems(whole, cluster), "\n".join(problems(whole, cluster)))
            a_field_that_is_none_is_found(whole, cluster)
            expect(not differences(schema, theirs), "\n".join(differences(schema, theirs)))
            print(f"checked against {options.crd} too")
    except AssertionError as error:
        print(f"expected: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
