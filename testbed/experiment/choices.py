"""Sections that choose something by name: built in, with known options, or own code, with options of its own.

Pure. In a file, built-in options are keys of the section (`{name: topk, fraction: 0.1}`), and those of own code are
under `options`. The model holds both in `options`, with defaults filled in.
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
    """A part of an experiment. Keys are the attributes' names, without units, which values in files have."""

    model_config = ConfigDict(alias_generator=None, populate_by_name=True)

    one_word: ClassVar[str] = ""
    """The key that gets the value of a section written as one word."""

    @classmethod
    def expanded(cls, value: object) -> object:
        """Expands a section written as one word."""
        return {cls.one_word: value} if isinstance(value, str) and cls.one_word else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        return {"anyOf": [{"type": "string"}, dict(handler.resolve_ref_schema(schema))]} if cls.one_word else schema


class Options(Section):
    """The options of a built-in choice."""


class NoOptions(Options):
    """For a built-in choice without options."""


def refused(key: str, value: object, problem: Problem) -> ValidationError:
    """The error with which pydantic reports a problem at one key."""
    detail = InitErrorDetails(type="value_error", loc=(key,), input=value, ctx={"error": problem})
    return ValidationError.from_exception_data("experiment", [detail])


def together(*problems: ValidationError) -> ValidationError:
    """Combines several errors into one."""
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
        """The class that validates the options; None for own code."""
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
            except Problem as problem:  # its other keys have no meaning
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
        """The schema of the section's keys and all built-in options, without which options belong to which choice."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = schema["anyOf"][1]["properties"]
        for described in cls.built_in.values():
            for key, of_key in described.model_json_schema()["properties"].items() if described.model_fields else ():
                known = properties.setdefault(key, of_key)
                if known != of_key:
                    parts = known.get("anyOf", [known])
                    properties[key] = {"anyOf": parts if of_key in parts else [*parts, of_key]}
        return schema
