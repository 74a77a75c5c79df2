"""Sections that choose something by name: built in with options of its own, or code with options that it knows.

Pure. A file writes the options of what is built in as keys of the section (`{name: topk, fraction: 0.1}`), those of
code under `options`; the model holds them all in `options`, with the defaults filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails

from testbed.code import is_code
from testbed.experiment.scalars import Option, check_choice
from testbed.topologies.language import Entry, Problem


class Section(Entry):
    """A part of an experiment. Keys are spelled as the attributes are, but for a unit that the file's value has."""

    model_config = ConfigDict(alias_generator=None, populate_by_name=True)

    one_word: ClassVar[str] = ""
    """The key that a section which is written as one word gives a value to."""

    @classmethod
    def expanded(cls, value: object) -> object:
        """A section that is written as one word is that choice and nothing else."""
        return {cls.one_word: value} if isinstance(value, str) and cls.one_word else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        return {"anyOf": [{"type": "string"}, dict(handler.resolve_ref_schema(schema))]} if cls.one_word else schema


class Options(Section):
    """The options of something that is built in."""


class NoOptions(Options):
    """It has none."""


def refused(key: str, value: object, problem: Problem) -> ValidationError:
    """What makes pydantic tell of a problem at one key."""
    detail = InitErrorDetails(type="value_error", loc=(key,), input=value, ctx={"error": problem})
    return ValidationError.from_exception_data("experiment", [detail])


def together(*problems: ValidationError) -> ValidationError:
    """Several that were found apart, as one."""
    details = [
        InitErrorDetails(type=each["type"], loc=each["loc"], input=each["input"], ctx=each.get("ctx", {}))
        for problem in problems
        for each in problem.errors(include_url=False)
    ]
    return ValidationError.from_exception_data("experiment", details)


class Choice(Section):
    """Base of the sections that choose; each has a field `name` with a default."""

    built_in: ClassVar[Mapping[str, type[Options]]]

    options: dict[str, Option] = Field(
        default_factory=dict, description="Options of code; what is built in has them as keys of the section."
    )

    one_word = "name"

    @classmethod
    def default_name(cls) -> str:
        return str(cls.model_fields["name"].default)

    @classmethod
    def _options_of(cls, given: Mapping[str, object]) -> type[Options] | None:
        """What describes the options; None for code."""
        name = given.get("name", cls.default_name())
        return None if isinstance(name, str) and is_code(name) else cls.built_in.get(str(name), NoOptions)

    @classmethod
    def known_keys(cls, given: Mapping[str, object]) -> list[str]:
        described = cls._options_of(given)
        return [*super().known_keys(given), *(described.model_fields if described else ())]

    @model_validator(mode="wrap")
    @classmethod
    def _resolve(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        value = cls.expanded(value)
        if not isinstance(value, Mapping):
            return handler(value)
        given = dict(value)
        described = cls._options_of(given)
        if isinstance(name := given.get("name"), str):
            try:
                check_choice(name, cls.built_in)
            except Problem as problem:  # its keys mean nothing
                raise refused("name", name, problem) from None
        if described is None:
            return handler(given)
        own = {key: given.pop(key) for key in list(given) if key not in cls.model_fields}
        inside = given.pop("options", {})
        problems = []
        try:
            told = described.model_validate({**own, **(inside if isinstance(inside, Mapping) else {})})
            given["options"] = told.model_dump()
        except ValidationError as problem:
            problems.append(problem)
        if not problems:
            return handler(given)
        try:
            handler(given)
        except ValidationError as problem:
            problems.insert(0, problem)
        raise together(*problems)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The section's own keys, and those of all that is built in; which belong together is for the reader to say."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = schema["anyOf"][1]["properties"]
        for described in cls.built_in.values():
            for key, of_key in described.model_json_schema()["properties"].items() if described.model_fields else ():
                known = properties.setdefault(key, of_key)
                if known != of_key:
                    parts = known.get("anyOf", [known])
                    properties[key] = {"anyOf": parts if of_key in parts else [*parts, of_key]}
        return schema
