"""Lists the settings: every key of `steelyard.toml` with its type and default, and the prefix of variables."""

from steelyard.settings import Settings
from tests.interface.schemas import compact, field_lines


def lines() -> list[str]:
    """The listing, of the settings' own JSON Schema."""
    schema = Settings.model_json_schema()
    definitions = schema.pop("$defs", {})
    listed = [line for name, node in sorted(definitions.items()) for line in field_lines(name, node)]
    variables = {name: Settings.model_config.get(name) for name in ("env_prefix", "env_nested_delimiter")}
    return [*field_lines("Settings", schema), *listed, f"variables {compact(variables)}"]
