from longpole_sim.cluster import Cluster, Gpu


def test_replicas_cover_every_gpu_once_and_never_span_nodes() -> None:
    cluster = Cluster(nodes=2, gpus_per_node=8)
    assert len(cluster.replicas) == 8
    gpus = [gpu for replica in cluster.replicas for gpu in replica.gpus]
    assert sorted((gpu.node, gpu.index) for gpu in gpus) == [
        (n, i) for n in (0, 1) for i in range(8)
    ]
    assert all(len({gpu.node for gpu in replica.gpus}) == 1 for replica in cluster.replicas)


def test_odd_nodes_have_one_gpu_per_replica() -> None:
    assert len(Cluster(nodes=1, gpus_per_node=3).replicas) == 3


def test_gpu_ids_differ_within_and_between_clusters() -> None:
    first, second = Cluster(tag="a"), Cluster(tag="b")
    ids = {*first.node_gpu_uuids(0), *first.node_gpu_uuids(1), *second.node_gpu_uuids(0)}
    assert len(ids) == 24
    assert first.gpu_uuid(Gpu(0, 0)) == Cluster(tag="a").gpu_uuid(Gpu(0, 0))
    assert first.gpu_uuid(Gpu(0, 0)).startswith("GPU-")
