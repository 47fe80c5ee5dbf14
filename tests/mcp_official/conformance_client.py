"""The client program that the official conformance suite runs against its scenarios: one of this package.

The suite gives the server's URL as the last argument, and the scenario and what it needs to know in
the environment. `CONFORMANCE_BACKEND` and `CONFORMANCE_PROTOCOL` say how to run.
"""

import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as t
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.mcp import InMemoryTokenStorage, MCPServerConfig, OAuthConfig
from seqoria_runtime.models.errors import ToolExecutionError
from seqoria_runtime.testing import ScriptedProvider

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
FACTS = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
CLIENT_ID_DOCUMENT = "https://conformance-test.local/client-metadata.json"
REGISTERED = "http://127.0.0.1:3030/callback"


async def browse(url: str) -> None:
    """Log in as a browser does whose user says yes."""
    async with httpx2.AsyncClient() as client:
        response = await client.get(url)
        await client.get(response.headers["location"])


async def login(url: str) -> Any:
    """The login that a scenario needs."""
    storage = InMemoryTokenStorage()
    match SCENARIO.removeprefix("auth/"):
        case "client-credentials-basic":
            return ClientCredentialsOAuthProvider(url, storage, FACTS["client_id"], FACTS["client_secret"])
        case "client-credentials-jwt":
            signed = SignedJWTParameters(
                issuer=FACTS["client_id"],
                subject=FACTS["client_id"],
                signing_key=FACTS["private_key_pem"],
                signing_algorithm=FACTS.get("signing_algorithm", "ES256"),
            )
            return PrivateKeyJWTOAuthProvider(
                url, storage, FACTS["client_id"], signed.create_assertion_provider()
            )
        case "cross-app-access-complete-flow":
            return await identity_assertion(url, storage)
        case "pre-registration":
            await storage.set_client_info(
                OAuthClientInformationFull(
                    client_id=FACTS["client_id"],
                    client_secret=FACTS["client_secret"],
                    redirect_uris=[AnyUrl(REGISTERED)],
                    token_endpoint_auth_method="client_secret_basic",
                )
            )
    return OAuthConfig(
        storage=storage, redirect_handler=browse, client_metadata_url=CLIENT_ID_DOCUMENT, login_timeout=20
    )


async def identity_assertion(url: str, storage: Any) -> Any:
    parts = urlsplit(url)
    async with httpx2.AsyncClient() as client:
        origin = f"{parts.scheme}://{parts.netloc}"
        found = (await client.get(f"{origin}/.well-known/oauth-protected-resource{parts.path}")).json()

    async def assertion(audience: str, resource: str) -> str:
        async with httpx2.AsyncClient() as client:
            response = await client.post(
                FACTS["idp_token_endpoint"],
                data={
                    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                    "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
                    "subject_token": FACTS["idp_id_token"],
                    "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
                    "audience": audience,
                    "resource": resource,
                    "client_id": FACTS["idp_client_id"],
                },
            )
            return str(response.json()["access_token"])

    return IdentityAssertionOAuthProvider(
        url,
        storage,
        FACTS["client_id"],
        FACTS["client_secret"],
        found["authorization_servers"][0],
        assertion,
        token_endpoint_auth_method="client_secret_basic",
    )


async def elicit(context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
    """Accept with the defaults of the form, which are the client's to fill in."""
    fields: dict[str, Any] = getattr(params, "requested_schema", {}).get("properties", {})
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return t.ElicitResult(action="accept", content=content)


async def main(url: str) -> None:
    server = MCPServerConfig(
        url,
        oauth=await login(url) if SCENARIO.startswith("auth/") else None,
        elicitation=elicit,
        protocol=os.environ.get("CONFORMANCE_PROTOCOL", "auto"),
        required=True,
    )
    async with AsyncAIClient([ScriptedProvider([])], mcp_servers=[server], tool_timeout=30) as client:
        for tool in client.list_tools():
            name = tool["function"]["name"]
            try:
                [content] = await client.call_mcp_tool(name, ARGUMENTS.get(name, {}))
                sys.stdout.write(f"{name}: {content.text[:200]}\n")
            except ToolExecutionError as error:
                sys.stdout.write(f"{name} failed: {error}\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1], backend=os.environ.get("CONFORMANCE_BACKEND", "asyncio"))
