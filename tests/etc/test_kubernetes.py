"""The Kubernetes samples against the program: ports, paths, names, limits. No cluster is asked; the probes are asked of
a real llmgate by tests/e2e/operations/test_probes.py."""

import stat
from pathlib import Path
from typing import Any

import yaml

from llmgate.config.load import load
from llmgate.server.door import OPEN_PATHS
from tests.etc.test_docker import environ, step

FOLDER = Path(__file__).resolve().parents[2] / "etc" / "kubernetes"
LISTED: list[str] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
OBJECTS: dict[str, Any] = {
    found["kind"]: found for name in LISTED for found in yaml.safe_load_all((FOLDER / name).read_text())
}
DEPLOYMENT = OBJECTS["Deployment"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
(CONTAINER,) = POD["containers"]


def test_every_file_is_listed() -> None:
    assert {*LISTED, "kustomization.yaml"} == {file.name for file in FOLDER.iterdir()}
    assert OBJECTS.keys() == {"ConfigMap", "Secret", "Deployment", "Service"}


def test_there_is_never_a_second_pod() -> None:
    assert DEPLOYMENT["replicas"] == 1
    assert DEPLOYMENT["strategy"] == {"type": "Recreate"}


def test_labels_and_ports_lead_to_the_container() -> None:
    labels = DEPLOYMENT["template"]["metadata"]["labels"]
    assert DEPLOYMENT["selector"]["matchLabels"] == labels
    assert OBJECTS["Service"]["spec"]["selector"] == labels
    (port,) = CONTAINER["ports"]
    assert str(port["containerPort"]) == step("EXPOSE")
    assert [each["targetPort"] for each in OBJECTS["Service"]["spec"]["ports"]] == [port["name"]]
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert CONTAINER[kind]["httpGet"]["port"] == port["name"]
        assert CONTAINER[kind]["httpGet"]["path"] in OPEN_PATHS, "the kubelet has no key"


def test_the_settings_are_right(tmp_path: Path) -> None:
    text = OBJECTS["ConfigMap"]["data"]["llmgate.toml"]
    mounts = {mount["mountPath"]: mount for mount in CONTAINER["volumeMounts"]}
    assert all("subPath" not in mount for mount in mounts.values()), "the kubelet would never renew it"
    (name, keys), *others = OBJECTS["Secret"]["stringData"].items()
    assert not others
    path = f"/etc/llmgate-keys/{name}"
    assert text.count(f'"{path}"') == 1
    assert mounts["/etc/llmgate-keys"]["name"] == "keys"
    assert mounts["/etc/llmgate"]["name"] == "settings"
    (tmp_path / name).write_text(keys)
    (tmp_path / name).chmod(0o440)
    (tmp_path / "llmgate.toml").write_text(text.replace(path, str(tmp_path / name)))
    variables = {name: value for name, value in environ().items() if name != "LLMGATE_SERVER__LISTEN"}
    found = load(tmp_path / "llmgate.toml", environ=variables)
    assert found.warnings == ()
    assert [key.disabled for key in found.keys] == [True], "nobody gets in by what everybody can read"
    assert found.settings.server.listen == (environ()["LLMGATE_SERVER__LISTEN"],)
    assert POD["terminationGracePeriodSeconds"] > found.settings.server.drain_timeout
    assert OBJECTS["Service"]["metadata"]["name"] in found.settings.server.allowed_hosts


def test_no_variable_of_a_service_is_taken_for_a_setting() -> None:
    assert POD["enableServiceLinks"] is False


def test_volumes_are_mounted_and_secrets_kept() -> None:
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    assert volumes.keys() == {mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert volumes["settings"]["configMap"]["name"] == OBJECTS["ConfigMap"]["metadata"]["name"]
    assert volumes["keys"]["secret"]["secretName"] == OBJECTS["Secret"]["metadata"]["name"]
    assert not volumes["keys"]["secret"]["defaultMode"] & stat.S_IROTH


def test_it_may_do_little() -> None:
    uid = int(step("USER").partition(":")[0])
    pod = POD["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"]) == (uid, uid, uid)
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    own = CONTAINER["securityContext"]
    assert own["allowPrivilegeEscalation"] is False
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}


def test_the_admin_socket_lies_where_it_may_write_and_the_command_line_looks() -> None:
    assert CONTAINER["args"] == ["serve", "--admin-socket", "/run/llmgate/admin.sock"]
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert mounts["/run"] == "run"
    assert "emptyDir" in next(volume for volume in POD["volumes"] if volume["name"] == "run")
