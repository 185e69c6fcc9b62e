from longpole_sim import Cluster, make_run
from longpole_sim.run_identity import describe_config


def test_config_explains_the_batch() -> None:
    config = describe_config(make_run("truncation"))
    assert config["group_size"] == 16
    assert config["train_batch_size"] == 32
    assert config["response_length_cap"] == 512
    assert config["tensor_parallel_size"] == 2


def test_small_micro_batches_are_said_where_they_are_the_cause() -> None:
    cluster = Cluster(nodes=1, gpus_per_node=2)
    config = describe_config(make_run("update_inefficient", cluster=cluster))
    assert config["use_dynamic_bsz"] is False
    assert config["ppo_micro_batch_size_per_gpu"] == 1
