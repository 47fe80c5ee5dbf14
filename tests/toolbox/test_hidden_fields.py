"""Hidden parameters: in no schema, never from the model, and filled wherever they occur."""

import dataclasses
import json
import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Generic, Literal, NotRequired, Optional, Protocol, TypeVar, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    RootModel,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType, TypedDict

from seqoria_runtime._base.tools import HiddenParameter, Tool, ToolFailure
from seqoria_runtime.toolbox import HIDDEN, LocalToolbox

FORGED = "forged-by-the-model"
SECRET = "blocked-" + str(731)


def tool_of(function: Callable[..., Any], *server_populated: str) -> Tool:
    tools = LocalToolbox()
    tools.add(function, server_populated=server_populated)
    (tool,) = tools.tools
    return tool


def run(tool: Tool, arguments: Mapping[str, Any], override: bool = False, **hidden: Any) -> Any:
    prepared = tool.validate(arguments, allow_override=override)
    return tool.call(tool.complete(prepared, hidden))


def failure(attempt: Callable[[], Any]) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        attempt()
    return caught.value


def wanted(tool: Tool, arguments: Mapping[str, Any]) -> list[tuple[str, bool]]:
    return [(item.name, item.required) for item in tool.missing(tool.validate(arguments))]


class Account(BaseModel):
    user_id: str
    amount: int = 0


class MarkedAccount(BaseModel):
    user_id: Annotated[str, HIDDEN]
    amount: int = 0


@dataclasses.dataclass
class Entry:
    amount: int
    user_id: str


class Row(TypedDict):
    amount: int
    user_id: str


class Other(BaseModel):
    text: str


class Tree(BaseModel):
    user_id: str
    children: list["Tree"] = []


@pytest.mark.clause("C70", "C74")
@pytest.mark.case("D2")
@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[str, HIDDEN],
        Annotated[str, "text", HIDDEN],
        Annotated[Optional[str], HIDDEN],  # noqa: UP045
        Optional[Annotated[str, HIDDEN]],  # noqa: UP045
        Annotated[str, HIDDEN] | None,
        Union[int, Annotated[str, HIDDEN]],  # noqa: UP007
        "Annotated[str, HIDDEN]",
    ],
    ids=str,
)
@pytest.mark.parametrize("optional", [False, True])
def test_a_marked_parameter_is_in_no_schema_and_takes_the_servers_value_only(
    annotation: Any, optional: bool
) -> None:
    def pay(amount, user_id="default"):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return amount, user_id

    def pay_always(amount, user_id):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        return amount, user_id

    function = pay if optional else pay_always
    function.__annotations__.update(amount=int, user_id=annotation)
    tool = tool_of(function)
    assert list(tool.parameters["properties"]) == tool.parameters["required"] == ["amount"]
    assert tool.hidden == (HiddenParameter("user_id", required=not optional),)
    assert run(tool, {"amount": 5}, user_id="u1") == (5, "u1")
    assert run(tool, {"amount": 5, "user_id": FORGED}, user_id="u1") == (5, "u1")
    if optional:
        assert run(tool, {"amount": 5, "user_id": FORGED}) == (5, "default")
    else:
        assert failure(lambda: run(tool, {"amount": 5, "user_id": FORGED})).kind == "missing_parameter"


@pytest.mark.clause("C70")
@pytest.mark.parametrize("nested", [list[Annotated[str, HIDDEN]], dict[str, Annotated[str, HIDDEN]]])
def test_a_marker_at_a_part_of_a_type_is_refused_rather_than_overlooked(nested: Any) -> None:
    def pay(users: Any) -> None: ...

    pay.__annotations__["users"] = nested
    with pytest.raises(TypeError, match="Tool 'pay': HIDDEN hides a whole parameter or field"):
        tool_of(pay)


def use_everything(
    one: Account,
    several: list[Account],
    named: dict[str, Entry],
    maybe: Account | None,
    row: Row,
    either: Account | Other,
    tree: Tree,
    pair: tuple[int, Entry],
    user_id: str,
) -> Any:
    return one, several, named, maybe, row, either, tree, pair, user_id


@pytest.mark.clause("C70", "C74")
@pytest.mark.case("D2")
def test_a_name_hides_the_parameter_and_every_field_of_that_name_at_any_depth() -> None:
    tool = tool_of(use_everything, "user_id")
    assert "user_id" not in json.dumps(tool.parameters)
    assert tool.parameters["$defs"].keys() == {"Account", "Entry", "Row", "Other", "Tree"}
    account, entry = {"amount": 1, "user_id": FORGED}, {"amount": 2, "user_id": FORGED}
    arguments = {
        "one": account, "several": [account, {}], "named": {"k": entry}, "maybe": None, "row": entry,
        "either": account, "tree": {"children": [{"user_id": FORGED, "children": [{}]}]}, "pair": [1, entry],
        "user_id": FORGED,
    }  # fmt: skip
    request = json.loads(json.dumps(arguments))
    expected = Account(user_id="u1", amount=1), Entry(2, "u1")
    assert run(tool, request, user_id="u1") == (
        expected[0],
        [expected[0], Account(user_id="u1")],
        {"k": expected[1]},
        None,
        {"amount": 2, "user_id": "u1"},
        expected[0],
        Tree(user_id="u1", children=[Tree(user_id="u1", children=[Tree(user_id="u1")])]),
        (1, expected[1]),
        "u1",
    )
    assert request == arguments


@pytest.mark.clause("C70")
def test_a_marker_on_a_field_equals_naming_it() -> None:
    def pay(account: MarkedAccount, user_id: str) -> Any:
        return account, user_id

    marked, named = tool_of(pay), tool_of(pay, "user_id")
    assert marked.parameters == named.parameters
    assert marked.hidden == named.hidden
    assert run(marked, {"account": {"user_id": FORGED}}, user_id="u1") == (MarkedAccount(user_id="u1"), "u1")


@pytest.mark.clause("C70")
def test_a_definition_that_only_a_hidden_parameter_uses_is_in_no_schema() -> None:
    def pay(amount: int, account: Account, tree: Tree) -> None: ...

    assert "$defs" not in tool_of(pay, "account", "tree").parameters


@pytest.mark.clause("C70")
def test_what_a_hidden_parameter_is_made_of_is_the_servers_business() -> None:
    def pay(amount: int, account: Account) -> Any:
        return account

    with pytest.raises(ValueError, match="Unknown server-populated parameters: user_id"):
        tool_of(pay, "account", "user_id")

    def pay_marked(user_id: str, account: Annotated[MarkedAccount, HIDDEN]) -> None: ...

    assert tool_of(pay_marked).hidden == (HiddenParameter("account", True),)
    assert list(tool_of(pay_marked).parameters["properties"]) == ["user_id"]
    account = Account(user_id="u1")
    assert run(tool_of(pay, "account"), {"amount": 1}, account=account) is account


class Documented(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"user_id": "u7", "amount": 3}]})
    user_id: str = Field(alias="userId", description="Who pays")
    amount: int


def pay_by_hand(
    order: Annotated[
        Account,
        WithJsonSchema({
            "type": "object",
            "properties": {"user_id": {"type": "string"}, "amount": {"type": "integer"}},
            "required": ["user_id"],
        }),
    ],
    documented: list[Documented],
    fallback: Account = Account(user_id="system", amount=9),  # noqa: B008
) -> Any:
    return order, documented, fallback


@pytest.mark.clause("C70")
@pytest.mark.case("D2")
def test_schemas_examples_and_defaults_written_by_hand_lose_hidden_fields_too() -> None:
    tool = tool_of(pay_by_hand, "user_id")
    told = json.dumps(tool.parameters)
    assert "user_id" not in told
    assert "userId" not in told
    assert tool.parameters["properties"]["order"] == {
        "type": "object", "properties": {"amount": {"type": "integer"}},
    }  # fmt: skip
    assert tool.parameters["properties"]["fallback"]["default"] == {"amount": 9}
    assert tool.parameters["$defs"]["Documented"]["examples"] == [{"amount": 3}]
    assert run(tool, {"order": {}, "documented": [{"amount": 1}]}, user_id="u1") == (
        Account(user_id="u1"),
        [Documented(userId="u1", amount=1)],
        Account(user_id="system", amount=9),
    )


class Words(BaseModel):
    """Fields with the names of JSON schema keywords."""

    properties: dict[str, int]
    required: bool = True
    default: str = "title"
    title: str = ""


def test_hidden_names_that_are_words_of_json_schema_take_nothing_else_away() -> None:
    def use(words: Words) -> Any:
        return words

    schema = tool_of(use, "title", "required").parameters["$defs"]["Words"]
    assert schema == {
        "type": "object",
        "title": "Words",
        "description": "Fields with the names of JSON schema keywords.",
        "properties": {
            "properties": {
                "type": "object", "title": "Properties", "additionalProperties": {"type": "integer"},
            },
            "default": {"type": "string", "title": "Default", "default": "title"},
        },
        "required": ["properties"],
    }  # fmt: skip


@pytest.mark.clause("C74")
@pytest.mark.case("D2")
def test_a_dropped_value_is_logged_by_name_once_and_never_by_value(caplog: pytest.LogCaptureFixture) -> None:
    def pay(account: Account, token: str = "") -> Any:
        return account, token

    tool = tool_of(pay, "user_id", "token")
    with caplog.at_level(logging.DEBUG):
        run(tool, {"account": {"user_id": FORGED}, "token": FORGED}, user_id="u1")
    assert [record.getMessage() for record in caplog.records] == [
        "Dropped the model's value for the hidden parameter 'token' of tool 'pay'",
        "Dropped the model's value for the hidden parameter 'user_id' of tool 'pay'",
    ]
    assert FORGED not in caplog.text


@pytest.mark.clause("C62", "C74")
@pytest.mark.case("D2")
@pytest.mark.parametrize("name", ["USER_ID", "userId", "user-id", "User_Id"])
@pytest.mark.parametrize("override", [False, True])
def test_a_variant_of_a_hidden_name_is_an_argument_too_many(name: str, override: bool) -> None:
    def pay(amount: int, user_id: str) -> None: ...

    refused = failure(
        lambda: tool_of(pay, "user_id").validate({"amount": 5, name: FORGED}, allow_override=override)
    )
    assert refused.kind == "invalid_arguments"
    assert f"{name}\n  Extra inputs are not permitted" in str(refused)


class Strictly(BaseModel):
    model_config = ConfigDict(extra="forbid")
    user_id: str = Field(alias="userId")
    amount: int = 0


class Choosy(BaseModel):
    model_config = ConfigDict(extra="forbid")
    user_id: str = Field(validation_alias=AliasChoices("userId", "uid", AliasPath("user", "id")))


class Openly(BaseModel):
    model_config = ConfigDict(extra="allow")
    user_id: str = Field(alias="userId")


@pytest.mark.clause("C74")
def test_no_alias_leads_around_the_server_and_no_extra_field_covers_its_value() -> None:
    def pay(
        strict: Strictly, loose: Openly, choosy: Choosy, user_id: Annotated[str, Field(alias="userId")]
    ) -> Any:
        return strict, loose, choosy, user_id

    tool = tool_of(pay, "user_id")
    forged = {"userId": FORGED, "user_id": FORGED}
    arguments = {"strict": forged, "loose": forged, "choosy": {"uid": FORGED, **forged}, **forged}
    strict, loose, choosy, user_id = run(tool, arguments, user_id="u1")
    assert user_id == choosy.user_id == "u1"
    assert strict.model_dump() == {"user_id": "u1", "amount": 0}
    assert loose.model_dump() == {"user_id": "u1"}


@pytest.mark.clause("C74")
def test_with_override_the_models_values_stand_where_it_sent_them_and_are_checked() -> None:
    def pay(accounts: list[Account], level: int, user_id: str = "nobody") -> Any:
        return [account.user_id for account in accounts], level, user_id

    tool = tool_of(pay, "user_id", "level")
    arguments = {"accounts": [{"user_id": "m1"}, {}], "level": "3", "user_id": "m2"}
    assert run(tool, arguments, True, user_id="u1", level=9) == (["m1", "u1"], 3, "m2")
    assert run(tool, {"accounts": []}, True, user_id="u1", level=9) == ([], 9, "u1")
    assert run(tool, {"accounts": [], "level": "3"}, True, user_id="u1") == ([], 3, "u1")
    assert run(tool, {"accounts": [], "user_id": "m2"}, True, level=9) == ([], 9, "m2")
    assert tool.missing(tool.validate(arguments, allow_override=True)) == (HiddenParameter("user_id", True),)
    for wrong in ({"accounts": [], "level": "high"}, {"accounts": [{"user_id": 3}], "level": 1}):
        refused = failure(lambda wrong=wrong: tool.validate(wrong, allow_override=True))  # type: ignore[misc]
        assert refused.kind == "invalid_arguments"
        assert "valid" in str(refused)


@pytest.mark.clause("C73", "C74")
def test_an_alias_names_the_overridden_parameter_too() -> None:
    def pay(user_id: Annotated[str, Field(alias="userId")]) -> str:
        return user_id

    assert run(tool_of(pay, "user_id"), {"userId": "m1"}, True, user_id="u1") == "m1"


@pytest.mark.clause("C73")
def test_only_those_hidden_values_are_missing_that_the_call_needs() -> None:
    def pay(accounts: list[Account], tree: Tree | None = None, level: int = 3) -> Any:
        return accounts, tree, level

    tool = tool_of(pay, "user_id", "level")
    assert tool.hidden == (HiddenParameter("level", False), HiddenParameter("user_id", True))
    assert wanted(tool, {"accounts": []}) == [("level", False)]
    assert run(tool, {"accounts": []}) == ([], None, 3)
    assert wanted(tool, {"accounts": [{}]}) == [("level", False), ("user_id", True)]
    missing = failure(lambda: run(tool, {"accounts": [{}]}, level=1))
    assert missing.kind == "missing_parameter"
    assert str(missing) == ("Tool 'pay' failed: Missing server-populated parameters for tool 'pay': user_id")


@pytest.mark.clause("C73")
def test_a_name_is_required_if_it_is_anywhere() -> None:
    def pay(account: Account, user_id: str = "nobody") -> Any:
        return account.user_id, user_id

    tool = tool_of(pay, "user_id")
    assert tool.hidden == (HiddenParameter("user_id", True),)
    assert wanted(tool, {"account": {}}) == [("user_id", True)]


class Defaults(BaseModel):
    user_id: str = "nobody"
    tags: Annotated[list[str], HIDDEN] = Field(default_factory=lambda: ["none"])


class Sparse(TypedDict):
    amount: int
    user_id: NotRequired[str]


def test_without_a_value_a_field_keeps_its_default_or_is_absent() -> None:
    def use(defaults: Defaults, sparse: Sparse) -> Any:
        return defaults, sparse

    tool = tool_of(use, "user_id")
    arguments = {"defaults": {"user_id": FORGED}, "sparse": {"amount": 1, "user_id": FORGED}}
    assert dict(wanted(tool, arguments)) == {"user_id": False, "tags": False}
    assert run(tool, arguments) == (Defaults(user_id="nobody", tags=["none"]), {"amount": 1})
    assert run(tool, arguments, user_id="u1", tags=["t"]) == (
        Defaults(user_id="u1", tags=["t"]),
        {"amount": 1, "user_id": "u1"},
    )


def test_a_filled_field_counts_as_set_and_a_default_does_not() -> None:
    def use(defaults: Defaults) -> Any:
        return defaults.model_dump(exclude_unset=True)

    assert run(tool_of(use, "user_id"), {"defaults": {}}, user_id="u1") == {"user_id": "u1"}


@pytest.mark.clause("C72")
def test_none_is_a_value() -> None:
    def use(user_id: str | None, account: Defaults) -> Any:
        return user_id

    tool = tool_of(use, "user_id")
    assert failure(lambda: run(tool, {"account": {}}, user_id=None)).kind == "missing_parameter"

    def just(user_id: str | None = "default") -> Any:
        return user_id

    assert run(tool_of(just, "user_id"), {}, user_id=None) is None


class Handle:
    """Something that can be neither copied nor compared."""

    def __reduce__(self) -> Any:
        raise TypeError("a handle cannot be copied")

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a handle cannot be copied")

    def read(self) -> str:
        return "read"


class Readable(Protocol):
    def read(self) -> str: ...


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    handle: Handle
    amount: int = 0


@pytest.mark.clause("C70", "C72")
@pytest.mark.case("D2")
@pytest.mark.parametrize(
    ("annotation", "make"),
    [
        (Handle, Handle),
        (Handle | None, Handle),
        (Any, Handle),
        (object, Handle),
        (Readable, Handle),
        (Readable | None, Handle),
        (Account, lambda: Account(user_id="u")),
        (Entry, lambda: Entry(1, "u")),
        (Callable[[], str], lambda: Handle().read),
        (Iterator[int], lambda: iter([1])),
        (type[Handle], lambda: Handle),
    ],
    ids=[f"annotation {number}" for number in range(11)],
)
def test_an_instance_of_the_declared_type_arrives_as_the_same_object(
    annotation: Any, make: Callable[[], Any]
) -> None:
    def use(amount: int, handle: Any) -> Any:
        return handle

    use.__annotations__["handle"] = annotation
    value = make()
    assert run(tool_of(use, "handle"), {"amount": 1}, handle=value) is value


def test_an_object_arrives_inside_of_a_model_as_the_same_object() -> None:
    def use(holders: list[Holder]) -> Any:
        return [holder.handle for holder in holders]

    handle = Handle()
    first, second = run(tool_of(use, "handle"), {"holders": [{}, {"amount": 2}]}, handle=handle)
    assert first is second is handle


@pytest.mark.clause("C73")
@pytest.mark.case("D2")
def test_an_invalid_value_is_reported_by_name_and_kind_and_never_shown() -> None:
    def pay(account: Account, level: Annotated[int, Field(le=3)], handle: Handle | None = None) -> None: ...

    tool = tool_of(pay, "user_id", "level", "handle")
    fitting: dict[str, Any] = {"user_id": "u1", "level": "2", "handle": None}
    for name, value, reason in [
        ("user_id", 731, "string_type"),
        ("level", "s3cret", "int_parsing"),
        ("level", 731, "less_than_equal"),
        ("handle", "s3cret", "is_instance_of"),
    ]:
        hidden = {**fitting, name: value}
        refused = failure(lambda hidden=hidden: run(tool, {"account": {}}, **hidden))  # type: ignore[misc]
        assert refused.kind == "missing_parameter"
        assert str(refused) == (
            f"Tool 'pay' failed: Server-populated parameter '{name}' is not valid ({reason})"
        )
        told = "".join(traceback.format_exception(refused))
        assert "s3cret" not in told
        assert "731" not in told


class Guarded(BaseModel):
    amount: int
    user_id: str
    note: str = ""

    @field_validator("note")
    @classmethod
    def _mentions_user(cls, note: str, info: ValidationInfo) -> str:
        return note.replace("$", info.data["user_id"])

    @model_validator(mode="after")
    def _may_pay(self) -> "Guarded":
        if self.user_id.startswith("blocked"):
            raise ValueError(f"{self.user_id} may not pay")
        return self


class Prepared(BaseModel):
    user_id: str
    seen: str = ""

    @model_validator(mode="before")
    @classmethod
    def _look(cls, data: Any) -> Any:
        return {**data, "seen": f"before {data['user_id']}"}


class Wrapped(BaseModel):
    user_id: str
    seen: str = ""

    @model_validator(mode="wrap")
    @classmethod
    def _look(cls, data: Any, handler: Any) -> Any:
        return handler({**data, "seen": f"wrap {data['user_id']}", "user_id": FORGED})


@pytest.mark.clause("C70", "C73", "C74")
def test_the_applications_validators_see_the_servers_value_and_bring_in_no_other() -> None:
    def pay(guarded: Guarded, prepared: Prepared, wrapped: Wrapped) -> Any:
        return guarded, prepared, wrapped

    tool = tool_of(pay, "user_id")
    forged = {"user_id": FORGED}
    arguments = {"guarded": {"amount": 1, "note": "by $", **forged}, "prepared": forged, "wrapped": forged}
    guarded, prepared, wrapped = run(tool, arguments, user_id="u1")
    assert guarded == Guarded(amount=1, user_id="u1", note="by u1")
    assert (prepared.user_id, prepared.seen) == ("u1", "before u1")
    assert (wrapped.user_id, wrapped.seen) == ("u1", "wrap u1")
    refused = failure(lambda: run(tool, arguments, user_id=SECRET))
    assert refused.kind == "invalid_arguments"
    assert str(refused) == (
        "Tool 'pay' failed: its arguments are not valid together with its server-populated parameters: "
        "guarded (value_error)"
    )
    assert SECRET not in "".join(traceback.format_exception(refused))


@pytest.mark.clause("C74")
def test_the_applications_validators_see_the_models_value_where_it_may_override(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def pay(prepared: Prepared) -> Any:
        return prepared.user_id, prepared.seen

    tool = tool_of(pay, "user_id")
    assert run(tool, {"prepared": {"user_id": "m1"}}, True, user_id="u1") == ("m1", "before m1")
    assert run(tool, {"prepared": {}}, True, user_id="u1") == ("u1", "before u1")
    assert run(tool, {"prepared": {}}, user_id="u1") == ("u1", "before u1")
    assert caplog.records == []


@pytest.mark.clause("C55", "C62")
def test_public_arguments_are_checked_completely_before_any_hidden_value_is_there() -> None:
    def pay(guarded: Guarded, accounts: list[Account | Other], count: int) -> None: ...

    tool = tool_of(pay, "user_id")
    refused = failure(
        lambda: tool.validate({
            "guarded": {"amount": "x", "user_id": FORGED}, "accounts": [{"text": "t"}, {"amount": "y"}],
        })
    )  # fmt: skip
    assert refused.kind == "invalid_arguments"
    assert str(refused) == (
        "Tool 'pay' failed: 4 validation errors for payArguments\n"
        "guarded.amount\n"
        "  Input should be a valid integer, unable to parse string as an integer [type=int_parsing]\n"
        "accounts.1.Account.amount\n"
        "  Input should be a valid integer, unable to parse string as an integer [type=int_parsing]\n"
        "accounts.1.Other.text\n  Field required [type=missing]\n"
        "count\n  Field required [type=missing]"
    )


def test_a_validator_that_crashes_over_hidden_values_is_that_calls_error_without_its_text() -> None:
    def lose(account: Account) -> Account:
        raise KeyError(account.user_id)

    def pay(account: Annotated[Account, AfterValidator(lose)]) -> None: ...

    refused = failure(lambda: run(tool_of(pay, "user_id"), {"account": {}}, user_id=SECRET))
    assert str(refused) == "Tool 'pay' failed: a validator of its arguments raised KeyError"
    assert SECRET not in "".join(traceback.format_exception(refused))


def parse(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def test_an_input_that_a_validator_turns_into_a_struct_is_filled_as_well() -> None:
    def pay(account: Annotated[Account, BeforeValidator(parse)]) -> Any:
        return account

    tool = tool_of(pay, "user_id")
    assert run(tool, {"account": json.dumps({"amount": 3, "user_id": FORGED})}, user_id="u1") == Account(
        user_id="u1", amount=3
    )


class Card(BaseModel):
    kind: Literal["card"]
    user_id: str


class Cash(BaseModel):
    kind: Literal["cash"]


def test_in_a_union_the_choice_is_made_by_what_the_model_sent() -> None:
    def plain(it: Account | Other | int | None = None) -> Any:
        return it

    def tagged(it: Annotated[Card | Cash, Field(discriminator="kind")]) -> Any:
        return it

    tool = tool_of(plain, "user_id")
    assert run(tool, {"it": {"text": "t"}}, user_id="u1") == Other(text="t")
    assert run(tool, {"it": {"text": "t"}}) == Other(text="t")
    assert wanted(tool, {"it": {"text": "t"}}) == [("user_id", False)]
    assert run(tool, {"it": {"amount": 2, "user_id": FORGED}}, user_id="u1") == Account(
        user_id="u1", amount=2
    )
    assert wanted(tool, {"it": {"amount": 2}}) == [("user_id", True)]
    assert run(tool, {"it": 7}) == 7
    assert run(tool, {"it": None}) is None
    assert wanted(tool, {"it": 7}) == []
    assert failure(lambda: run(tool, {"it": {}})).kind == "missing_parameter"
    tool = tool_of(tagged, "user_id")
    assert run(tool, {"it": {"kind": "cash"}}) == Cash(kind="cash")
    assert run(tool, {"it": {"kind": "card", "user_id": FORGED}}, user_id="u1") == Card(
        kind="card", user_id="u1"
    )


class Basket(BaseModel):
    account: Account | Other
    count: int


def test_a_choice_that_fails_for_another_reason_waits_for_nothing() -> None:
    def use(it: Basket | Other) -> Any:
        return it

    tool = tool_of(use, "user_id")
    assert wanted(tool, {"it": {"account": {}, "count": 1}}) == [("user_id", True)]
    assert wanted(tool, {"it": {"account": {}, "count": "x", "text": "t"}}) == []
    assert failure(lambda: tool.validate({"it": {"account": {}, "count": "x"}})).kind == "invalid_arguments"


Marked = TypeAliasType("Marked", Annotated[str, HIDDEN])
Item = TypeVar("Item")


class TwoMarked(BaseModel):
    first: Marked
    second: Marked
    amount: int = 0


class Page(BaseModel, Generic[Item]):
    items: list[Item]


class Accounts(RootModel[list[Account]]):
    pass


@pydantic_dataclass
class Booking:
    user_id: str
    amount: int = 0


@pytest.mark.clause("C70")
def test_a_marker_in_an_alias_of_types_hides_wherever_the_alias_stands() -> None:
    def use(token: Marked, amount: int, pair: TwoMarked) -> Any:
        return token, amount, pair

    tool = tool_of(use)
    assert list(tool.parameters["properties"]) == ["amount", "pair"]
    assert list(tool.parameters["$defs"]) == ["TwoMarked"]
    assert list(tool.parameters["$defs"]["TwoMarked"]["properties"]) == ["amount"]
    arguments = {"amount": 1, "token": FORGED, "pair": {"first": FORGED}}
    result = run(tool, arguments, token="t", first="f", second="s")
    assert result == ("t", 1, TwoMarked(first="f", second="s"))


@pytest.mark.clause("C70", "C74")
def test_hidden_fields_are_found_in_every_kind_of_model() -> None:
    def use(page: Page[Account], accounts: Accounts, booking: Booking, text: Json[Account]) -> Any:
        return page, accounts, booking, text

    tool = tool_of(use, "user_id")
    assert "user_id" not in json.dumps(tool.parameters)
    forged = {"user_id": FORGED}
    arguments = {
        "page": {"items": [forged]},
        "accounts": [forged],
        "booking": forged,
        "text": json.dumps(forged),
    }
    account = Account(user_id="u1")
    assert run(tool, arguments, user_id="u1") == (
        Page[Account](items=[account]), Accounts([account]), Booking("u1"), account,
    )  # fmt: skip


class Chain(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    handle: Handle | None = None
    next: "Chain | None" = None


def test_a_hidden_parameter_may_have_a_type_that_json_schema_does_not_know() -> None:
    def use(amount: int, tree: Tree, chain: Chain) -> Any:
        return chain

    tool = tool_of(use, "chain", "user_id")
    assert list(tool.parameters["$defs"]) == ["Tree"]
    chain = Chain(next=Chain(handle=Handle()))
    assert run(tool, {"amount": 1, "tree": {}}, chain=chain, user_id="u1") is chain


class Linked(BaseModel):
    chain: Chain
    amount: int = 0


def test_a_hidden_field_may_have_a_type_that_json_schema_does_not_know() -> None:
    def use(linked: Linked) -> Any:
        return linked.chain

    chain = Chain(next=Chain(handle=Handle()))
    assert run(tool_of(use, "chain"), {"linked": {"chain": {}}}, chain=chain) is chain


def test_the_class_of_a_model_is_the_same_with_and_without_a_toolbox() -> None:
    before = MarkedAccount.model_json_schema()

    def pay(account: MarkedAccount) -> Any:
        return account

    account = run(tool_of(pay), {"account": {}}, user_id="u1")
    assert type(account) is MarkedAccount
    assert MarkedAccount.model_json_schema() == before
    assert MarkedAccount.model_validate({"user_id": "x"}).model_dump_json() == '{"user_id":"x","amount":0}'
    assert Account.model_validate({"user_id": "x", "amount": 1}).user_id == "x"


STRUCTS: list[Any] = [Account, MarkedAccount, Entry, Row, Tree, Strictly, Openly, Prepared, Wrapped]
FIELDS: dict[Any, dict[str, Any]] = {Entry: {"amount": 1}, Row: {"amount": 1}}


@st.composite
def types_with_values(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A type with hidden fields somewhere, and a value for it that tries to forge them all."""
    if depth == 0 or draw(st.booleans()):
        struct = draw(st.sampled_from(STRUCTS))
        aliases = ["user_id", "userId"] if struct in (Strictly, Openly) else ["user_id"]
        forged = draw(st.dictionaries(st.sampled_from(aliases), st.just(FORGED)))
        return struct, FIELDS.get(struct, {}) | forged
    inner, value = draw(types_with_values(depth - 1))
    shapes: dict[str, tuple[Any, Any]] = {
        "list": (list.__class_getitem__(inner), [value] * draw(st.integers(0, 2))),
        "dict": (dict.__class_getitem__((str, inner)), {"key": value}),
        "tuple": (tuple.__class_getitem__((int, inner)), [1, value]),
        "optional": (Optional.__getitem__(inner), value),
        "union": (Union.__getitem__((inner, bytes)), value),
    }
    return shapes[draw(st.sampled_from(list(shapes)))]


def names_in(value: Any) -> Iterator[Any]:
    """Yield every `user_id` in a value of the tool."""
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.__pydantic_extra__ or {})}
    elif dataclasses.is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        for key, item in value.items():
            if key in {"user_id", "userId"}:
                yield item
            yield from names_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from names_in(item)


@pytest.mark.clause("C70", "C74")
@pytest.mark.case("D2")
@given(types_with_values())
def test_whatever_the_types_are_the_tool_gets_the_servers_value_and_no_other(
    type_and_value: tuple[Any, Any],
) -> None:
    annotation, value = type_and_value

    def use(it: Any) -> Any:
        return it

    use.__annotations__["it"] = annotation
    tool = tool_of(use, "user_id")
    told = json.dumps(tool.parameters)
    assert "user_id" not in told
    assert "userId" not in told
    result = run(tool, {"it": value}, user_id="u1")
    names = list(names_in(result))
    assert set(names) <= {"u1"}
    assert FORGED not in repr(result)
    assert bool(names) == (("user_id", True) in wanted(tool, {"it": value}))
