"""Pages for anybody load nothing from elsewhere."""

import re

from steelyard.api.routes import routes
from tests.platform_api.memory_platform import MemoryPlatform, make_platform, model


async def test_health_and_figures_are_outside_v0(platform: MemoryPlatform) -> None:
    await platform.created("models", **model())
    async with platform.client(None) as client:
        assert (await client.get("http://api/health")).json() == {"status": "ok"}
        figures = (await client.get("http://api/metrics")).text
    assert 'steelyard_api_requests_total{method="POST",route="/v0/models",status="200"} 1.0' in figures
    assert 'steelyard_api_request_seconds_count{method="POST",route="/v0/models"} 1.0' in figures


async def test_an_api_whose_tasks_have_ended_is_not_healthy() -> None:
    async with make_platform() as platform:
        app = platform.app
    async with platform.client(None) as client:
        assert (await client.get("http://api/health")).status_code == 503
    assert not app.api.healthy


async def test_the_document_lists_every_route(platform: MemoryPlatform) -> None:
    async with platform.client(None) as client:
        document = (await client.get("/openapi.json")).json()
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listed == {
        (route.method, route.path.replace(":path}", "}")) for route in routes() if route.method != "WEBSOCKET"
    }
    create = document["paths"]["/v0/evaluations"]["post"]
    body = create["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/EvaluationCreateRequest"}
    answer = create["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer == {"$ref": "#/components/schemas/Evaluation"}
    assert create["security"] == [{"token": []}]
    assert create["responses"]["422"]["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
    names = [parameter["name"] for parameter in document["paths"]["/v0/reports"]["get"]["parameters"]]
    assert {"rubric", "evaluation", "query", "labels", "orderBy", "after"} <= set(names)
    operations = [
        operation["operationId"] for path in document["paths"].values() for operation in path.values()
    ]
    assert len(operations) == len(set(operations))


async def test_a_browser_gets_an_explanation_of_what_this_is(platform: MemoryPlatform) -> None:
    async with platform.client(None) as client:
        for path in ("/", "/docs"):
            page = await client.get(f"http://api{path}")
            assert page.headers["content-type"].startswith("text/html")
            assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page.text)
            links = re.findall(r'href="([^"]+)"', page.text)
            assert {"v0/docs", "v0/openapi.json"} <= set(links)
            for link in links:
                assert (await client.get(f"http://api/{link}")).status_code == 200


async def test_the_page_is_self_contained(platform: MemoryPlatform) -> None:
    async with platform.client(None) as client:
        page = await client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert not re.search(r"<script|<link|src=|@import|url\(|https?://", page.text)
    assert "/v0/audits/{id}/downlinks" in page.text
