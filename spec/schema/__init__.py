"""The JSON schema of CDI specs, for editors and other tools."""

from importlib.resources import files


def schema_text() -> str:
    """The schema as shipped. It is stricter than the engine where that helps who writes a spec.

    It demands the fields' own spelling, text where text belongs, and no null. It cannot see what JSON
    schemas cannot express: the same name or network device twice.
    """
    return files("spec.schema").joinpath("cdi-spec.json").read_text(encoding="utf-8")
