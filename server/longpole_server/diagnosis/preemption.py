"""Whether samples may be preempted though nobody says so: then slow samples have another cause."""

from longpole_server.diagnosis.view import View

WORK_LIMIT = "rollout.preemption.work_ratio"
KV_LIMIT = "rollout.preemption.kv_ratio"
NOT_REPORTED = "; nobody reports preemptions, which would slow samples down as well"


def is_preemption_open(view: View) -> bool:
    """Tell whether preempted work may reach its limit, for all that is reported.

    Engines with room in their KV cache, or with a counter that stands still, preempt nothing.
    verl's -1 is not reported.
    """
    engines, inside = view.engines, view.inside
    if engines is not None:
        if engines.kv_max_ratio is not None and engines.kv_max_ratio < view.limits[KV_LIMIT]:
            return False
        if engines.preemptions == 0:
            return False
    return inside is None or inside.leaves_preemption_open(view.limits[WORK_LIMIT])


def is_preemption_unreported(view: View) -> bool:
    """Tell whether it is open because nobody says anything."""
    return "preemptions" not in view.sources and is_preemption_open(view)
