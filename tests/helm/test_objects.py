"""The objects of every mode: valid for Kubernetes, consistent with each other, and confined."""
# pyright: reportMissingTypeStubs=false

from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest

from support.helm_child import CHART, Document, HelmChild, find
from support.helm_modes import MODES, WITH_SERVER, merge

# The oldest that Chart.yaml allows, and the newest whose schemas are known.
VERSIONS = ("1.26", str(kubernetes_validate.latest_version()))
# Theirs are the Prometheus operator's schemas.
CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}


@pytest.fixture(scope="module", params=MODES)
def documents(request: pytest.FixtureRequest, helm: HelmChild) -> list[Document]:
    return helm.render(MODES[request.param])


def list_pods(documents: list[Document]) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, labels and specification of the pods of each workload."""
    for document in documents:
        if document["kind"] in {"StatefulSet", "DaemonSet", "Deployment"}:
            template = document["spec"]["template"]
            yield document["metadata"]["name"], template["metadata"]["labels"], template["spec"]


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_knows_every_field(documents: list[Document], version: str) -> None:
    for document in documents:
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)


def test_objects_have_names_of_their_own_and_say_whose_they_are(documents: list[Document]) -> None:
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(names) == len(set(names))
    for document in documents:
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "longpole"
        assert document["metadata"]["labels"]["app.kubernetes.io/version"] == "0.1.0"


def test_selectors_meet_their_pods(documents: list[Document]) -> None:
    pods = [labels for _, labels, _ in list_pods(documents)]
    for document in documents:
        spec: Any = document.get("spec", {})
        selector: Any = spec.get("selector") or spec.get("podSelector") or {}
        wanted: Any = selector.get("matchLabels", selector)
        if wanted and document["kind"] != "ServiceMonitor":
            assert sum(wanted.items() <= labels.items() for labels in pods) == 1
        if document["kind"] == "ServiceMonitor":
            services = [one for one in documents if one["kind"] == "Service"]
            met = [one for one in services if wanted.items() <= one["metadata"]["labels"].items()]
            (name,) = (one["metadata"]["name"] for one in met)
            assert name in {"observe-server", "longpole-server", "longpole-web"}


def test_ports_that_are_named_exist(documents: list[Document]) -> None:
    for document in documents:
        if document["kind"] not in {"Service", "NetworkPolicy"}:
            continue
        spec = document["spec"]
        selector = spec.get("selector") or spec["podSelector"]["matchLabels"]
        (pod,) = (
            pod for _, labels, pod in list_pods(documents) if selector.items() <= labels.items()
        )
        known = {port["name"] for port in pod["containers"][0]["ports"]}
        rules = spec.get("ingress", []) if document["kind"] == "NetworkPolicy" else [spec]
        for rule in rules:
            for port in rule["ports"]:
                assert port.get("targetPort", port["port"]) in known


def test_volumes_and_mounts_belong_together(documents: list[Document]) -> None:
    by_name = {document["metadata"]["name"]: document for document in documents
               if document["kind"] in {"StatefulSet", "DaemonSet", "Deployment"}}  # fmt: skip
    for name, _, pod in list_pods(documents):
        volumes = {volume["name"] for volume in pod["volumes"]}
        claims = by_name[name]["spec"].get("volumeClaimTemplates", [])
        volumes |= {claim["metadata"]["name"] for claim in claims}
        for container in pod["containers"]:
            mounts = [mount["name"] for mount in container["volumeMounts"]]
            assert set(mounts) == volumes
            paths = [mount["mountPath"] for mount in container["volumeMounts"]]
            assert len(paths) == len(set(paths))


def test_what_no_pod_needs_none_has(documents: list[Document]) -> None:
    roles = [document for document in documents if document["kind"] == "ClusterRole"]
    for _, _, pod in list_pods(documents):
        # Who lists annotated pods has an account of its own, which may do that alone.
        if pod["automountServiceAccountToken"]:
            (role,) = roles
            assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
            accounts = [one for one in documents if one["kind"] == "ServiceAccount"]
            assert pod["serviceAccountName"] in {one["metadata"]["name"] for one in accounts}
        # Variables of Services would be read as options: LONGPOLE_PORT=tcp://...
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            # Who sees the node's processes may read whose they are.
            added = ["SYS_PTRACE", "DAC_READ_SEARCH"] if pod.get("hostPID") else None
            assert security["capabilities"].get("add") == added
            assert security["capabilities"]["drop"] == ["ALL"]
            assert set(container["resources"]) == {"requests", "limits"}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert probe in container


def list_offences(pod: Any) -> list[str]:
    """Return what the Pod Security Standard `restricted` would refuse, beyond the test above."""
    offences = [name for name in ("hostPID", "hostNetwork", "hostIPC") if pod.get(name)]
    offences += [volume["name"] for volume in pod["volumes"] if "hostPath" in volume]
    context = pod["securityContext"]
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        offences.append("root")
    offences += [
        "hostPort" for one in pod["containers"] for port in one["ports"] if "hostPort" in port
    ]
    return offences


@pytest.mark.parametrize("mode", WITH_SERVER)
def test_servers_meet_the_restricted_standard(helm: HelmChild, mode: str) -> None:
    pods = {name: pod for name, _, pod in list_pods(helm.render(MODES[mode]))}
    assert [list_offences(pod) for name, pod in pods.items() if not name.endswith("-agent")] != []
    for name, pod in pods.items():
        if not name.endswith("-agent"):
            assert list_offences(pod) == []


def test_an_agent_can_meet_the_restricted_standard(helm: HelmChild) -> None:
    pods = {name: pod for name, _, pod in list_pods(helm.render(MODES["restricted"]))}
    assert list_offences(pods["longpole-agent"]) == []
    usual = {name: pod for name, _, pod in list_pods(helm.render(MODES["embedded"]))}
    assert list_offences(usual["longpole-agent"]) == ["data", "pod-resources", "root"]


@pytest.mark.parametrize("mode", MODES)
def test_secrets_are_referred_to_never_made(helm: HelmChild, mode: str) -> None:
    documents = helm.render(MODES[mode])
    assert "Secret" not in {document["kind"] for document in documents}
    for _, _, pod in list_pods(documents):
        for container in pod["containers"]:
            plain = {one["name"] for one in container["env"] if "value" in one}
            assert not any(name.endswith(("TOKEN", "PASSWORD", "WEBHOOK_URL")) for name in plain)


def test_the_embedded_store_has_one_process(helm: HelmChild) -> None:
    spec = find(helm.render(MODES["embedded"]), "StatefulSet", "-server")["spec"]
    assert spec["replicas"] == 1
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_who_stands_by_is_waited_for_by_nobody(helm: HelmChild) -> None:
    spec = find(helm.render(MODES["external-clickhouse"]), "StatefulSet", "-server")["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (2, "Parallel")
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    (container,) = spec["template"]["spec"]["containers"]
    assert container["startupProbe"]["failureThreshold"] > 10**9


def test_trainers_reach_the_agent_of_their_own_node(helm: HelmChild) -> None:
    documents = helm.render(MODES["embedded"])
    service = find(documents, "Service", "-agent")["spec"]
    assert service["internalTrafficPolicy"] == "Local"
    assert service["publishNotReadyAddresses"] is True
    pod = find(helm.render(MODES["host-network"]), "DaemonSet")["spec"]["template"]["spec"]
    assert "--otlp-host=127.0.0.1" in pod["containers"][0]["args"]
    assert pod["containers"][0]["readinessProbe"]["httpGet"]["host"] == "127.0.0.1"


def test_websockets_and_imports_pass_the_ingress(helm: HelmChild) -> None:
    ingress = find(helm.render(MODES["embedded"]), "Ingress")
    annotations = ingress["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] == "3600"
    assert annotations["nginx.ingress.kubernetes.io/proxy-body-size"] == "0"


def test_only_the_server_reaches_the_bundled_clickhouse(helm: HelmChild) -> None:
    policy = find(helm.render(MODES["bundled-clickhouse"]), "NetworkPolicy", "-clickhouse")["spec"]
    ((rule,), egress) = (policy["ingress"], policy["egress"])
    (source,) = rule["from"]
    assert source["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "server"
    assert egress == []


def test_who_sees_processes_may_do_without_reading_them(helm: HelmChild) -> None:
    values = {"auth": {"insecure": True}, "agent": {"hostPID": True, "readProcesses": False}}
    (container,) = find(helm.render(values), "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_nodes_hold_a_token_that_may_only_send(helm: HelmChild) -> None:
    documents = helm.render(MODES["users"])
    secrets = {
        name: {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        for name, _, pod in list_pods(documents)
    }
    assert secrets == {
        "longpole-server": {
            "longpole-access",
            "longpole-proxy",
            "longpole-session",
            "longpole-tls",
        },
        "longpole-agent": {"longpole-gpu-nodes", "longpole-ca"},
    }
    (endpoint,) = find(documents, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"]["name"] == "longpole-gpu-nodes"
    assert endpoint["tlsConfig"]["serverName"] == "longpole-server.observability.svc"


def test_tls_reaches_up_to_the_server(helm: HelmChild) -> None:
    documents = helm.render(MODES["users"])
    (server,) = find(documents, "StatefulSet", "-server")["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert server[probe]["httpGet"]["scheme"] == "HTTPS"
    (agent,) = find(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"]
    assert "--server=https://longpole-server.observability.svc:8470" in agent["args"]
    assert {"name": "SSL_CERT_FILE", "value": "/run/secrets/server-ca/ca.crt"} in agent["env"]
    annotations = find(documents, "Ingress")["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/backend-protocol"] == "HTTPS"


def test_the_server_may_leave_for_its_clickhouse(helm: HelmChild) -> None:
    policy = find(helm.render(MODES["external-clickhouse"]), "NetworkPolicy", "-server")["spec"]
    assert {"ports": [{"port": 8443, "protocol": "TCP"}]} in policy["egress"]


def test_agents_may_leave_for_the_server_and_for_pages(helm: HelmChild) -> None:
    rules = find(helm.render(MODES["everything"]), "NetworkPolicy", "-agent")["spec"]["egress"]
    assert any({"port": 53, "protocol": "UDP"} in rule["ports"] for rule in rules)
    (server,) = (rule for rule in rules if "podSelector" in rule.get("to", [{}])[0])
    assert server["to"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "server"
    assert server["ports"] == [{"port": "web", "protocol": "TCP"}]
    (pages,) = (rule for rule in rules if "namespaceSelector" in rule.get("to", [{}])[0])
    assert pages["ports"] == [{"port": 1024, "endPort": 65535, "protocol": "TCP"}]
    elsewhere = merge(MODES["agents-only"], {"networkPolicy": {"agentEgress": True}})
    rules = find(helm.render(elsewhere), "NetworkPolicy", "-agent")["spec"]["egress"]
    assert {"ports": [{"port": 443, "protocol": "TCP"}]} in rules
    usual = find(helm.render(MODES["embedded"]), "NetworkPolicy", "-agent")["spec"]
    assert usual["policyTypes"] == ["Ingress"]


def test_prometheus_reaches_agents_that_no_trainer_reaches(helm: HelmChild) -> None:
    values = merge(
        MODES["embedded"],
        {"agent": {"otlp": {"exposure": "none"}, "podMonitor": {"enabled": True}}},
    )
    (rule,) = find(helm.render(values), "NetworkPolicy", "-agent")["spec"]["ingress"]
    assert {"port": "otlp-http", "protocol": "TCP"} in rule["ports"]


def test_the_volume_of_the_server_is_snapshotted(helm: HelmChild) -> None:
    documents = helm.render(MODES["large"])
    job = find(documents, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = job["containers"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    (claim,) = find(documents, "StatefulSet", "-server")["spec"]["volumeClaimTemplates"]
    server = find(documents, "StatefulSet", "-server")["metadata"]["name"]
    assert environment["CLAIM"] == f"{claim['metadata']['name']}-{server}-0"
    assert environment["KEEP"] == "14"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    accounts = [one["metadata"]["name"] for one in documents if one["kind"] == "ServiceAccount"]
    assert job["serviceAccountName"] in accounts
    (role,) = (one for one in documents if one["kind"] == "Role")
    assert role["rules"] == [
        {
            "apiGroups": ["snapshot.storage.k8s.io"],
            "resources": ["volumesnapshots"],
            "verbs": ["create", "get", "list", "delete"],
        }
    ]
    script = find(documents, "ConfigMap", "-snapshots")["data"]["snapshot_volume.py"]
    assert script.strip() == (CHART / "files" / "snapshot_volume.py").read_text().strip()


def test_prometheus_shows_the_token(helm: HelmChild) -> None:
    documents = helm.render(MODES["everything"])
    (endpoint,) = find(documents, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "longpole-token", "key": "bearer"}
    groups = find(documents, "PrometheusRule")["spec"]["groups"]
    assert [group["name"] for group in groups] == ["longpole-server", "longpole-agent"]


def test_people_reach_the_servers_that_show_and_senders_the_one_that_takes_data(
    helm: HelmChild,
) -> None:
    documents = helm.render(MODES["web"])
    (rule,) = find(documents, "Ingress", "-server")["spec"]["rules"]
    backends = {path["path"]: path["backend"]["service"]["name"] for path in rule["http"]["paths"]}
    assert backends.pop("/") == "longpole-web"
    assert backends.pop("/v1") == "longpole-server"
    assert set(backends.values()) == {"longpole-server"}
    annotations = find(documents, "Ingress", "-server")["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/affinity"] == "cookie"
    agent = find(documents, "DaemonSet", "-agent")["spec"]["template"]["spec"]["containers"][0]
    assert any("longpole-server." in one.get("value", "") for one in agent["env"]) or any(
        "longpole-server." in word for word in agent["args"]
    )


def test_servers_that_show_are_updated_one_by_one_and_hold_nothing(helm: HelmChild) -> None:
    documents = helm.render(MODES["web"])
    spec = find(documents, "Deployment", "-web")["spec"]
    assert spec["replicas"] == 3
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    volumes = {one["name"]: one for one in spec["template"]["spec"]["volumes"]}
    assert volumes["data"]["emptyDir"] == {}
    assert "channels" not in volumes
    assert find(documents, "PodDisruptionBudget", "-web")["spec"]["maxUnavailable"] == 1
    assert find(documents, "Service", "-web")["spec"]["sessionAffinity"] == "ClientIP"
    names = [one["metadata"]["name"] for one in helm.render(MODES["external-clickhouse"])]
    assert "longpole-web" not in names


def test_servers_that_show_reach_the_database_and_the_server_alone(helm: HelmChild) -> None:
    documents = helm.render(MODES["web"])
    policy = find(documents, "NetworkPolicy", "-web")["spec"]
    ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 5353, 5353, "web", 8443]
    (rule, *_) = find(documents, "NetworkPolicy", "-server")["spec"]["ingress"]
    components = [
        one["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for one in rule["from"]
        if "podSelector" in one
    ]
    assert components == ["agent", "web"]
