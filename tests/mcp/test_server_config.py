import re
import subprocess
import sys
from typing import Any

import pytest

from seqoria_runtime import AsyncAIClient
from seqoria_runtime.mcp import InMemoryTokenStorage, MCPServerConfig, OAuthConfig
from seqoria_runtime.mcp._config.server_config import configs_of
from seqoria_runtime.models.errors import MissingExtraError
from seqoria_runtime.testing import ScriptedProvider


@pytest.mark.clause("C100")
def test_the_options_have_the_documented_defaults() -> None:
    config = MCPServerConfig("http://host")
    assert (config.url, config.transport, config.headers, config.timeout, config.env, config.oauth) == (
        "http://host",
        "auto",
        None,
        30.0,
        None,
        None,
    )
    assert (config.protocol, config.required, config.call_timeout) == ("auto", False, None)


@pytest.mark.clause("C100")
def test_a_config_is_compared_by_value_and_keeps_its_own_containers() -> None:
    headers = {"X-A": "1"}
    config = MCPServerConfig("http://host", headers=headers)
    assert config == MCPServerConfig("http://host", headers={"X-A": "1"})
    assert config != MCPServerConfig("http://host", headers={"X-A": "2"})
    headers["X-A"] = "2"
    assert config.headers == {"X-A": "1"}


@pytest.mark.clause("C100")
def test_a_command_may_be_given_as_a_list_of_words() -> None:
    config = MCPServerConfig(command="python", args=["server.py", "a b"], env={"A": "1"}, cwd="/tmp")
    assert config.target == MCPServerConfig("stdio://python server.py 'a b'").target
    assert config.name == "python server.py 'a b'"


@pytest.mark.clause("C102")
@pytest.mark.parametrize("url", ["sse://host/sse", "stdio://server"])
def test_oauth_is_refused_where_it_does_not_work(url: str) -> None:
    with pytest.raises(ValueError, match="only for Streamable HTTP"):
        MCPServerConfig(url, oauth=True)
    assert MCPServerConfig("http://host", oauth=True).oauth == OAuthConfig()
    assert MCPServerConfig(url, oauth=False).oauth is None


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({}, ValueError, "needs exactly one of 'url', 'command' and 'server', not none"),
        ({"url": "http://h", "command": "x"}, ValueError, "not 'url' and 'command'"),
        ({"url": 5}, TypeError, "'url' must be a string"),
        ({"url": "http://h", "name": 5}, TypeError, "'name' must be a string"),
        ({"url": "http://h", "timeout": 0}, ValueError, "'timeout'"),
        ({"url": "http://h", "timeout": True}, ValueError, "'timeout'"),
        ({"url": "http://h", "call_timeout": -1}, ValueError, "'call_timeout'"),
        (
            {"url": "http://h", "max_concurrency": 0},
            ValueError,
            "'max_concurrency' must be a positive integer",
        ),
        ({"url": "http://h", "max_concurrency": True}, ValueError, "'max_concurrency' must be a positive"),
        ({"url": "http://h", "headers": {"A": 1}}, TypeError, "'headers' must map strings"),
        ({"url": "http://h", "headers": "A: 1"}, TypeError, "'headers' must be a mapping"),
        ({"url": "http://h", "env": {"A": "1"}}, ValueError, "'env' and 'cwd'"),
        ({"url": "http://h", "cwd": "/tmp"}, ValueError, "'env' and 'cwd'"),
        ({"url": "stdio://x", "headers": {"A": "1"}}, ValueError, "'headers' are for HTTP"),
        ({"url": "stdio://x", "args": ["y"]}, ValueError, "'args' need a 'command'"),
        ({"command": "x", "args": "y z"}, TypeError, "'args' must be a sequence"),
        ({"command": "x", "args": [1]}, TypeError, "'args' must hold strings"),
        ({"command": 1}, TypeError, "'command' must be a string"),
        ({"command": "x", "transport": "http"}, ValueError, "a 'command' uses stdio"),
        ({"command": "x", "cwd": 1}, TypeError, "'cwd' must be a path"),
        ({"command": "x", "cwd": ""}, ValueError, "'cwd' must be a path"),
        ({"command": "x", "args": ["a\0"]}, ValueError, "may not contain null characters"),
        ({"command": "x", "env": {"A=B": "1"}}, ValueError, "names of environment variables, not 'A=B'"),
        ({"command": "x", "env": {"": "1"}}, ValueError, "names of environment variables, not ''"),
        ({"command": "x", "env": {"A": "\0"}}, ValueError, "'env' may not contain null characters; 'A' does"),
        ({"url": "http://h", "headers": {"A b": "1"}}, ValueError, "'headers' must hold names of headers"),
        (
            {"url": "http://h", "headers": {"A": "b\n"}},
            ValueError,
            "'headers' must hold ASCII .* 'A' does not",
        ),
        ({"url": "http://h", "oauth": "yes"}, TypeError, "'oauth' must be"),
        ({"url": "http://h", "protocol": "2020-01-01"}, ValueError, "'protocol' must be one of"),
        ({"url": "http://h", "required": 1}, TypeError, "'required' must be True or False"),
        ({"url": "http://h", "elicitation": 1}, TypeError, "'elicitation' must be an async function"),
        ({"url": "http://h", "max_result_chars": 0}, ValueError, "'max_result_chars'"),
    ],
)
def test_a_bad_option_is_refused_by_name(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        MCPServerConfig(**options)


@pytest.mark.clause("C96")
def test_a_config_shows_no_credentials() -> None:
    config = MCPServerConfig(
        "https://user:secret@host/?token=secret", headers={"Authorization": "Bearer secret"}, oauth=True
    )
    assert "secret" not in repr(config)
    assert "secret" not in repr(MCPServerConfig(command="x", env={"KEY": "secret"}))


def test_servers_may_be_urls_and_configs_and_are_read_once() -> None:
    config = MCPServerConfig("http://b")
    assert configs_of(iter(["http://a", config])) == (MCPServerConfig("http://a"), config)
    assert configs_of("http://a") == (MCPServerConfig("http://a"),)
    assert configs_of(config) == (config,)
    assert configs_of(None) == ()


@pytest.mark.clause("C2")
@pytest.mark.parametrize(
    ("servers", "error", "complaint"),
    [
        (5, TypeError, "'mcp_servers' takes URLs and MCPServerConfig objects, not int"),
        (b"http://a", TypeError, "'mcp_servers' takes URLs and MCPServerConfig objects, not bytes"),
        ({"http://a": 1}, TypeError, "'mcp_servers' takes URLs and MCPServerConfig objects, not dict"),
        (["http://a", 5], TypeError, "'mcp_servers[1]' must be a URL or an MCPServerConfig, not int"),
        ([{"url": "http://a"}], TypeError, "'mcp_servers[0]' must be a URL or an MCPServerConfig, not dict"),
        (["  "], ValueError, "'mcp_servers[0].url' may not be empty"),
        (["http://a", "ftp://b"], ValueError, "'mcp_servers[1].url' must start with http://"),
        (["stdio://'x"], ValueError, "the command line of 'mcp_servers[0].url' cannot be split"),
    ],
)
def test_a_wrong_server_is_refused_by_its_place(servers: Any, error: type[Exception], complaint: str) -> None:
    with pytest.raises(error, match=re.escape(complaint)):
        configs_of(servers)
    with pytest.raises(error, match=re.escape(complaint)):
        AsyncAIClient([ScriptedProvider([])], mcp_servers=servers)


@pytest.mark.clause("C7")
def test_without_the_sdk_a_server_is_refused_with_the_extras_name() -> None:
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from seqoria_runtime import AsyncAIClient\n"
        "from seqoria_runtime.mcp import MCPServerConfig\n"
        "from seqoria_runtime.models.errors import MissingExtraError\n"
        "from seqoria_runtime.testing import ScriptedProvider\n"
        "AsyncAIClient([ScriptedProvider([])], mcp_servers=[])\n"
        "try: AsyncAIClient([ScriptedProvider([])], mcp_servers=[MCPServerConfig('http://host')])\n"
        "except MissingExtraError as error: print(error, error.extra)\n"
        "try: from seqoria_runtime.mcp import connect_mcp\n"
        "except MissingExtraError as error: print(error, error.extra)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False
    )
    said = "MCP servers need an extra: pip install 'seqoria-runtime[mcp]' mcp\n"
    assert done.stdout == said * 2, done.stderr
    assert issubclass(MissingExtraError, ImportError)


def test_scopes_may_be_one_string_or_several() -> None:
    assert OAuthConfig(scopes=["b", "a"]).scopes == OAuthConfig(scopes="a b").scopes == "a b"


@pytest.mark.parametrize(
    ("options", "error", "complaint"),
    [
        ({"client_name": ""}, TypeError, "'client_name'"),
        ({"redirect_uri": None}, TypeError, "'redirect_uri'"),
        ({"storage": object()}, TypeError, "'storage' must have async get_tokens"),
        ({"redirect_handler": "print"}, TypeError, "'redirect_handler'"),
        ({"callback_handler": 5}, TypeError, "'callback_handler'"),
        ({"login_timeout": 0}, ValueError, "'login_timeout'"),
        ({"scopes": [1]}, TypeError, "'scopes'"),
    ],
)
def test_a_bad_login_option_is_refused_by_name(
    options: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        OAuthConfig(**options)


async def test_tokens_are_kept_in_memory_as_they_were_given() -> None:
    storage = InMemoryTokenStorage()
    assert (await storage.get_tokens(), await storage.get_client_info()) == (None, None)
    tokens, client = object(), object()
    await storage.set_tokens(tokens)
    await storage.set_client_info(client)
    assert (await storage.get_tokens(), await storage.get_client_info()) == (tokens, client)
