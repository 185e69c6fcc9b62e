"""Names of resource attributes, spans, span attributes and log events.

They follow the open ``rl.*`` proposal for OpenTelemetry, ``gen_ai.*`` and ``hw.*`` where these
exist. Nothing else in the project spells one of these names.
"""

# Resource: one set per process.
RUN_ID = "rl.run.id"
RUN_ATTEMPT = "rl.run.attempt"
RUN_NAME = "rl.run.name"
PROJECT = "rl.project"
SYSTEM = "rl.system"
SYSTEM_VERSION = "rl.system.version"
ALGORITHM = "rl.algorithm"
MODE = "rl.mode"
ROLE = "rl.role"
GPU_COUNT = "rl.gpu.count"
GPU_IDS = "rl.gpu.ids"
MODEL_NAME = "rl.model.name"
MODEL_CONFIG = "rl.model.config"
STALENESS_BOUND = "rl.staleness.bound"
STALENESS_BASIS = "rl.staleness.basis"
CONFIG_PREFIX = "rl.config."

SERVICE_NAME = "service.name"
# What `longpole import` names itself.
IMPORT_SERVICE = "longpole-import"
SERVICE_INSTANCE_ID = "service.instance.id"
HOST_NAME = "host.name"
PROCESS_PID = "process.pid"
# Start of the process, UTC nanoseconds: with host and pid it names one life of a controller.
PROCESS_START_NS = "rl.process.start_ns"
# A scheduler's id of the job that the process belongs to.
SLURM_JOB_ID = "slurm.job.id"
RAY_JOB_ID = "ray.job.id"
# The pod that the process runs in.
K8S_NAMESPACE_NAME = "k8s.namespace.name"
K8S_POD_NAME = "k8s.pod.name"
K8S_POD_UID = "k8s.pod.uid"
K8S_CONTAINER_NAME = "k8s.container.name"
# RL-Insight's resource names, used when `rl.run.id` is missing.
LEGACY_PROJECT = "project"
LEGACY_EXPERIMENT = "experiment_name"

# Spans.
SPAN_LOOP = "rl.loop"
SPAN_SAMPLE = "rl.sample"
SPAN_REWARD = "rl.reward"
SPAN_TRAIN = "rl.train"
SPAN_SYNC = "rl.sync"
SPAN_SYNC_PREFIX = "rl.sync."
SPAN_TRAJECTORY = "rl.trajectory"
SPAN_GENERATE = "rl.generate"
SPAN_SCORE = "rl.score"
SPAN_TOOL_PREFIX = "execute_tool"
SPAN_STAGE = "rl.stage"

# Span attributes.
ITERATION = "rl.loop.iteration"
STAGE = "rl.stage"
TOKENS_TOTAL = "rl.tokens.total"
TOKENS_PROMPT = "rl.tokens.prompt"
TOKENS_RESPONSE = "rl.tokens.response"
PHASE = "rl.phase"
TRAJECTORY_ID = "rl.trajectory.id"
GROUP_ID = "rl.group.id"
TRAJECTORY_TURNS = "rl.trajectory.turns"
TRAJECTORY_PREEMPTIONS = "rl.trajectory.preemptions"
TRAJECTORY_PAUSED_SECONDS = "rl.trajectory.paused_seconds"
# Sums over the trajectory's child spans, for senders that know the sums but not the windows.
TRAJECTORY_GENERATE_SECONDS = "rl.trajectory.generate_seconds"
TRAJECTORY_TOOL_SECONDS = "rl.trajectory.tool_seconds"
TRAJECTORY_SCORE_SECONDS = "rl.trajectory.score_seconds"
TRAJECTORY_QUEUE_SECONDS = "rl.trajectory.queue_seconds"
TRAJECTORY_STATUS = "rl.trajectory.status"
POLICY_VERSION_START = "rl.policy.version.start"
POLICY_VERSION_END = "rl.policy.version.end"
REWARD_VALUE = "rl.reward.value"
TURN = "rl.turn"
TOOL_NAME = "gen_ai.tool.name"
# Ids of the requests to engines that served a sample, by which engines' spans are linked to it.
REQUEST_ID = "gen_ai.request.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
SYNC_METHOD = "rl.sync.method"
SYNC_BYTES = "rl.sync.bytes"
SYNC_DELTA_RATIO = "rl.sync.delta_ratio"

# Log events (OTLP `event_name`, also sent as attribute `event.name` for older receivers).
EVENT_NAME = "event.name"
EVENT_STAGE_START = "rl.stage.start"
EVENT_RUN_START = "rl.run.start"
EVENT_RUN_END = "rl.run.end"
EVENT_START_NS = "rl.start_ns"
EVENT_STATUS = "rl.status"
# The open window of a whole step is announced as a stage of this name.
STEP_STAGE = "step"

# Text of prompts, responses and tool arguments: dropped at ingest unless the operator turns it on.
TEXT_ATTRIBUTE_KEYS = frozenset(
    {
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.definitions",
        "rl.prompt.text",
        "rl.response.text",
        "prompt_text",
        "response_text",
        "prompt",
        "response",
        "completion",
        "content",
        "messages",
        "input.value",
        "output.value",
        "llm.prompts",
        "llm.completions",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "mlflow.spanInputs",
        "mlflow.spanOutputs",
        "langfuse.observation.input",
        "langfuse.observation.output",
        "langfuse.trace.input",
        "langfuse.trace.output",
        "tool.parameters",
        "llm.prompt_template.variables",
    }
)
TEXT_ATTRIBUTE_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.input_messages.",
    "llm.output_messages.",
)

# HTTP headers and gRPC metadata between agent and server.
HEADER_BATCH_ID = "longpole-batch-id"

ROLES = (
    "controller",
    "trainer",
    "rollout",
    "hybrid",
    "critic",
    "ref",
    "reward",
    "agent_loop",
)
# Roles whose stage spans make the ledger when no process sends `rl.loop`.
LEDGER_ROLES = frozenset({"controller", "trainer", "hybrid"})
MODES = ("sync", "colocate_async", "one_step_off", "fully_async", "separate_async")
# Modes in which trainer and rollout hold separate GPU pools.
SEPARATE_POOL_MODES = frozenset({"one_step_off", "fully_async", "separate_async"})
TRAJECTORY_STATUSES = ("success", "truncated", "aborted", "filtered", "dropped_stale", "error")
PHASES = ("train", "validation")
