"""Energy that GPUs had taken at certain moments, from the counters that their drivers keep."""

from collections.abc import Mapping, Sequence

from longpole_server.read.pool import ClientPool, make_rows

# A moment lies between two samples. The newest one has none after it yet: the power of the sample
# before it tells what came since.
NEAR_NS = 3_000_000_000
_NS_PER_S = 1e9
# The primary key of `gpu_samples` begins with the ten minutes of a sample.
_BUCKET_S = 600
_BUCKET_NS = _BUCKET_S * 1_000_000_000
_ENERGY = """
SELECT
    gpu_uuid,
    moment,
    argMaxIf(energy, at, at <= moment),
    argMaxIf(power, at, at <= moment),
    maxIf(at, at <= moment),
    argMinOrNullIf(energy, at, at > moment),
    minOrNullIf(at, at > moment)
FROM (
    SELECT
        gpu_uuid,
        toUnixTimestamp64Nano(ts_ns) AS at,
        toFloat64(energy_joules) AS energy,
        toFloat64(power_watts) AS power,
        arrayJoin(
            arrayFilter(each -> abs(each - at) < {near_ns:Int64}, {moments:Array(Int64)})
        ) AS moment
    FROM gpu_samples
    WHERE toStartOfTenMinutes(ts_ns) IN (
        SELECT toDateTime(arrayJoin({buckets_s:Array(UInt32)}), 'UTC')
      )
      AND ts_ns > fromUnixTimestamp64Nano({first_ns:Int64})
      AND ts_ns <= fromUnixTimestamp64Nano({last_ns:Int64})
      AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {gpus:Array(String)})
      AND gpu_uuid IN {gpus:Array(String)}
      AND energy_joules IS NOT NULL
)
GROUP BY gpu_uuid, moment
HAVING countIf(at <= moment) > 0
"""


def read_energy(
    pool: ClientPool, gpu_uuids: Sequence[str], moments_ns: Sequence[int]
) -> Mapping[tuple[str, int], float]:
    """Return joules by GPU and moment; moments without a sample in the 3 s before are left out.

    Between two samples they grow evenly, so that a stage that is shorter than the time between
    two samples gets its part and no more. Only differences mean something: each driver counts
    from its own beginning. Moments that lie far apart cost what is stored near them, not what
    lies between.
    """
    if not gpu_uuids or not moments_ns:
        return {}
    parameters = {
        "gpus": list(gpu_uuids),
        "moments": sorted(set(moments_ns)),
        "near_ns": NEAR_NS,
        "buckets_s": sorted(
            {
                near_ns // _BUCKET_NS * _BUCKET_S
                for moment_ns in moments_ns
                for near_ns in (moment_ns - NEAR_NS, moment_ns, moment_ns + NEAR_NS)
            }
        ),
        "first_ns": min(moments_ns) - NEAR_NS,
        "last_ns": max(moments_ns) + NEAR_NS,
    }
    found: dict[tuple[str, int], float] = {}
    for uuid, moment, joules, watts, at_ns, next_joules, next_ns in make_rows(
        pool.query(_ENERGY, parameters)
    ):
        since_ns = moment - at_ns
        if next_joules is not None and next_joules >= joules:
            grown = (next_joules - joules) * since_ns / (next_ns - at_ns)
        else:
            grown = (watts or 0.0) * since_ns / _NS_PER_S
        found[uuid, moment] = joules + grown
    return found
