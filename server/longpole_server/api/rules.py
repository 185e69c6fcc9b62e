"""Routes of rules: what each reads and why it is quiet, and the rules that users make."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from longpole_server.api import alert_documents as documents
from longpole_server.api.responses import JsonResponse
from longpole_server.model.alert import UserRule
from longpole_server.service import Alerts


def create_rules_router(alerts: Alerts) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["alerts"])

    @router.get("/rules", response_model=documents.RulesPage)
    def list_rules() -> Response:
        """All rules with what they saw last."""
        return JsonResponse(documents.RulesPage(alerts.list_rules(), None))

    @router.post("/rules", response_model=UserRule, status_code=201)
    def make_rule(body: dict[str, Any]) -> Response:
        """Make a threshold rule on any metric."""
        return JsonResponse(alerts.save_rule(body), 201)

    @router.post("/rules/preview", response_model=documents.AlertsPage)
    def preview_rule(
        body: dict[str, Any], run: Annotated[str, Query(min_length=1, description="run id")]
    ) -> Response:
        """When a rule would have fired in a stored run, without saving it."""
        found = alerts.replay(run, body)
        return JsonResponse(
            documents.AlertsPage([alert for alert in found if alert.rule.startswith("user.")], None)
        )

    @router.put("/rules/{rule_id}", response_model=UserRule)
    def replace_rule(rule_id: str, body: dict[str, Any]) -> Response:
        """Replace a user's rule."""
        return JsonResponse(alerts.save_rule(body, rule_id))

    @router.delete("/rules/{rule_id}", response_model=documents.DeletedDocument)
    def delete_rule(rule_id: str) -> Response:
        """Delete a user's rule; its open alerts end."""
        alerts.delete_rule(rule_id)
        return JsonResponse(documents.DeletedDocument(rule_id))

    return router
